"""What the watcher does to the world: re-execute a result in the sandbox, challenge it, play."""

from dataclasses import dataclass
from functools import partial

from eigentensor.chain import Chain, Mined
from eigentensor.dispute import refuse
from eigentensor.errors import (
    BindingError,
    ExecutionError,
    NoSandbox,
    ProgramError,
    TensorFileError,
    WrongBits,
)
from eigentensor.player import Player
from eigentensor.program import Program
from eigentensor.program.cost import needs_of
from eigentensor.reexecution import confined
from eigentensor.reexecution.inputs import BoundProgram, fetch_bound, fetch_program, fetch_results
from eigentensor.store import GatewayClient
from eigentensor.task import Life, Order
from eigentensor.tracing import Retrace
from eigentensor_aggregator.watch.machine import Look, Verdict

#: Faults of this machine, which say nothing about the result: it is looked at again.
LOCAL = (NoSandbox, WrongBits)
#: Errors that come again however often one tries: the result cannot be verified here.
LASTING = (ProgramError, BindingError, TensorFileError, ExecutionError)


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
        self._player = self._playing(chain) if chain else None

    def funds(self) -> int:
        """Wei that bonds can be paid from: the account's balance in the market, and its tokens."""
        chain = self._chain
        return chain.market.balance_of(chain.address).balance + chain.token.balance_of(chain.address) if chain else 0

    def look(self, life: Life, blocks: int) -> Look:
        """Executes again what the executor claims to have executed, within so many blocks.

        A watcher stakes nothing on its own device: samples are rechecked, and what differs is executed twice. Raises
        StoreError where the data is not there now, NoSandbox and WrongBits where this machine is at fault.
        """
        try:
            return self._compare(life, max(1.0, blocks * self._bounds.block_seconds))
        except LOCAL:
            raise
        except LASTING as error:
            return Look(Verdict.UNABLE, " ".join(str(error).split()))

    def challenge(self, life: Life, bond: int) -> Mined:
        """Posts the bond. Raises ChainError."""
        return self._acting.market.challenge(self._acting.address, life.order, bond=bond)

    def play(self, game: int) -> Mined | None:
        """One turn of a game, or its end by the executor's clock. Raises ChainError, StoreError, ExecutionError."""
        assert self._player is not None
        return self._player.turn(game)

    def refund(self, life: Life, game: int) -> Mined:
        """Takes back the bond of a game that another's victory made idle. Raises ChainError."""
        return self._acting.market.refund(life.order, game)

    @property
    def _acting(self) -> Chain:
        assert self._chain is not None
        return self._chain

    def _compare(self, life: Life, seconds: float) -> Look:
        order = life.order
        program = fetch_program(self._gateway, order)
        if (why := self._beyond(program, order)) is not None:
            return Look(Verdict.UNABLE, why)
        claimed, limits = life.outputs_root or b"", confined.limits(self._bounds.memory, seconds)
        root, _ = confined.repeated(fetch_bound(self._gateway, order), claimed, limits, unsafe=self._bounds.unsafe)
        return Look(Verdict.AGREES if root == claimed else Verdict.DIFFERS, root.hex())

    def _playing(self, chain: Chain) -> Player:
        public = partial(fetch_results, self._gateway)
        return Player(chain, chain.address, self._load, self._retrace(chain), public=public)

    def _retrace(self, chain: Chain) -> Retrace:
        """What traces a program for a game: it may take as long as the game's clock could run at all."""
        parameters = chain.deployment.parameters
        seconds = (parameters.max_exec + parameters.clock) * self._bounds.block_seconds
        return confined.retracing(confined.limits(self._bounds.memory, seconds), unsafe=self._bounds.unsafe)

    def _load(self, _: bytes, order: Order) -> BoundProgram:
        return fetch_bound(self._gateway, order)

    def _beyond(self, program: Program, order: Order) -> str | None:
        """Why a result is not re-executed."""
        if (why := refuse(program, order.repeat)) is not None:
            return f"it could not be disputed: {why}"
        needs = needs_of(program, order.repeat)
        if needs.operations > self._bounds.operations:
            return f"it takes {needs.operations:,} operations, at most {self._bounds.operations:,} are watched"
        if needs.memory > self._bounds.memory:
            return f"it takes {needs.memory:,} bytes, at most {self._bounds.memory:,} are watched"
        return None
