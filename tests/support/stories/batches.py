"""A chain of blocks for the machine of batches: messages get into the next block, and must be in their windows.

What a message is worth is judged by `BatchLife`, which integration tests hold to the contracts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from eigentensor.channel import BatchState, Breach, CallProof, Deal, Line, Offer, events, lines_root, pool_of
from eigentensor.channel.life import BatchLife
from eigentensor.channel.pools import Pools
from eigentensor.channel.signed import batch_of
from eigentensor.dispute import Phase, Position, Reason
from eigentensor.economics import WAD
from eigentensor.task import NONE, Event, Order, Place, Seeded, commitment
from eigentensor.task.events import Ended, Opened
from eigentensor_operator.batches.case import SENT, Case, Doubt, Drawn, Seal, Step
from eigentensor_operator.batches.events import (
    Do,
    Done,
    Doubted,
    Fetched,
    Head,
    Looked,
    Outcome,
    Sealed,
    Serving,
    Undone,
)
from eigentensor_operator.batches.machine import step
from eigentensor_operator.batches.state import Batches
from eigentensor_operator.calls.interface import Load
from eigentensor_operator.events import RolledBack
from eigentensor_operator.policy import Code
from eigentensor_operator.policy import Reason as Why
from support.stories.operator import DOMAIN, ME, OTHER, PARAMETERS, POLICY, STANDING, THIRD

PRICE = WAD // 10_000
OFFER = Offer(
    operator=ME, signer=ME, nonce=1, max_price=PRICE, check_price=PRICE // 2, most=1000 * PRICE, risk_each=0,
    risk_all=0, check_rate=WAD // 10, verifiers=2, exec=20, epoch=100, tail=8, programs=b"\5" * 32,
)  # fmt: skip
OTHERS = replace(OFFER, operator=OTHER, signer=OTHER)
POOL, POOL_OF_OTHER = pool_of(DOMAIN, OFFER), pool_of(DOMAIN, OTHERS)
MIX, ROOT, SALT, TASK = b"\x0a" * 32, b"\x0b" * 32, b"\x0c" * 32, b"\x0d" * 32
DEAL = Deal(POOL, THIRD, THIRD, 1, 500 * PRICE, 0, 1 << 40)
CHANNEL = b"\x0e" * 32


def an_order() -> Order:
    return Order(
        client=THIRD, nonce=0, semantics=1, program=b"\5" * 32, inputs=b"\6" * 32, weights=NONE, states=NONE,
        variables=NONE, repeat=1, min_price=0, max_price=0, ramp_start=0, ramp_length=0, check_fee=0, check_rate=0,
        verifiers=0, value_at_risk=0, exec=0, accept_by=0, operators=CHANNEL,
    )  # fmt: skip


@dataclass
class Blocks:
    """Blocks in which the operator's messages land, and what others do. `calls` come in one a block while there is a
    batch that takes them, from block to block as `calling` says."""

    batches: Batches = field(default_factory=lambda: Batches(POLICY, DOMAIN, Pools(PARAMETERS)))
    block: int = 10
    balance: int = 10 * WAD
    offers: dict[bytes, Offer] = field(default_factory=lambda: {POOL: OFFER})
    wanted: bool = True
    calling: Callable[[int], int] = lambda block: 0
    index: int | None = 0
    result: Doubt | None = None
    load: Load = field(default_factory=Load)
    drained: dict[int, Load] = field(default_factory=dict)
    sent: list[tuple[int, Step]] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    ignored: frozenset[Step] = frozenset()
    concluding: int | None = None
    silent: bool = False
    withheld: frozenset[int] = frozenset()
    judged: list[tuple[Doubt | None, Why | None]] = field(default_factory=list)
    lost: bool = False
    short: bool = False
    draining: bool = False
    testing: bool = False
    faulty: bool = False
    _logs: int = 0
    _shaken: set[Do] = field(default_factory=set)
    _pending: list[Do] = field(default_factory=list)

    # ---- Time ----

    def place(self, block: int) -> Place:
        self._logs += 1
        return Place(block, self._logs, block.to_bytes(32, "big"), block.to_bytes(32, "little"))

    def feed(self, *happened: Event) -> None:
        for event in happened:
            self._take(step(self.batches, event))

    def mine(self, blocks: int = 1) -> None:
        """So many blocks, with what is due in each."""
        for _ in range(blocks):
            self.block += 1
            self.load = replace(self.load, **self._more())
            due, self._pending = self._pending, []
            outcomes = [self._land(do) for do in due]
            self._take(step(self.batches, self.at()))
            for outcome in outcomes:
                self._take(step(self.batches, outcome))

    def until(self, is_there: Callable[[], bool], most: int = 2000) -> None:
        for _ in range(most):
            if is_there():
                return
            self.mine()
        raise AssertionError(f"not in {most} blocks: {self.sent}")

    def _more(self) -> dict[str, int]:
        calls = self.calling(self.block) if self.serves() else 0
        leaves = self.load.leaves + calls
        return {"leaves": leaves, "amount": leaves * PRICE, "lines": min(1, leaves), "tails": min(8, leaves)}

    def serves(self) -> bool:
        """Whether a batch takes calls, as the endpoint sees it."""
        waiting = self.batches.pools.uncommitted(POOL, self.block + POLICY.reserve)
        return any(life.number not in self.drained for life in waiting)

    def at(self) -> Head:
        about = self.load, self.wanted, self.short, self.concluding
        serving = {pool: Serving(offer, *about) for pool, offer in self.offers.items()}
        return Head(
            replace(STANDING, block=self.block), self.balance, WAD, serving, draining=self.draining,
            testing=self.testing, faulty=self.faulty,
        )  # fmt: skip

    # ---- Messages ----

    def _take(self, decided: tuple[Batches, tuple[Do, ...]]) -> None:
        self.batches, actions = decided
        for do in actions:
            self._do(do)

    def _do(self, do: Do) -> None:
        """A step is under way: a message lands in the next block, which tells of it."""
        if do.step in self.ignored:
            return
        self._pending.append(do)

    def _land(self, do: Do) -> Outcome:
        """What a step comes to in this block; what a reorganisation took the ground from is refused."""
        if do.subject in self.offers:
            refused = do.step is Step.BEGIN and do.subject not in self.batches.pools.pools
        else:
            life = self.batches.pools.batches.get(do.subject)
            refused = life is None or not _is_possible(life, do.step)
            if life is not None and not refused and do in self._shaken and do.step in SENT:
                refused = self._early_or_late(life, do.step, self.block) is not None
        self._shaken.discard(do)
        if refused:
            return Undone(do.subject, do.step, Why(Code.CHAIN, "the market's consent", "none", False), do.number)
        if do.step not in SENT:
            return self._own(do)
        self.sent.append((self.block, do.step))
        self.feed(*self._message(do, self.block))
        return Done(do.subject, do.step, self.block, do.number)

    def _own(self, do: Do) -> Outcome:
        """What needs no message."""
        life = self.batches.pools.batches[do.subject]
        match do.step:
            case Step.LOOK:
                assert life.mix is not None
                return Looked(do.subject, Drawn(life.mix, self.index))
            case Step.FETCH:
                assert self.index is not None
                numbers = life.numbers(self.index // 16)
                withheld = tuple(number for number in numbers if number in self.withheld or self.silent)
                no = Why(Code.DATA, "a share", "a part of it", lasting=False)
                return Fetched(do.subject, withheld, no if withheld else None)
            case Step.JUDGE if self.lost:
                return Undone(do.subject, do.step, Why(Code.DATA, "a program", "none", lasting=False))
            case Step.JUDGE if self.judged:
                return Doubted(do.subject, do.step, *self.judged.pop(0))
            case Step.EXECUTE | Step.JUDGE if self.result is not None:
                return Doubted(do.subject, do.step, self.result)
            case Step.EXECUTE if self.batches.cases[do.subject].withheld:
                return Done(do.subject, do.step)
            case Step.EXECUTE:
                assert self.index is not None
                return Sealed(do.subject, Seal(self.index, ROOT, SALT))
            case _:
                return Done(do.subject, do.step)

    def _message(self, do: Do, block: int) -> Iterator[Event]:
        place = self.place
        if do.subject in self.offers:
            pool, offer = do.subject, self.offers[do.subject]
            match do.step:
                case Step.OFFER:
                    yield events.Offered(place(block), pool, ME, offer)
                case Step.BEGIN:
                    yield self.begun(pool, block)
                case Step.CONCLUDE:
                    self.concluding = None
            return
        life = self.batches.pools.batches[do.subject]
        if (text := self._early_or_late(life, do.step, block)) is not None:
            self.late.append(text)
        match do.step:
            case Step.COMMIT:
                load = self.drained.setdefault(life.number, self.load)
                self.load = Load()
                yield from self.committed(life.batch, load.leaves, block)
            case Step.SEED:
                yield Seeded(place(block), life.seed_block, MIX)
            case Step.REVEAL_ROOTS:
                yield events.RootsRevealed(place(block), life.batch, (ROOT,) * life.shares)
            case Step.CLOSE:
                state = BatchState.LAPSED if life.committed_at is None else BatchState.FINAL
                yield events.Closed(place(block), life.batch, state, 0, 0)
            case Step.ANSWER:
                case = self.batches.cases[life.batch]
                assert case.seal is not None
                hidden = commitment(DOMAIN, life.batch, ME, case.seal.index + 1, ROOT, SALT)
                yield events.Answered(place(block), life.batch, case.seal.index, ME, hidden)
            case Step.REVEAL:
                answer = life.answer_by(ME)
                assert answer is not None
                agrees = life.revealed_at is None or life.roots[answer.share] == ROOT
                yield events.Revealed(place(block), life.batch, answer.slot, ROOT, agrees)
            case Step.SETTLE:
                answer = life.answer_by(ME)
                assert answer is not None
                yield events.Settled(place(block), life.batch, answer.slot, ME, life.payout(answer))
            case Step.DEMAND:
                doubt = self.batches.cases[life.batch].doubt
                assert doubt is not None
                yield events.Demanded(place(block), life.batch, doubt.number, ME, doubt.leaves, block + life.clock)
            case Step.SHOW:
                for demand in life.open_demands:
                    yield from self.shown(life.batch, demand.number, *([b""] * len(demand.leaves)))
            case Step.DENOUNCE:
                yield events.Convicted(place(block), life.batch, Breach.DEMAND, ME)
            case Step.DENOUNCE_SHARE:
                yield events.Convicted(place(block), life.batch, Breach.DEMAND, ME)
            case Step.SLASH:
                yield events.Slashed(place(block), life.batch, 1, 1, ME)
            case Step.OUTSIDE:
                yield events.Convicted(place(block), life.batch, Breach.OUTSIDE, ME)
            case Step.CHALLENGE:
                position = Position(TASK, life.offer.operator, ME, Phase.PUBLISH, block, life.clock, life.clock)
                at = place(block)
                yield Opened(at, TASK, 1, ME, position)
                bond, order = life.bond, an_order()
                yield events.Challenged(replace(at, index=at.index + 1), life.batch, 1, ME, bond, 0, order, ROOT)
                self._logs += 1
            case Step.TIMEOUT:
                yield Ended(place(block), TASK, do.number, True, Reason.CLOCK)
                yield events.GameEnded(place(block), life.batch, do.number, ME, True)
                yield events.Convicted(place(block), life.batch, Breach.VERDICT, ME)

    def _early_or_late(self, life: BatchLife, step_: Step, block: int) -> str | None:
        """Why the contracts refuse a message that is too early or too late."""
        committed = life.committed_at is not None
        windows: dict[Step, tuple[int, int]] = {Step.COMMIT: (life.begun_at + 1, life.commit_by)}
        if committed:
            windows |= {
                Step.SEED: (life.seed_block + 1, life.record_by),
                Step.ANSWER: (life.seed_block + 1, life.check_by),
                Step.REVEAL_ROOTS: (life.check_by + 1, life.reveal_by),
                Step.REVEAL: ((life.revealed_at or life.reveal_by) + 1, life.answers_by),
                Step.DEMAND: (life.seed_block, life.demand_by),
                Step.CHALLENGE: (life.seed_block, life.dispute_by),
                Step.OUTSIDE: (life.seed_block, life.dispute_by),
            }
        if life.close_from is not None:
            windows[Step.CLOSE] = life.close_from, 1 << 60
        first, last = windows.get(step_, (0, 1 << 60))
        if first <= block <= last:
            return None
        return f"{step_} of batch {life.number} in block {block}, its window is {first} to {last}"

    # ---- What happens ----

    def shown(self, batch: bytes, number: int, *leaves: bytes) -> Iterator[Event]:
        """A call of a batch is shown in this block, and these leaves of what it binds are."""
        proof = CallProof(0, TASK, ROOT, ())
        yield events.Shown(self.place(self.block), batch, number, an_order(), b"", proof)
        for leaf, data in enumerate(leaves):
            yield events.LeafShown(self.place(self.block), batch, number, leaf, data)

    def begun(self, pool: bytes, block: int) -> events.Begun:
        offer = {**self.offers, POOL_OF_OTHER: OTHERS}[pool]
        number = self.batches.pools.pools[pool].begun + 1
        return events.Begun(self.place(block), pool, number, batch_of(pool, number), block + offer.epoch, 0)

    def committed(self, batch: bytes, leaves: int, block: int) -> Iterator[Event]:
        line = Line(CHANNEL, ROOT, 0, leaves, 0, leaves * PRICE)
        yield events.Lined(self.place(block), batch, 0, line)
        yield events.Committed(self.place(block), batch, lines_root([line]), 1, leaves, leaves * PRICE)

    def others(self, leaves: int = 100) -> bytes:
        """A batch of another operator, committed in the next block; its name."""
        block = self.block + 1
        self.feed(events.Offered(self.place(block), POOL_OF_OTHER, OTHER, OTHERS))
        self.feed(self.begun(POOL_OF_OTHER, block))
        batch = batch_of(POOL_OF_OTHER, 1)
        self.feed(*self.committed(batch, leaves, block))
        self.mine()
        return batch

    def life(self, number: int = 1) -> BatchLife:
        name = batch_of(POOL, number)
        return self.batches.pools.batches.get(name) or BatchLife(name, number, OFFER, PARAMETERS)

    def case(self, batch: bytes) -> Case:
        return self.batches.cases[batch]

    def blocks_of(self, wanted: Step) -> list[int]:
        return [block for block, one in self.sent if one is wanted]

    def roll_back(self, block: int) -> None:
        """Blocks after `block` are gone."""
        self.block = block
        self._shaken = set(self._pending)
        self._take(step(self.batches, RolledBack(block)))


def _is_possible(life: BatchLife, wanted: Step) -> bool:
    """Whether the batch is where a step was decided for."""
    if wanted in (Step.COMMIT, Step.CLOSE) and life.state is BatchState.BEGUN:
        return wanted is Step.COMMIT or life.close_from is not None
    if life.state is BatchState.CONVICTED:
        return wanted in (Step.HALT, Step.SETTLE, Step.SLASH, Step.REFUND, Step.REFUND_BOND)
    return life.committed_at is not None and (life.mix is not None or wanted in (Step.SEED, Step.CLOSE))
