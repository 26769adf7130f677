"""The calls of an operator: which it takes, in which batch they stand, and what it owes. `interface.Calls` for those
that commit its batches; routes bring what its clients send.

A call is taken in the thread that brings it, executed and written down by the lane, and then answered. Calls of one
program and repeat that wait at the same time are executed together, others after each other.
"""

import asyncio
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eigentensor.channel import (
    Deal,
    Line,
    Offer,
    Sheet,
    Voucher,
    channel_of,
    events,
    message_of,
    pool_of,
)
from eigentensor.channel.calls import (
    ChannelStatus,
    Computation,
    DealRequest,
    PaidCall,
    Payment,
    ProgramQuote,
    Quote,
    SignedDeal,
)
from eigentensor.channel.pools import ChannelLife
from eigentensor.economics import Parameters, shares
from eigentensor.errors import (
    CallConflict,
    CallRefused,
    ChannelBusy,
    ChannelClosed,
    ExecutionError,
    ServiceBusy,
)
from eigentensor.program import Program, Role
from eigentensor.reexecution.inputs import BoundProgram, load_role
from eigentensor.store import LocalStore
from eigentensor.task import Event
from eigentensor.task.order import NONE, Domain, Order, Signer
from eigentensor_operator.calls.channels import Answer, ServedChannel, ServedProgram, Ticket
from eigentensor_operator.calls.executing import Executing
from eigentensor_operator.calls.inputs import Inputs, read_inputs
from eigentensor_operator.calls.interface import COMMIT_GAS, Call, Conclusion, Load
from eigentensor_operator.calls.lane import Lane
from eigentensor_operator.calls.ledger import Executed, Ledger
from eigentensor_operator.calls.standing import KEPT, Sheets, Standing

#: Calls that a payer is shown at once.
PAGE = 256
#: Deals that nobody has opened yet, of which the newest are kept.
DEALS = 10_000
#: Channels of a pool that are concluded at a time, and not yet on chain: each takes a message before the next commit.
CONCLUSIONS = 8


@dataclass(frozen=True, slots=True)
class Rules:
    """What of others' patience and of this machine calls may take: `reserve` blocks before the end of an epoch nothing
    is served for its batch any more; a call takes `seconds` at most, so many `waiting` in all and of one caller; deals
    are opened within `opening` blocks."""

    reserve: int = 3
    seconds: float = 10.0
    body: int = 16 << 20
    waiting: int = 256
    each: int = 32
    opening: int = 100


