"""The cast of the operator's stories: a market, an order, an operator, and a way to tell what happens."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from eigentensor.dispute import Phase, Position
from eigentensor.economics import WAD, Parameters, is_drawn
from eigentensor.program.cost import Needs
from eigentensor.task import (
    Accepted,
    Answered,
    Cancelled,
    Cause,
    Challenged,
    Closed,
    Committed,
    Convicted,
    Domain,
    Failed,
    Life,
    Opened,
    Order,
    Place,
    Posted,
    Revealed,
    Seeded,
    State,
    TaskEvent,
    commitment,
)
from eigentensor_operator.case import Candidacy, Case, Seal, Step
from eigentensor_operator.events import Do, Done, Event, Executed, Head, Inspected, Looked
from eigentensor_operator.machine import step
from eigentensor_operator.policy import Backing, Policy, Standing
from eigentensor_operator.state import Operator

ME, OTHER, THIRD = ("0x" + byte * 20 for byte in ("11", "22", "44"))
TASK, SECOND = b"\xaa" * 32, b"\xbb" * 32
PARAMETERS = Parameters(
    max_exec=60, lag=2, grid=1, record=50, check=10, reveal=10, challenge=10, clock=60, margin=50,
    eta=WAD // 4, g_def=3 * WAD // 1000, g_miss=WAD // 1000, check_floor=WAD // 20, phi=WAD, sybils=WAD // 3,
    stake_margin=WAD * 5 // 4, min_stake=WAD // 100, g_chk=WAD // 1000, g_chunk=WAD // 1000, other_seats=2,
    confirmations=2,
)  # fmt: skip
DOMAIN = Domain(31337, "0x" + "77" * 20)
POLICY = Policy(ME, PARAMETERS, DOMAIN, operations_per_second=1e6, block_seconds=1.0)
NEEDS = Needs(operations=1_000_000, memory=1024)
SEAL = Seal(b"\1" * 32, b"\2" * 32)
WRONG = b"\x0f" * 32
PRICE = WAD // 100
STANDING = Standing(
    block=10, balance=WAD, collateral=0, cap=WAD, delay=1000, member=True,
    stake=10 * WAD, locked=0, stake_cap=10 * WAD, seats=1, other_seats=3, backing=Backing(lasting=10 * WAD),
)  # fmt: skip


def mix_of(task: bytes, drawn: bool) -> bytes:
    """A random value that draws the task of `an_order`, or does not."""
    mixes = (bytes([n]) * 32 for n in range(256))
    return next(mix for mix in mixes if is_drawn(mix, task, an_order().check_rate) is drawn)


def sealed_by(operator: str, task: bytes = TASK, slot: int = 0, seal: Seal = SEAL) -> bytes:
    return commitment(DOMAIN, task, operator, slot, seal.outputs_root, seal.salt)


def an_order(**changes: Any) -> Order:
    terms: dict[str, Any] = {
        "client": "0x" + "33" * 20, "nonce": 1, "semantics": 1, "program": b"\5" * 32, "inputs": b"\6" * 32,
        "weights": bytes(32), "states": bytes(32), "variables": bytes(32), "repeat": 1, "min_price": PRICE,
        "max_price": PRICE, "ramp_start": 0, "ramp_length": 0, "check_fee": PRICE + WAD // 1000,
        "check_rate": WAD // 5, "verifiers": 1, "value_at_risk": 0, "exec": 20, "accept_by": 100,
        "operators": bytes(32),
    }  # fmt: skip
    return Order(**terms | changes)


def at(block: int, index: int = 0) -> Place:
    return Place(block, index, block.to_bytes(32, "big"), bytes(32))


def a_position(
    phase: Phase, since: int, *, executor: str = ME, challenger: str = OTHER, task: bytes = TASK
) -> Position:
    """Of a game with 80 blocks on both clocks."""
    return Position(task, executor, challenger, phase, since, executor_left=80, challenger_left=80)


def a_life(task: bytes = TASK, **terms: Any) -> Life:
    """A task of which the chain showed nothing yet."""
    return Life(task, an_order(**terms), PARAMETERS)


def reaches(
    state: State, block: int, *, task: bytes = TASK, order: Order | None = None, executor: str = "", claim: bytes = b""
) -> TaskEvent:
    """The event that brings a task to a state; `claim`: commitment or outputs root."""
    place, order = at(block), order or an_order()
    match state:
        case State.OPEN:
            return Posted(place, task, order.client, order)
        case State.ACCEPTED:
            return Accepted(place, task, executor, PRICE, 0)
        case State.COMMITTED:
            return Committed(place, task, claim)
        case State.REVEALED:
            return Revealed(place, task, 0, claim)
        case State.FINAL:
            return Closed(place, task, PRICE, 0)
        case State.CONVICTED:
            return Convicted(place, task, Cause.VERDICT, THIRD, 0)
        case State.FAILED:
            return Failed(place, task, 0, 0)
    return Cancelled(place, task)


@dataclass
class Story:
    """An operator and what it has been told."""

    operator: Operator = field(default_factory=lambda: Operator(POLICY))
    standing: Standing = STANDING

    def handle(self, event: Event) -> tuple[Do, ...]:
        self.operator, actions = step(self.operator, event)
        return actions

    def head(self, block: int, deadlines: Mapping[bytes, int] | None = None) -> tuple[Do, ...]:
        self.standing = replace(self.standing, block=block)
        return self.handle(Head(self.standing, deadlines or {}))

    def quiet(self, *blocks: int) -> None:
        """Nothing is done at these heads."""
        for block in blocks:
            assert self.head(block) == ()

    def posted(self, task: bytes = TASK, *, block: int = 10, **terms: Any) -> None:
        self.noted(reaches(State.OPEN, block, task=task, order=an_order(**terms)))

    def seen(self, state: State, block: int, *, task: bytes = TASK, executor: str = "", claim: bytes = b"") -> None:
        self.noted(reaches(state, block, task=task, executor=executor, claim=claim))

    def noted(self, *events: Seeded | TaskEvent) -> None:
        for event in events:
            assert self.handle(event) == ()

    def seeded(self, block: int, *, drawn: bool, task: bytes = TASK) -> None:
        """The seed of the task's commitment is recorded in `block`."""
        self.noted(Seeded(at(block), self.case(task).life.seed_block, mix_of(task, drawn)))

    def case(self, task: bytes = TASK) -> Case:
        return self.operator.cases[task]

    @property
    def idle(self) -> bool:
        """Nothing accepted or answered is unfinished."""
        return all(self.operator.is_finished(case) for case in self.operator.cases.values())

    # ---- An own task: posted in 10, accepted in 11, committed in 12, seed block 14 ----

    def fetched(self, task: bytes = TASK) -> tuple[Do, ...]:
        """All that the order names is here, and its program is prepared, unless it was for another task."""
        known = self.operator.is_prepared(self.case(task))
        actions = self.handle(Done(task, Step.FETCH))
        if known:
            return actions
        assert actions == (Do(Step.PREPARE, task),)
        return self.handle(Done(task, Step.PREPARE))

    def until_accept(self, task: bytes = TASK, **terms: Any) -> None:
        """Posted in block 10, looked at, and the acceptance is on its way."""
        self.posted(task, **terms)
        assert self.head(10) == (Do(Step.INSPECT, task),)
        assert self.handle(Inspected(task, NEEDS)) == (Do(Step.FETCH, task),)
        assert self.fetched(task) == (Do(Step.ACCEPT, task),)

    def until_execute(self, task: bytes = TASK, **terms: Any) -> None:
        """Accepted in block 11, executing."""
        self.until_accept(task, **terms)
        assert self.handle(Done(task, Step.ACCEPT, 11)) == ()
        self.seen(State.ACCEPTED, 11, task=task, executor=ME)
        assert self.head(11) == (Do(Step.EXECUTE, task),)

    def until_commit(self, task: bytes = TASK) -> None:
        """Executed, and the commitment is on its way."""
        self.until_execute(task)
        assert self.handle(Executed(task, SEAL)) == (Do(Step.COMMIT, task),)

    def until_seed(self, task: bytes = TASK) -> None:
        """Committed in block 12: block 14 will decide about the draw."""
        self.until_commit(task)
        assert self.handle(Done(task, Step.COMMIT, 12)) == ()
        self.seen(State.COMMITTED, 12, task=task, claim=sealed_by(ME, task))
        assert self.head(12) == ()

    def until_reveal(self, task: bytes = TASK, *, drawn: bool = False) -> None:
        """The seed is recorded in block 15, and the reveal is on its way: at head 16, or 44 if the task is drawn."""
        self.until_seed(task)
        self.seeded(15, drawn=drawn, task=task)
        self.quiet(15, *((16, 30, 43) if drawn else ()))
        assert self.head(44 if drawn else 16) == (Do(Step.REVEAL, task),)

    def until_upload(self, task: bytes = TASK, *, drawn: bool = False) -> None:
        """Revealed in block 17 (45 if drawn), and the results go to the gateway."""
        self.until_reveal(task, drawn=drawn)
        block = 45 if drawn else 17
        assert self.handle(Done(task, Step.REVEAL, block)) == ()
        self.seen(State.REVEALED, block, task=task, claim=SEAL.outputs_root)
        assert self.head(block) == (Do(Step.UPLOAD, task),)

    def until_delivered(self, task: bytes = TASK, *, drawn: bool = False) -> None:
        self.until_upload(task, drawn=drawn)
        assert self.handle(Done(task, Step.UPLOAD)) == ()

    # ---- A game about it ----

    def challenged(self, block: int, game: int = 1, challenger: str = OTHER) -> None:
        """Somebody challenges the result: the operator is to publish."""
        self.noted(
            Challenged(at(block), TASK, game, challenger, WAD),
            Opened(at(block, 1), TASK, game, challenger, a_position(Phase.PUBLISH, block, challenger=challenger)),
        )

    # ---- Somebody else's task: accepted in 11, committed in 12, seed block 14, checkBy 44, revealBy 74 ----

    def until_drawn(self, *, drawn: bool = True, **terms: Any) -> None:
        """Committed by another operator, and its seed is recorded in block 15."""
        self.posted(**terms)
        self.seen(State.ACCEPTED, 11, executor=OTHER)
        self.seen(State.COMMITTED, 12, claim=b"\x0c" * 32)
        self.quiet(12)
        self.seeded(15, drawn=drawn)

    def until_check(self, *, index: int = 0, rank: int = 0) -> None:
        """Drawn, and an own seat may send an answer."""
        self.until_drawn()
        assert self.head(15) == (Do(Step.LOOK, TASK),)
        candidacy = Candidacy(mix_of(TASK, True), index, frozenset([OTHER, THIRD][:rank]))
        assert self.handle(Looked(TASK, candidacy)) == (Do(Step.INSPECT, TASK),)

    def until_answer(self, *, index: int = 0) -> None:
        """Executed, and the answer is on its way."""
        self.until_check(index=index)
        assert self.handle(Inspected(TASK, NEEDS)) == (Do(Step.FETCH, TASK),)
        assert self.fetched() == (Do(Step.EXECUTE, TASK),)
        assert self.handle(Executed(TASK, SEAL)) == (Do(Step.ANSWER, TASK),)

    def until_answered(self, *, index: int = 0) -> None:
        """Answered in block 16."""
        self.until_answer(index=index)
        assert self.handle(Done(TASK, Step.ANSWER, 16)) == ()
        self.noted(Answered(at(16), TASK, index, ME, sealed_by(ME, slot=index + 1)))
        self.quiet(16, 44)

    def until_opened(self, root: bytes = SEAL.outputs_root) -> None:
        """The executor revealed `root` in block 45; the own answer is open in block 46."""
        self.until_answered()
        self.seen(State.REVEALED, 45, claim=root)
        assert self.head(45) == (Do(Step.REVEAL, TASK),)
        assert self.handle(Done(TASK, Step.REVEAL, 46)) == ()
        self.noted(Revealed(at(46), TASK, 1, SEAL.outputs_root))
