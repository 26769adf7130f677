"""Doing what the machine of batches asks for: each step blocks, and comes back as the event that tells how it ended."""

import random
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

from eigentensor import merkle
from eigentensor.chain import Chain, Mined, Opening
from eigentensor.channel import CallPlace, Offer, Sheet, open_outside, share_root
from eigentensor.channel.life import BatchLife, CallDemand
from eigentensor.dispute import refuse
from eigentensor.errors import (
    BindingError,
    BlobTooLarge,
    ChainError,
    ChannelError,
    ConfigError,
    EigenTensorError,
    ExecutionError,
    LimitError,
    NotDisputable,
    ProgramError,
    Reverted,
    StoreError,
    TaskError,
    WrongBits,
)
from eigentensor.player import Player
from eigentensor.program import Role
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.task import NONE, Leaf, Order, commitment
from eigentensor.task.candidates import DRAWS
from eigentensor_operator.batches import checking, own, showing
from eigentensor_operator.batches.case import Case, Doubt, Seal, Step
from eigentensor_operator.batches.drawing import drawn_seats
from eigentensor_operator.batches.events import Done, Doubted, Fetched, Looked, Outcome, Sealed, Undone
from eigentensor_operator.batches.fetching import Placed, Sources
from eigentensor_operator.batches.state import Batches
from eigentensor_operator.calls.interface import Calls
from eigentensor_operator.device import Device, Warm
from eigentensor_operator.policy import Code, Reason
from eigentensor_operator.steps import NO_ROOM, reason_of

_SHARES = 8  # fetched shares that stay in memory
_AT_ONCE = 8  # messages of one step that are on their way together
_PATIENCE = 4  # calls that are waited for in vain, of one share at a time
_NOT_DEMANDED = "NotDemanded"
T = TypeVar("T")
_OF_CALLS = (Role.INPUT, Role.STATE)  # what calls of one program and its weights differ by


