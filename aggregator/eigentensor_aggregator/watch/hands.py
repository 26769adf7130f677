"""What the watcher does to the world: re-execute a result in the sandbox, challenge it, play."""

import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from eigentensor import merkle, sample
from eigentensor.bound import Bound, Tensors, fetch_bound, fetch_program
from eigentensor.chain import Chain, Order, Receipt
from eigentensor.dispute import refuse
from eigentensor.errors import BindingError, BlobTooLarge, ExecutionError, ProgramError, TensorFileError, WrongBits
from eigentensor.player import Player
from eigentensor.program import Program, encode
from eigentensor.program.binding import Results
from eigentensor.program.cost import costs
from eigentensor.runtime.sandbox import Limits, run_sandboxed
from eigentensor.store import GatewayClient
from eigentensor.tracing.observed import observed_by
from eigentensor_aggregator.tasks import TaskView
from eigentensor_aggregator.watch.machine import Look, Verdict

#: Address space of the interpreter and its libraries, and of results in transit.
OVERHEAD = 4 << 30
#: Errors that come again however often one tries: the result cannot be verified here.
LASTING = (ProgramError, BindingError, TensorFileError, BlobTooLarge, ExecutionError)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What re-executing one result may cost: evaluations of instructions, and bytes of its tensors. `unsafe` does
    without the sandbox."""

    operations: int
    memory: int
    block_seconds: float
    unsafe: bool = False


class Hands:
    """With a `chain`, challenges and plays as its account; without, only looks."""

    def __init__(self, gateway: GatewayClient, bounds: Bounds, chain: Chain | None) -> None:
        self._gateway = gateway
        self._bounds = bounds
        self._chain = chain
        self._paying = Lock()  # one bond after the other: each looks at the balance first
        self._player = Player(chain, chain.address, self._load, observed_by(self._run)) if chain else None

    def funds(self) -> int:
        """Wei that bonds can be paid from: the account's balance in the market, and its tokens."""
        chain = self._chain
        return chain.balance_of(chain.address).balance + chain.tokens_of(chain.address) if chain else 0

    def look(self, view: TaskView, blocks: int) -> Look:
        """Executes again what the executor claims to have executed, within so many blocks.

        A watcher stakes nothing on its own device: samples are rechecked, and what differs is executed twice. Raises
        StoreError where the data is not there now.
        """
        try:
            return self._compare(view, max(1.0, blocks * self._bounds.block_seconds))
        except LASTING as error:
            return Look(Verdict.UNABLE, " ".join(str(error).split()))

    def challenge(self, view: TaskView, bond: int) -> Receipt:
        """Posts the bond. Raises ChainError."""
        chain = self._acting
        with self._paying:
            if (missing := bond - chain.balance_of(chain.address).balance) > 0:
                chain.ensure_allowance(chain.deployment.task_market, missing)
            return chain.challenge(chain.address, view.order)

    def play(self, game: int) -> Receipt | None:
        """One turn of a game, or its end by the executor's clock. Raises ChainError, StoreError, ExecutionError."""
        assert self._player is not None
        return self._player.turn(game)

    def refund(self, view: TaskView, game: int) -> Receipt:
        return self._acting.refund(view.order, game)

    @property
    def _acting(self) -> Chain:
        assert self._chain is not None
        return self._chain

    def _compare(self, view: TaskView, seconds: float) -> Look:
        order = view.order
        program = fetch_program(self._gateway, order)
        if (why := self._beyond(program, order)) is not None:
            return Look(Verdict.UNABLE, why)
        bound = fetch_bound(self._gateway, order)
        root = self._execute(bound, seconds)
        if root == view.outputs_root:
            return Look(Verdict.AGREES, root.hex())
        again = self._execute(bound, seconds)
        if again != root:
            raise WrongBits(f"this device gives {root.hex()}, and then {again.hex()}")
        return Look(Verdict.DIFFERS, root.hex())

    def _execute(self, bound: Bound, seconds: float) -> bytes:
        """The outputs root, of which a new random sample was recomputed with the reference. Raises ExecutionError."""
        seed, unsafe = secrets.token_bytes(32), self._bounds.unsafe
        chosen = sample.choose(bound.program, bound.repeat, seed)
        observed = encode(sample.observed(bound.program, chosen))
        limits = self._limits(seconds)
        results = run_sandboxed(observed, bound.files, bound.variables, bound.repeat, limits, unsafe=unsafe)
        sample.recheck(bound, chosen, results, seed)
        return merkle.results_root(bound.program, sample.separate(bound.program, results))

    def _run(self, program: Program, tensors: Tensors, variables: Mapping[str, int]) -> Results:
        """An iteration of a program that is traced for a game: it may take as long as its clock could run at all."""
        assert self._chain is not None
        parameters = self._chain.deployment.parameters
        limits = self._limits((parameters.max_exec + parameters.clock) * self._bounds.block_seconds)
        return run_sandboxed(encode(program), tensors, variables, 1, limits, unsafe=self._bounds.unsafe)

    def _limits(self, seconds: float) -> Limits:
        threads = os.cpu_count() or 1
        return Limits(self._bounds.memory + OVERHEAD, seconds, math.ceil(seconds * threads), threads)

    def _load(self, _: bytes, order: Order) -> Bound:
        return fetch_bound(self._gateway, order)

    def _beyond(self, program: Program, order: Order) -> str | None:
        """Why a result is not re-executed."""
        if (why := refuse(program, order.repeat)) is not None:
            return f"it could not be disputed: {why}"
        cost = costs(program)
        if (operations := cost.evaluations * order.repeat) > self._bounds.operations:
            return f"it takes {operations:,} operations, at most {self._bounds.operations:,} are watched"
        if cost.all_bytes > self._bounds.memory:
            return f"it takes {cost.all_bytes:,} bytes, at most {self._bounds.memory:,} are watched"
        return None