class CallService:
    """Calls of the pools in a ledger. Safe for several threads; `close` ends it."""

    def __init__(
        self,
        domain: Domain,
        parameters: Parameters,
        key: Signer,
        ledger: Ledger,
        shelf: LocalStore,
        programs: Sequence[ServedProgram],
        rules: Rules | None = None,
    ) -> None:
        """`key` signs deals and receipts; `shelf` is a folder for files of calls that are executed again."""
        self.domain, self.rules = domain, rules or Rules()
        self._key, self._ledger, self._shelf = key, ledger, shelf
        self._programs = {(served.root, served.weights): served for served in programs}
        self._lock = threading.RLock()
        self._offers = {pool: offer for pool, (offer, _) in ledger.pools().items()}
        self._listed = {pool: listed for pool, (_, listed) in ledger.pools().items()}
        self._quoted: set[bytes] = set()
        self._deals = ledger.deals()
        self._standing = Standing(parameters, ledger.events(), ledger.sheets())
        self._loads: dict[bytes, Load] = {}
        self._channels: dict[bytes, ServedChannel] = {}
        self._conclusions = ledger.conclusions()
        self._follow(self._standing.chain.of_channel)
        self._executing = Executing(
            domain, key, ledger, self._standing, self._lock, self._weigh,
            reserve=self.rules.reserve, seconds=self.rules.seconds,
        )  # fmt: skip
        self._lane = Lane(self._executing)

    def close(self) -> None:
        """Ends when calls under way have ended; programs and ledger are their owner's."""
        self.stop("the operator ends")
        self._lane.close()

    # ---- What is offered ----

    def offer(self, offer: Offer, programs: Mapping[bytes, int]) -> bytes:
        """Quotes an offer to clients; `programs` are those that its root names. Returns the pool. Channels of offers
        before it are still served."""
        pool = pool_of(self.domain, offer)
        with self._lock:
            self._ledger.keep_pool(pool, offer, programs)
            self._offers.setdefault(pool, offer)
            self._listed.setdefault(pool, dict(programs))
            self._quoted.add(pool)
        return pool

    def over(self) -> list[bytes]:
        """Pools in which nothing more is served: the operator was convicted there."""
        with self._lock:
            return [pool for pool in self._offers if self._standing.is_over(pool)]

    def quotes(self) -> tuple[Quote, ...]:
        """What is offered to clients, by pool."""
        with self._lock:
            pools = (pool for pool in sorted(self._quoted) if not self._standing.is_over(pool))
            return tuple(self._quote(pool, self._offers[pool]) for pool in pools)

    def _quote(self, pool: bytes, offer: Offer) -> Quote:
        listed, newest = self._listed[pool], self._standing.newest(pool)
        programs = tuple(
            ProgramQuote(served.root, min(served.repeat, listed[served.root]), served.price, served.execution.is_warm)
            for served in self._programs.values()
            if served.root in listed
        )
        number, commit_by = (newest.number, newest.commit_by) if newest else (0, 0)
        where = self.domain.chain_id, self.domain.market
        return Quote(*where, pool, offer, number, commit_by, programs, self.rules.body)

    def deal(self, request: DealRequest) -> SignedDeal:
        """A deal as it is asked for, signed. Raises CallRefused for terms that its offer does not have, ServiceBusy
        where nothing is served."""
        with self._lock:
            self._check_serving()
            offer = self._offers.get(request.pool)
            if offer is None or request.pool not in self._quoted or self._standing.is_over(request.pool):
                raise CallRefused("there is no such pool here", fix="Ask for the quotes again.")
            if not 0 < request.most <= offer.most or request.value_at_risk > offer.risk_each:
                raise CallRefused(
                    f"a deal of this pool is of 1 to {offer.most} wei and puts at most {offer.risk_each} wei at risk",
                    fix="Ask for less.",
                )
            if len(self._deals) >= DEALS:  # those that ask for many push out their own
                self._ledger.drop_deal(oldest := next(iter(self._deals)))
                del self._deals[oldest]
            terms = request.pool, request.client, request.payer, secrets.randbits(128), request.most
            deal = Deal(*terms, request.value_at_risk, self._standing.head + self.rules.opening)
            channel = channel_of(self.domain, deal)
            self._ledger.keep_deal(channel, deal)
            self._deals[channel] = deal
        return SignedDeal(deal, self._key.sign(message_of(self.domain, deal)))

    # ---- Calls ----

    def served(self, channel: bytes) -> ServedChannel:
        """A channel that is known here. Raises ChannelClosed."""
        if (known := self._channels.get(channel)) is None:
            raise ChannelClosed("this operator knows no such channel", fix="Wait for the block after its opening.")
        return known

    def status(self, channel: bytes) -> ChannelStatus:
        """Where a channel stands. Raises ChannelClosed."""
        with self._lock:
            return self.served(channel).status()

    def calls_from(self, channel: bytes, first: int) -> tuple[PaidCall, ...]:
        """Calls of a channel from an index on, as far as they are kept, at most PAGE. Raises ChannelClosed; CallRefused
        where the first one is not kept any more."""
        with self._lock:
            count = self.served(channel).status().count
        calls = self._ledger.calls(channel, first, PAGE)
        if first < count and (not calls or calls[0].receipt.index != first):
            raise CallRefused(f"call {first} is not kept any more", fix="Open another channel.")
        return tuple(call.shown() for call in calls)

    def channel_life(self, channel: bytes) -> ChannelLife:
        """What the chain shows of a channel. Raises ChannelClosed."""
        with self._lock:
            if (life := self._standing.channel(self.served(channel).pool, channel)) is None:
                raise ChannelClosed("the channel was never opened")
            return life

    def quoted(self, channel: bytes, computation: Computation) -> tuple[ServedProgram, int]:
        """The program of a call, and what it costs in wei. Raises ChannelClosed; CallRefused for what is not
        executed."""
        known = self.served(channel)
        served = self._programs.get((computation.program, computation.weights))
        if served is None or computation.program not in self._listed[known.pool]:
            raise CallRefused("this operator does not execute the program", fix="Ask for its quotes.")
        if not 1 <= computation.repeat <= min(served.repeat, self._listed[known.pool][served.root]):
            raise CallRefused(f"the program is executed 1 to {served.repeat} times", fix="Ask for fewer repeats.")
        price = served.price * computation.repeat
        if price > known.payee.offer.max_price:
            raise CallRefused("so many repeats cost more than a call of this offer may", fix="Ask for fewer repeats.")
        return served, price

    def read(self, program: Program, computation: Computation, body: bytes) -> Inputs:
        """What a body holds for a computation. Raises TensorFileError, BindingError if it does not fit; CallRefused for
        states that are not here."""
        return read_inputs(program, computation, body, self._ledger.has_blob)

    def take(
        self, channel: bytes, computation: Computation, payment: Payment, inputs: Inputs, caller: str
    ) -> "Future[Answer]":
        """Takes a call that is paid for; the future has its answer, or the error with which it is refused.

        Raises CallRefused, ChannelSpent, ChannelBusy, ChannelClosed, ServiceBusy where nothing is taken, CallConflict
        where another order stands at its index.
        """
        with self._lock:
            self._check_serving()
            served, price = self.quoted(channel, computation)
            if channel in self._conclusions:
                raise ChannelClosed("the channel is concluded")
            if inputs.root != payment.inputs:
                raise CallRefused(
                    "the inputs do not have the root in the payment", fix="Sign the root of what is sent."
                )
            known = self.served(channel)
            task = known.task_of(computation, payment)
            if payment.voucher.channel != channel:
                raise CallRefused("the voucher is of another channel", fix="Sign one of this channel.")
            replay = self._replay(known, payment, task)
            if isinstance(replay, Ticket):
                return replay.future
            self._check_waiting(caller)
            number = 0 if replay is not None else self._standing.number(known.pool, channel, self.rules.reserve)
            ticket = Ticket(
                known, served, computation, payment, task, price, inputs.inputs, inputs.states, inputs.files, number,
                caller, replay, known.generation,
            )  # fmt: skip
            if replay is None:
                self._admit(ticket)
            self._executing.waiting[caller] += 1
        self._lane.put(ticket)
        return ticket.future

    def _replay(self, known: ServedChannel, payment: Payment, task: bytes) -> Ticket | Executed | None:
        """The call that a payment repeats: one under way, or one that was executed; None: it is a new one."""
        newest = known.payee.newest
        index = payment.voucher.count - 1
        if newest is None or index >= newest.count:
            return None
        if (ticket := known.tickets.get(index)) is not None and ticket.task == task:
            return ticket
        call = self._ledger.call(known.payee.channel, index)
        if ticket is None and call is not None and call.receipt.order == task:
            return call
        raise CallConflict(f"call {index} of the channel is another one, or is over", fix="Go on from the newest.")

    def _admit(self, ticket: Ticket) -> None:
        """Takes the voucher, if the batch still has room. Raises as `take`."""
        known, offer = ticket.channel, ticket.channel.payee.offer
        taken = known.payee.taken(ticket.payment, ticket.task, ticket.price)
        share = known.load(taken.newest)
        after = self._loads.get(known.pool, Load()) - known.share + share
        if after.leaves > shares.capacity(offer.check_rate, offer.verifiers) or after.amount > offer.most:
            raise ServiceBusy("the batch at hand is full", fix="Try again when the next one is begun.")
        if after.gas > COMMIT_GAS:
            raise ServiceBusy("the batch at hand has as many channels as a block admits", fix="Try again later.")
        known.payee = taken
        known.tickets[ticket.index] = ticket
        known.share, self._loads[known.pool] = share, after

    def _check_serving(self) -> None:
        self._executing.check()
        if not self._standing.head:
            raise ServiceBusy("the chain is being read", fix="Try again in a moment.")

    def _check_waiting(self, caller: str) -> None:
        if self._executing.waiting[caller] >= self.rules.each or self._executing.waiting.total() >= self.rules.waiting:
            raise ChannelBusy("too many calls wait", fix="Try again as soon as Retry-After says.")

    # ---- Conclusions ----

    def conclude(self, channel: bytes, voucher: Voucher, payers: bytes) -> bytes:
        """The signature of a channel's last voucher, which the payer signed: no call and no batch comes after it.
        Whoever asks again has the same.

        Raises ChannelClosed for a channel that is over, ChannelBusy while calls are under way, ServiceBusy while they
        are being committed, CallRefused for another voucher than the last one, CallConflict after another one.
        """
        with self._lock:
            known, before = self.served(channel), self._conclusions.get(channel)
            if before is not None and (before.voucher, before.payers) == (voucher, payers):
                return before.signers
            if before is not None:
                raise CallConflict("the channel is concluded by another voucher", fix="Send that one to the chain.")
            if known.is_over or not self._standing.head:
                raise ChannelClosed("the channel is over on chain, or the chain is being read")
            if known.tickets:
                raise ChannelBusy("calls are under way", fix="Wait for them.")
            if self._standing.is_committing(known.pool):
                raise ServiceBusy("its calls are being committed", fix="Try again in some blocks.")
            if known.is_owed and not self._may_conclude(known.pool):
                raise ServiceBusy("its calls are about to be committed", fix="Try again in some blocks.")
            known.payee.check_last(voucher, payers)
            signers = self._key.sign(message_of(self.domain, voucher))
            conclusion = Conclusion(voucher, payers, signers, self._standing.head)
            self._ledger.keep_conclusion(conclusion)
            self._conclusions[channel] = known.conclusion = conclusion
            self._weigh(known)
        return signers

    def _may_conclude(self, pool: bytes) -> bool:
        """Whether there is time to send a last voucher before the next commit: clients cannot put that off."""
        return not self._standing.is_due(pool) and len(self.concluding(pool)) < CONCLUSIONS

    def concluding(self, pool: bytes) -> Mapping[bytes, Conclusion]:
        """See `Calls`."""
        with self._lock:
            waiting = ((name, self._channels.get(name), one) for name, one in self._conclusions.items())
            mine = ((name, known, one) for name, known, one in waiting if known and known.pool == pool)
            return {name: one for name, known, one in mine if known.is_owed and not known.is_over}

    def deal_of(self, channel: bytes) -> Deal:
        """See `Calls`."""
        return self.served(channel).deal

    # ---- Its life ----

    def stop(self, why: str) -> None:
        """Nothing is executed any more until a restart."""
        self._executing.stop(why)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which calls are executed; what serves them over HTTP runs in it best."""
        return self._lane.loop

    @property
    def stopped(self) -> str:
        """Why nothing is executed any more; empty: it is."""
        return self._executing.stopped

    def is_well(self) -> bool:
        """Whether calls are executed and written down. Raises sqlite3.Error."""
        return not self.stopped and self._ledger.is_well()

    # ---- What the chain shows: see `Calls` ----

    def pools(self) -> Mapping[bytes, Offer]:
        """See `Calls`."""
        with self._lock:
            return dict(self._offers)

    def is_wanted(self, pool: bytes) -> bool:
        """See `Calls`."""
        with self._lock:
            known = self._standing.chain.pools.get(pool)
            is_dealt = any(deal.pool == pool and deal.open_by >= self._standing.head for deal in self._deals.values())
            return is_dealt or bool(known and known.open_channels)

    def is_short(self, pool: bytes) -> bool:
        """See `Calls`."""
        with self._lock:
            return any(known.is_short for known in self._channels.values() if known.pool == pool)

    def observe(self, event: Event) -> None:
        """See `Calls`."""
        with self._lock:
            if not self._standing.observe(event, self._offers):
                return
            self._ledger.keep_event(event)
            match event:
                case events.ChannelEvent():
                    self._follow([event.channel])
                case events.Lined():
                    self._follow([event.line.channel])
                case events.Closed():
                    self._follow(self._channels)

    def advance(self, block: int) -> None:
        """See `Calls`."""
        with self._lock:
            self._standing.head = block
            late = [channel for channel, deal in self._deals.items() if deal.open_by < block - KEPT]
            if late:
                self._ledger.drop_deals(block - KEPT - 1)
                for channel in late:
                    del self._deals[channel]
            over = self._standing.forgettable()
            for pool, life in over:
                concluded = [(c, k.payee.count) for c, k in self._channels.items() if k.pool == pool and k.conclusion]
                lines = [(line.channel, line.first + line.count) for line in life.lines]
                self._ledger.forget(pool, life.number, lines + concluded)
            self._standing.forget(over)
            if over:
                self._executing.forget_states()
                for names in self._shelf:
                    if names.computed and not self._ledger.has_blob(bytes.fromhex(names.computed)):
                        self._shelf.discard(names.blob)

    def rolled_back(self, block: int) -> None:
        """See `Calls`."""
        with self._lock:
            self._ledger.drop_events(block)
            self._standing.rolled_back(block)
            for channel in self._channels.keys() - self._standing.chain.of_channel.keys():
                self._loads[self._channels[channel].pool] -= self._channels.pop(channel).share
            self._follow(self._standing.chain.of_channel)

    def _follow(self, channels: Iterable[bytes]) -> None:
        """Takes what the chain shows of channels."""
        for channel in list(channels):
            pool = self._standing.chain.of_channel.get(channel)
            life = self._standing.channel(pool, channel) if pool in self._offers else None
            if pool is None or life is None:
                continue
            if (known := self._channels.get(channel)) is None:
                known = self._channels[channel] = ServedChannel.restored(
                    self.domain, self._offers[pool], pool, channel, life, self._ledger
                )
            known.conclusion = self._conclusions.get(channel)
            known.follow(life)
            known.base = self._standing.base(pool, channel)
            self._weigh(known)

    def _weigh(self, known: ServedChannel) -> None:
        """Reckons a channel's part in its pool's load anew."""
        share = known.load(known.payee.newest)
        self._loads[known.pool] = self._loads.get(known.pool, Load()) - known.share + share
        known.share = share

    # ---- What batches need: see `Calls` ----

    def load(self, pool: bytes) -> Load:
        """See `Calls`."""
        with self._lock:
            mine = (known for known in self._channels.values() if known.pool == pool)
            return sum((known.load(known.payee.voucher) for known in mine), Load())

    def sheets(self, pool: bytes, number: int) -> tuple[Sheet, ...]:
        """See `Calls`."""
        with self._lock:
            if self.concluding(pool) and (pool, number) not in self._standing.drained:
                raise ServiceBusy("a channel is being concluded", fix="Send its last voucher to the chain before.")
            self._standing.draining.add((pool, number))
        self._lane.after(lambda: self._drain(pool, number)).result()
        with self._lock:
            return tuple(sheet for _, _, sheet in self._standing.drained[pool, number])

    def _drain(self, pool: bytes, number: int) -> None:
        """Makes the sheets of a batch, once; in the lane, where all that was executed is on disk."""
        with self._lock:
            if (pool, number) in self._standing.drained:
                return
            sheets: Sheets = []
            for channel, known in self._channels.items():
                is_served = known.pool == pool and known.conclusion is None
                may_stand = is_served and self._standing.may_stand(pool, channel, number)
                if may_stand and known.is_owed and (sheet := known.payee.sheet()) is not None:
                    sheets.append((channel, known.base[0], sheet))
            self._ledger.keep_sheets(pool, number, sheets)
            self._standing.drained[pool, number] = sheets
            self._follow([channel for channel, _, _ in sheets])

    def calls_of(self, pool: bytes, number: int) -> Sequence[Call]:
        """See `Calls`."""
        with self._lock:
            lines = self._standing.lines(pool, number)
            return [self._call(one) for line in lines for one in self._ledger.calls(*line)]

    def lines_of(self, pool: bytes, number: int) -> tuple[Line, ...]:
        """The lines of a batch that is committed; none of another one."""
        with self._lock:
            life = self._standing.batch(pool, number)
            return life.lines if life else ()

    def _call(self, executed: Executed) -> Call:
        return Call(executed.receipt, executed.signature, self._order(executed), executed.computation.variables)

    def _order(self, executed: Executed) -> Order:
        receipt, payment = executed.receipt, executed.payment
        deal = self._channels[receipt.channel].deal
        return executed.computation.order(deal, receipt.channel, receipt.index, payment.salt, payment.inputs)

    def leaves_of(self, channel: bytes) -> Sequence[bytes]:
        """See `Calls`."""
        return self._ledger.leaves(channel)

    def blob(self, root: bytes) -> bytes:
        """The inputs or states of a call that is kept, as a safetensors file. Raises BlobNotFound."""
        return self._ledger.blob(root)

    def bound_of(self, order: bytes) -> BoundProgram:
        """See `Calls`."""
        call = self._ledger.call_of(order)
        computation = call.computation
        served = self._programs.get((computation.program, computation.weights))
        if served is None:
            raise ExecutionError(
                f"program {computation.program.hex()} is not served any more", fix="Name it in CALL_PROGRAMS again."
            )
        roots = {Role.INPUT: call.payment.inputs, Role.STATE: computation.states}
        files = {role: self._exported(root) for role, root in roots.items() if root != NONE}
        tensors: dict[str, Any] = {}
        for role, path in files.items():
            tensors |= load_role(path, served.program, role)
        bound = served.execution.bound(tensors, computation.variables, computation.repeat)
        return replace(bound, files=(*bound.files, *files.values()))

    def _exported(self, root: bytes) -> Path:
        """The file of a bindings root. Raises BlobNotFound."""
        if root not in self._shelf:
            self._shelf.put(self._ledger.blob(root))
        return self._shelf.path(root)