class Steps:
    """The operator's hands. Steps of one strand never run at the same time, all others may."""

    def __init__(
        self, chain: Chain, calls: Calls | None, sources: Sources, device: Device, drain_file: Path, player: str
    ) -> None:
        """`calls` are those that this operator serves, if it does; `player` is the operator."""
        self._chain, self._calls, self._sources, self._device = chain, calls, sources, device
        self._drain_file, self._operator = drain_file, player
        self._shares: OrderedDict[bytes, list[Placed]] = OrderedDict()
        self._disputed: dict[bytes, str] = {}
        self._lock = Lock()
        self._player: Player | None = None
        self._doing: Mapping[Step, Callable[[Batches, Case, BatchLife], Outcome]] = {
            Step.COMMIT: self._commit, Step.SEED: self._seed, Step.JUSTIFY: self._justify, Step.SHOW: self._show,
            Step.LOOK: self._look, Step.FETCH: self._fetch, Step.EXECUTE: self._execute, Step.JUDGE: self._judge,
            Step.REFUND: self._refund, Step.HALT: self._halt,
        }  # fmt: skip
        self._sending: Mapping[Step, Callable[[Batches, Case, BatchLife], Mined]] = {
            Step.REVEAL_ROOTS: self._reveal_roots, Step.ANSWER: self._answer, Step.REVEAL: self._reveal,
            Step.DEMAND: self._demand, Step.CHALLENGE: self._challenge, Step.OUTSIDE: self._outside,
            Step.DENOUNCE: self._denounce, Step.DENOUNCE_SHARE: self._denounce_share, Step.SETTLE: self._settle,
            Step.REFUND_BOND: self._refund_bond,
            Step.CLOSE: lambda _, __, life: chain.channels.close(life.offer, life.number),
            Step.SLASH: lambda _, __, life: chain.channels.slash(life.offer, life.number),
        }  # fmt: skip

    # ---- Steps ----

    def do_for_pool(self, step: Step, batches: Batches, pool: bytes, number: int) -> Outcome:
        """One step of an own pool. Expected errors come back as Undone."""
        serving = batches.serving(pool)
        assert serving is not None
        offer, known = serving.offer, batches.pools.pools.get(pool)
        begun = known.begun if known else 0
        try:
            match step:
                case Step.OFFER:
                    mined = self._chain.channels.offer(offer)
                case Step.DEPOSIT:
                    mined = self._deposit(number, f"begin {pool.hex()} {begun + 1}")
                case Step.CONCLUDE:
                    return Done(pool, step, self._conclude(offer, pool) or batches.head + 1)
                case _:
                    mined = self._chain.channels.begin(offer, once=f"begin {pool.hex()} {begun + 1}")
            return Done(pool, step, mined.block)
        except (EigenTensorError, *NO_ROOM) as error:
            return Undone(pool, step, _reason_of(error))

    def do(self, step: Step, batches: Batches, batch: bytes, number: int) -> Outcome:
        """One step of a batch; `number` is the game, or the wei of a deposit. Expected errors come back as Undone."""
        case, life = batches.cases[batch], batches.pools.batches[batch]
        try:
            match step:
                case Step.PLAY | Step.TIMEOUT:
                    mined = self._play(step, batches, life, number)
                    return Done(batch, step, mined.block if mined else 0, number)
                case Step.DEPOSIT:
                    what = "answer" if case.doubt is None else f"doubt {len(life.demands)}"
                    return Done(batch, step, self._deposit(number, f"{what} {batch.hex()}").block)
                case _ if step in self._sending:
                    return Done(batch, step, self._sending[step](batches, case, life).block)
                case _:
                    return self._doing[step](batches, case, life)
        except (EigenTensorError, *NO_ROOM) as error:
            return Undone(batch, step, _reason_of(error), number if step in (Step.PLAY, Step.TIMEOUT) else 0)

    def forget(self, batch: bytes) -> None:
        """Frees what is kept for a batch that is over."""
        with self._lock:
            self._shares.pop(batch, None)

    def _deposit(self, amount: int, what: str) -> Mined:
        """Out of the signer's own tokens, once for each need."""
        return self._chain.channels.deposit(self._operator, amount, once=f"deposit {amount} for {what}")

    def _conclude(self, offer: Offer, pool: bytes) -> int:
        """The block of the newest transaction; 0 where clients were faster."""
        calls, block = self._served(), 0
        for channel, last in calls.concluding(pool).items():
            with suppress(Reverted):
                arguments = (calls.deal_of(channel), last.voucher, last.payers, last.signers)
                block = max(block, self._chain.channels.conclude(offer, *arguments).block)
        return block

    # ---- Own batches ----

    def _served(self) -> Calls:
        if self._calls is None:
            raise ConfigError("this operator serves no calls", fix="Start it with --calls, as before.")
        return self._calls

    def _commit(self, batches: Batches, case: Case, life: BatchLife) -> Outcome:
        sheets = self._served().sheets(batches.pools.pool_of[life.batch], life.number)
        if not sheets:
            return Undone(case.batch, Step.COMMIT, Reason(Code.DATA, "calls to commit", "none", lasting=False))
        return Done(case.batch, Step.COMMIT, self._sent_commit(life, sheets).block)

    def _sent_commit(self, life: BatchLife, sheets: tuple[Sheet, ...]) -> Mined:
        return self._chain.channels.commit(life.offer, life.number, sheets)

    def _seed(self, _: Batches, case: Case, life: BatchLife) -> Outcome:
        recorded = self._chain.market.seed_of(life.seed_block) is not None
        return Done(case.batch, Step.SEED, 0 if recorded else self._chain.market.seed(life.seed_block).block)

    def _shown(self, batches: Batches, life: BatchLife) -> showing.Shown:
        return showing.Shown(self._served(), batches.pools.pool_of[life.batch], life)

    def _reveal_roots(self, batches: Batches, _: Case, life: BatchLife) -> Mined:
        shown = self._shown(batches, life)
        roots = [shown.root(share) for share in range(life.shares)]
        return self._chain.channels.reveal_roots(life.offer, life.number, roots)

    def _justify(self, batches: Batches, case: Case, life: BatchLife) -> Outcome:
        shown = self._shown(batches, life)
        missing = [
            (demand.share, part)
            for demand in life.open_share_demands
            for part in range(life.parts(demand.share))
            if part not in demand.parts
        ]
        blocks = self._together([partial(self._justify_part, life, shown, *one) for one in missing])
        return Done(case.batch, Step.JUSTIFY, max(blocks, default=0))

    def _justify_part(self, life: BatchLife, shown: showing.Shown, share: int, number: int) -> Mined:
        return self._chain.channels.justify(life.offer, life.number, life.roots, shown.part(share, number))

    def _show(self, batches: Batches, case: Case, life: BatchLife) -> Outcome:
        """All that is demanded, at once; what the chain does not wait for any more is closed."""
        shown, closed = self._shown(batches, life), set[CallDemand]()
        wanted = [demand for demand in life.open_demands if demand not in case.closed]
        blocks = self._together([partial(self._show_call, life, shown, demand, closed) for demand in wanted])
        return Done(case.batch, Step.SHOW, max(blocks, default=0), closed=frozenset(closed))

    def _show_call(
        self, life: BatchLife, shown: showing.Shown, demand: CallDemand, closed: set[CallDemand]
    ) -> Mined | None:
        number, leaves = demand.number, demand.leaves
        what = shown.place(number), shown.variables(number), leaves, shown.proofs(demand)
        try:
            return self._chain.channels.show(life.offer, life.number, *what)
        except Reverted as error:
            if error.name != _NOT_DEMANDED:
                raise
            closed.add(demand)
            return None

    def _together(self, messages: Sequence[Callable[[], Mined | None]]) -> list[int]:
        """Sends them all, whatever becomes of some; the blocks. Raises the first error when all are through."""
        with ThreadPoolExecutor(_AT_ONCE, "together") as pool:
            futures = [pool.submit(message) for message in messages]
        return [mined.block for future in futures if (mined := future.result()) is not None]

    def _refund(self, _: Batches, case: Case, life: BatchLife) -> Outcome:
        positions = list(life.unrefunded())[: own.REFUNDS]
        mined = self._chain.channels.refund(life.offer, life.number, showing.lines(life, positions))
        return Done(case.batch, Step.REFUND, mined.block)

    def _halt(self, _: Batches, case: Case, __: BatchLife) -> Outcome:
        self._drain_file.touch()
        return Done(case.batch, Step.HALT)

    # ---- Shares of others ----

    def _look(self, batches: Batches, case: Case, life: BatchLife) -> Outcome:
        mix, drawn = drawn_seats(self._chain, life)
        assert life.committed_at is not None
        block, executor = batches.head + 1, life.offer.operator
        return Looked(case.batch, checking.drawn_of(mix, drawn, self._operator, executor, life.committed_at, block))

    def _fetch(self, _: Batches, case: Case, life: BatchLife) -> Outcome:
        """The calls of the share and all that they bind: what cannot be disputed is no evidence. In a random order, and
        no longer than some are withheld: whoever lets others wait must not hide a call behind them."""
        assert case.drawn is not None and case.drawn.index is not None
        share = case.drawn.index // DRAWS
        try:
            calls = self._share(life, share)
        except EigenTensorError as error:
            return Fetched(case.batch, tuple(_shuffled(life.numbers(share))), _reason_of(error))
        programs, withheld, reasons = self._sources.programs(life.offer), list[int](), list[Reason]()
        for call in _shuffled(calls):
            if programs is not None and open_outside(programs, call.shown.order) is not None:
                return Doubted(case.batch, Step.FETCH, Doubt(call.number, is_outside=True))
            if len(withheld) >= _PATIENCE and not self._sources.is_here(call.shown.order):
                withheld.append(call.number)
                continue
            try:
                self._bound(life, call)
            except StoreError as error:
                withheld.append(call.number)
                reasons.append(_reason_of(error))
            except (BindingError, NotDisputable, ProgramError) as error:
                reasons.append(_reason_of(error))
        lasting = next((reason for reason in reasons if reason.lasting), None)
        return Fetched(case.batch, tuple(withheld), lasting or next(iter(reasons), None))

    def _execute(self, batches: Batches, case: Case, life: BatchLife) -> Outcome:
        """Each call that is here, before any is answered for; each program stays warm meanwhile. All together have the
        blocks that the offer gives them: longer they would keep the device from tasks."""
        assert case.drawn is not None and case.drawn.index is not None
        until = time.monotonic() + life.offer.exec * batches.policy.block_seconds
        calls, roots = self._share(life, case.drawn.index // DRAWS), []
        with ExitStack() as stack:
            warm: dict[tuple[bytes, bytes], Warm] = {}
            for call in calls:
                if (bound := self._bound_for(life, case, call)) is None:
                    continue
                order = call.shown.order
                key = order.program, order.weights
                if key not in warm:
                    weights = None if order.weights == NONE else self._sources.fetch(life.offer.operator, order.weights)
                    warm[key] = self._device.warm(bound.program, weights, _left(until))
                    stack.callback(warm[key].close)
                mine = {name: bound.tensors[name] for role in _OF_CALLS for name in bound.program.named(role)}
                results = warm[key].execute(mine, bound.variables, bound.repeat, _left(until))
                root = merkle.results_root(bound.program, results)
                if merkle.result_of(root) != call.shown.result:
                    return self._differs(batches, case, life, call, root)
                roots.append(root)
        if not case.fetched:
            return Done(case.batch, Step.EXECUTE)
        return Sealed(case.batch, Seal(case.drawn.index, share_root(roots), secrets.token_bytes(32)))

    def _differs(self, batches: Batches, case: Case, life: BatchLife, call: Placed, root: bytes) -> Outcome:
        """Whoever contradicts stakes a bond on its device: it gives the same again, in a process of its own."""
        if (again := self._root(batches, self._bound(life, call))) != root:
            raise WrongBits(f"this device gives {root.hex()}, and then {again.hex()}")
        return Doubted(case.batch, Step.EXECUTE, Doubt(call.number, root))

    def _judge(self, batches: Batches, case: Case, life: BatchLife) -> Outcome:
        """A call that was withheld, and then shown: executed with what its operator serves now, or with leaves of what
        it binds, which are demanded as well. Nothing comes of one that is too large for that."""
        assert case.doubt is not None
        doubt, programs = case.doubt, self._sources.programs(life.offer)
        try:
            call, place = self._shown_call(life, doubt.number)
            if not place.is_named() or (programs is not None and open_outside(programs, place.order) is not None):
                return Doubted(case.batch, Step.JUDGE, replace(doubt, is_outside=True))
            if leaves := self._missing(life, doubt, call):
                return Doubted(case.batch, Step.JUDGE, replace(doubt, leaves=leaves))
            root = self._root(batches, self._bound(life, call))
        except WrongBits:
            raise
        except (BindingError, BlobTooLarge, ExecutionError, NotDisputable, ProgramError) as error:
            return Doubted(case.batch, Step.JUDGE, None, _reason_of(error))
        if merkle.result_of(root) != call.shown.result:
            return self._differs(batches, case, life, call, root)
        late = Reason(Code.DATA, "a share that is served in time", "a right call, shown late", lasting=False)
        return Doubted(case.batch, Step.JUDGE, None, late)

    def _missing(self, life: BatchLife, doubt: Doubt, call: Placed) -> tuple[Leaf, ...]:
        """The leaves that are to be demanded of what a shown call binds; none: all that it binds is here. Raises
        StoreError, ProgramError, BindingError."""
        if (missing := self._sources.missing(life.offer.operator, call.shown.order)) is None:
            return ()
        wanted = missing.leaves()
        for event, leaves in life.shown:
            if event.number == call.number and len(leaves) == len(wanted):
                with suppress(BindingError):
                    for data in missing.files(leaves).values():
                        self._sources.store.put(data)
                    return ()
        if wanted == doubt.leaves:
            raise BindingError("the order binds tensors that are not of its program")
        return wanted

    def _answer(self, batches: Batches, case: Case, life: BatchLife) -> Mined:
        assert case.seal is not None
        seal = case.seal
        hidden = commitment(batches.domain, life.batch, self._operator, seal.index + 1, seal.root, seal.salt)
        return self._chain.channels.answer(self._operator, life.offer, life.number, seal.index, hidden)

    def _reveal(self, _: Batches, case: Case, life: BatchLife) -> Mined:
        assert case.seal is not None
        opening = Opening(life.batch, case.seal.root, case.seal.salt, case.seal.index + 1)
        return self._chain.channels.reveal(life.offer, life.number, life.roots, opening)

    def _demand(self, _: Batches, case: Case, life: BatchLife) -> Mined:
        assert case.doubt is not None
        return self._chain.channels.demand(life.offer, life.number, case.doubt.number, case.doubt.leaves)

    def _challenge(self, _: Batches, case: Case, life: BatchLife) -> Mined:
        assert case.doubt is not None
        place = self._shown_call(life, case.doubt.number)[1]
        key = f"challenge {life.batch.hex()} {case.doubt.number}"
        return self._chain.channels.challenge(self._operator, life.offer, life.number, place, once=key)

    def _outside(self, _: Batches, case: Case, life: BatchLife) -> Mined:
        assert case.doubt is not None
        place = self._shown_call(life, case.doubt.number)[1]
        programs = self._sources.programs(life.offer) or {}
        entries = open_outside(programs, place.order) if place.is_named() else None
        return self._chain.channels.outside(life.offer, life.number, place, entries or (), len(programs))

    def _shown_call(self, life: BatchLife, number: int) -> tuple[Placed, CallPlace]:
        """A call that was shown on chain, and all that leads to it."""
        if (event := life.shown_call(number)) is None:
            raise ChainError("the call is not shown", fix="A reorganisation took that away; it will be shown again.")
        call = Placed.shown_by(event, life)
        return call, call.place(life, event.call.outputs_root)

    def _denounce(self, batches: Batches, case: Case, life: BatchLife) -> Mined:
        for demand in life.open_demands:
            is_own = demand.by == self._operator or (case.doubt and demand.number == case.doubt.number)
            if is_own and batches.head >= demand.show_by and demand not in case.closed:
                return self._chain.channels.denounce(life.offer, life.number, demand.number, demand.leaves)
        raise ChainError("nothing is to be denounced", fix="It was shown meanwhile.")

    def _denounce_share(self, _: Batches, __: Case, life: BatchLife) -> Mined:
        answer = life.answer_by(self._operator)
        assert answer is not None
        return self._chain.channels.denounce_share(life.offer, life.number, answer.share)

    def _settle(self, _: Batches, __: Case, life: BatchLife) -> Mined:
        answer = life.answer_by(self._operator)
        indices = own.won(life) if answer is None else [answer.index]
        return self._chain.channels.settle(life.offer, life.number, indices)

    def _refund_bond(self, _: Batches, __: Case, life: BatchLife) -> Mined:
        number = next(iter(checking.idle_bonds(life, self._operator)))
        return self._chain.channels.refund_bond(life.offer, life.number, life.games[number].task, number)

    # ---- Data and execution ----

    def _share(self, life: BatchLife, share: int) -> list[Placed]:
        with self._lock:
            known = self._shares.get(life.batch)
        if known is None:
            known = self._sources.share(life, share)
            with self._lock:
                self._shares[life.batch] = known
                while len(self._shares) > _SHARES:
                    self._shares.popitem(last=False)
        return known

    def _bound_for(self, life: BatchLife, case: Case, call: Placed) -> BoundProgram | None:
        """What a call binds; None: its share is not all here, and this call is not."""
        try:
            return None if call.number in case.withheld else self._bound(life, call)
        except (BindingError, NotDisputable, ProgramError):
            if case.fetched:
                raise
            return None

    def _bound(self, life: BatchLife, call: Placed) -> BoundProgram:
        """What a call binds. Raises NotDisputable where nothing could come of a game about it."""
        bound = self._sources.bound(life.offer.operator, call)
        if (reason := refuse(bound.program, bound.repeat)) is not None:
            raise NotDisputable(reason)
        return bound

    def _root(self, batches: Batches, bound: BoundProgram) -> bytes:
        results = self._device.execute(bound, _seconds(batches), secrets.token_bytes(32))
        return merkle.results_root(bound.program, results)

    def _play(self, step: Step, batches: Batches, life: BatchLife, number: int) -> Mined | None:
        position = life.games[number].position
        assert position is not None
        self._disputed[position.task] = life.offer.operator
        if step is Step.TIMEOUT:
            return self._chain.call_games.timeout(number, position)
        with self._lock:
            if self._player is None:
                retrace = self._device.retrace(batches.policy)
                self._player = Player(self._chain, self._operator, self._load, retrace, calls=True)
        return self._player.turn(number)

    def _load(self, task: bytes, order: Order) -> BoundProgram:
        """What the order of a game binds: of an own call, or of one of a share."""
        operator = self._disputed[task]
        if operator == self._operator:
            return self._served().bound_of(task)
        return self._sources.bound_by(operator, order)


def _shuffled(some: Sequence[T]) -> list[T]:
    return random.SystemRandom().sample(some, len(some))


def _left(until: float) -> float:
    """Seconds that are left. Raises LimitError where none are."""
    if (left := until - time.monotonic()) <= 0:
        raise LimitError("the calls of the share take longer than the offer gives them")
    return left


def _seconds(batches: Batches) -> float:
    """That one call may take: nobody knows what its operator allowed it."""
    return batches.policy.parameters.max_exec * batches.policy.block_seconds


def _reason_of(error: Exception) -> Reason:
    """What an error means for a batch: whatever others say can be better the next time."""
    if isinstance(error, TaskError | ChannelError):
        text = " ".join((str(error) or repr(error)).split())
        return Reason(Code.DATA, "what an operator owes its verifiers", text, lasting=False)
    return reason_of(error)
