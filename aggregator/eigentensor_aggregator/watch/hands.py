"""What the watcher does to the world: re-execute a result in the sandbox, challenge it, play."""

import math
import os
from dataclasses import dataclass

from eigentensor import merkle
from eigentensor.bound import fetch_bound, fetch_program
from eigentensor.chain import Chain, Order, Receipt
from eigentensor.dispute import refuse
from eigentensor.errors import BindingError, BlobTooLarge, ExecutionError, ProgramError, TensorFileError
from eigentensor.program import Program, encode
from eigentensor.program.cost import costs
from eigentensor.runtime.sandbox import Limits, run_sandboxed
from eigentensor.store import GatewayClient
from eigentensor.tracing import retrace
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

    def funds(self) -> int:
        """Wei that bonds can be paid from: the account's balance in the market, and its tokens."""
        chain = self._chain
        return chain.balance_of(chain.address).balance + chain.tokens_of(chain.address) if chain else 0

    def look(self, view: TaskView, blocks: int) -> Look:
        """Executes again what the executor claims to have executed, within so many blocks.

        A result that differs is computed once more by the reference, call by call: a watcher stakes nothing on its own
        device. Raises StoreError where the data is not there now.
        """
        try:
            return self._compare(view, max(1.0, blocks * self._bounds.block_seconds))
        except LASTING as error:
            return Look(Verdict.UNABLE, " ".join(str(error).split()))

    def challenge(self, view: TaskView, bond: int) -> Receipt:
        """Posts the bond. Raises ChainError."""
        chain = self._acting
        if (missing := bond - chain.balance_of(chain.address).balance) > 0:
            chain.ensure_allowance(chain.deployment.task_market, missing)
        return chain.challenge(chain.address, view.order)

    def play(self, view: TaskView, game: int) -> Receipt | None:
        """One turn of a game, if it is ours. Raises ChainError, StoreError."""
        raise NotImplementedError

    def refund(self, view: TaskView, game: int) -> Receipt:
        return self._acting.refund(view.order, game)

    @property
    def _acting(self) -> Chain:
        assert self._chain is not None
        return self._chain

    def _compare(self, view: TaskView, seconds: float) -> Look:
        order, bounds = view.order, self._bounds
        program = fetch_program(self._gateway, order)
        if (why := self._beyond(program, order)) is not None:
            return Look(Verdict.UNABLE, why)
        bound = fetch_bound(self._gateway, order)
        threads = os.cpu_count() or 1
        limits = Limits(bounds.memory + OVERHEAD, seconds, math.ceil(seconds * threads), threads)
        results = run_sandboxed(
            encode(program), bound.files, bound.variables, bound.repeat, limits, unsafe=bounds.unsafe
        )
        root = merkle.results_root(program, results)
        if root == view.outputs_root:
            return Look(Verdict.AGREES, root.hex())
        true = retrace(program, bound.tensors, bound.variables, bound.repeat).outputs
        if true != root:
            return Look(Verdict.UNABLE, f"this device is faulty: it gives {root.hex()}, the reference {true.hex()}")
        return Look(Verdict.DIFFERS, root.hex())

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
