"""What operators commit to, held to what a client was answered: compared always, executed again as it chooses.

It needs the ledger and an account, not the payer's key: any process of the user may watch. What it does is for the
client whoever sends it; what somebody else did first is seen at the next look.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from eigentensor import economics
from eigentensor.chain import Chain
from eigentensor.channel import BatchState, CallPlace, ChannelState, batch_of, events, open_call, open_line
from eigentensor.channel.lines import LineProof
from eigentensor.economics import shares
from eigentensor.errors import ChainError, EigenTensorError, Reverted
from eigentensor.receipt.calls import Confirmation
from eigentensor.task import Event, Order
from eigentensor_client.channels.comparing import Contradicted, Finding, Omitted, Unexplained, compare
from eigentensor_client.channels.ledger import Account, Call, Check, Committed, Ledger, Stage, leaves

LATE = 4  #: blocks after which what anybody may send is late, and sent from here
_STAGES = {ChannelState.OPEN: Stage.OPEN, ChannelState.LEFT: Stage.LEFT}
_OVER = (ChannelState.CONCLUDED, ChannelState.ENDED)


class Repeat(Protocol):
    """Executes calls again, and plays games about those that are wrong."""

    def repeat(self, account: Account, call: Call) -> bool | None:
        """Whether a call gives what its receipt says; None: this machine cannot know."""

    def turn(self, account: Account, game: int) -> None:
        """Makes the next move of a game, if it is this account's turn."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a batch came to, for people and programs."""

    number: int
    state: str
    """Of the batch, as the chain has it, in small letters."""
    what: str
    """What was found or done; empty: nothing is wrong."""


class Watch:
    """Of the channels of one ledger on one chain."""

    def __init__(self, chain: Chain, ledger: Ledger, repeat: Repeat | None = None) -> None:
        """`repeat` executes those calls again that were chosen when they were made; None: none of them."""
        self._chain, self._ledger, self._repeat = chain, ledger, repeat

    def look(self, account: Account) -> tuple[Account, list[Seen]]:
        """Looks at a channel and all its batches that are not over. Returns it as it stands now, which is written.

        Raises ChainError where the chain does not answer.
        """
        agreed, chain = account.agreement, self._chain.channels
        pool = chain.pool_at(agreed.deal.pool)
        channel = chain.channel_at(agreed.channel)
        stage = Stage.ENDED if channel.state in _OVER else _STAGES.get(channel.state, account.stage)
        account = replace(
            account, deposit=channel.deposit, paid=channel.paid, begun=max(account.begun, pool.next), stage=stage
        )  # fmt: skip
        self._ledger.update(account)
        if channel.state is ChannelState.CONCLUDED:  # all its calls are paid for good: no batch owes them any more
            return account, []
        seen, is_over = list[Seen](), True
        for number in range(account.first, pool.begun + 1):
            done, more = _Batch(self._chain, self._ledger, account, number).look(self._repeat)
            seen += more
            if done and is_over:
                account = replace(account, first=number + 1)
                self._ledger.update(account)
            is_over = is_over and done
        return account, seen


class _Batch:
    """One batch of a channel, in one look."""

    def __init__(self, chain: Chain, ledger: Ledger, account: Account, number: int) -> None:
        self._chain, self._ledger, self._account, self._number = chain, ledger, account, number
        agreed = account.agreement
        self._offer, self._deal, self._channel = agreed.offer, agreed.deal, agreed.channel
        self._id = batch_of(self._deal.pool, number)
        self._block = chain.node.block_number()
        self._batch = chain.channels.batch_at(self._id)
        self._seen: list[Seen] = []

    def look(self, repeat: Repeat | None) -> tuple[bool, list[Seen]]:
        """Whether nothing more can come of it, and what there is to say."""
        state = self._batch.state
        if state is BatchState.BEGUN:
            self._look_at_lateness()
            return False, self._seen
        if not self._batch.committed_at:
            if state is BatchState.CONVICTED:
                return self._fetch_prize(), self._seen
            return state.is_terminal, self._seen
        happened = self._events()
        committed = self._committed(happened)
        self._compare(happened, committed)
        if committed is not None:
            committed = replace(committed, state=state.name.lower(), checks=self._checks(happened, committed))
            self._ledger.commit(self._account, committed)
            if repeat is not None:
                self._execute_again(repeat, happened, committed)
                self._play(repeat, happened)
        self._move_on()
        return self._settle(happened, committed), self._seen

    def _events(self) -> list[Event]:
        return list(self._chain.history.calls(self._batch.begun_at, topics=(None, [self._id])))

    # ---- What was committed ----

    def _committed(self, happened: Sequence[Event]) -> Committed | None:
        """The channel's line; None: the batch has none."""
        lined = sorted((e for e in happened if isinstance(e, events.Lined)), key=lambda event: event.position)
        for event in lined:
            if event.line.channel == self._channel:
                known = {one.number: one for one in self._ledger.lines(self._channel)}
                proof = open_line([one.line for one in lined], event.position)
                before = known.get(self._number)
                return replace(before, proof=proof) if before else Committed(self._number, proof, event.place.block)
        return None

    def _compare(self, happened: Sequence[Event], committed: Committed | None) -> None:
        calls, line = self._ledger.responded(self._channel), committed.line if committed else None
        finding = compare(calls, self._number, self._count_before(), line, None)
        if finding is not None and committed is not None and not isinstance(finding, Omitted):
            sheets = []
            with suppress(ChainError):
                (place,) = (event.place for event in happened if isinstance(event, events.Committed))
                sheets = [s for s in self._chain.channels.sheets_of(place.transaction) if s.deal == self._deal]
            finding = compare(calls, self._number, self._count_before(), line, sheets[0] if sheets else None)
        if finding is not None:
            self._act(finding, committed)

    def _count_before(self) -> int:
        earlier = [one.line for one in self._ledger.lines(self._channel) if one.number < self._number]
        return earlier[-1].first + earlier[-1].count if earlier else 0

    def _look_at_lateness(self) -> None:
        """A batch that was not committed in time owes what its receipts promise."""
        commit_by = self._chain.channels.windows_of(self._offer, self._number).commit_by
        if self._block > commit_by:
            calls, count = self._ledger.responded(self._channel), self._chain.channels.channel_at(self._channel).count
            finding = compare(calls, self._number, count, None, None)
            over = commit_by + self._chain.deployment.parameters.challenge
            if finding is not None and self._block <= over:
                self._act(finding, None)
            if self._block > over + LATE:
                with suppress(Reverted):  # somebody else was faster
                    self._chain.channels.close(self._offer, self._number)
                    self._say("closed: it was not committed in time")

    def _act(self, finding: Finding, committed: Committed | None) -> None:
        """Sends the evidence, where the batch can still be convicted."""
        if isinstance(finding, Unexplained):
            self._say(f"the line cannot be explained: {finding.why}")
            return
        left_out = isinstance(finding, Omitted)
        what = f"call {finding.call.index} was {'left out' if left_out else 'committed with another result'}"
        if not self._batch.state.is_terminal:
            try:
                self._prove(finding, committed)
                what += ": convicted"
            except Reverted as error:  # somebody else was faster, or it is too early or too late for it
                what += f": {error.what}"
        self._say(what)

    def _prove(self, finding: Omitted | Contradicted, committed: Committed | None) -> None:
        response = finding.call.response
        assert response is not None
        evidence = (self._offer, self._deal, response.receipt, response.signature)
        if isinstance(finding, Omitted):
            self._chain.channels.accuse(*evidence)
        elif committed is not None:
            self._chain.channels.contradict_leaf(
                *evidence, self._number, committed.proof, finding.leaf, finding.path
            )  # fmt: skip

    # ---- Checks ----

    def _checks(self, happened: Sequence[Event], committed: Committed) -> tuple[Check, ...]:
        """Which calls of the line were drawn, each with the verifiers that confirm it."""
        seed = self._chain.channels.seed_block_of(self._id)
        mix = self._chain.market.seed_of(seed) if seed and self._block > seed else None
        if mix is None:
            return committed.checks
        leaves, offer, line = self._batch.leaves, self._offer, committed.line
        operators = {e.index + 1: e.operator for e in happened if isinstance(e, events.Answered)}
        slots = [e.slot for e in happened if isinstance(e, events.Revealed) and e.agrees]
        checks = []
        for share in range(shares.shares(leaves, offer.verifiers)):
            own = [slot for slot in slots if (slot - 1) // _CANDIDATES == share]
            confirmed = tuple(Confirmation(slot, operators.get(slot, "")) for slot in own)
            drawn = shares.numbers(mix, self._id, leaves, offer.check_rate, offer.verifiers, share)
            checks += [Check(number, confirmed) for number in drawn if line.index_of(number) is not None]
        return tuple(checks)

    def _execute_again(self, repeat: Repeat, happened: Sequence[Event], committed: Committed) -> None:
        """Calls that were chosen when they were made. One that is wrong keeps its inputs: a game is about it."""
        line, is_open = committed.line, self._batch.state is BatchState.COMMITTED
        challenged = {e.order.nonce for e in happened if isinstance(e, events.Challenged) and self._is_own(e)}
        done: list[int] = []
        for call in self._ledger.chosen(self._channel, line.first, line.first + line.count):
            order = call.order_in(self._deal, self._channel)
            if order.nonce in challenged:
                continue
            try:
                result = repeat.repeat(self._account, call)
            except EigenTensorError as error:
                self._say(f"call {call.index} cannot be executed again: {error.what}")
                continue
            if result is False and is_open:
                self._challenge(call, order, committed)
            else:
                done.append(call.index)
        if done:
            self._ledger.executed_again(self._channel, *done)

    def _challenge(self, call: Call, order: Order, committed: Committed) -> None:
        line, p = committed.line, self._chain.deployment.parameters
        known = leaves(self._ledger.responded(self._channel))
        place = CallPlace(committed.proof, open_call(line, known, call.receipt), order)
        what = f"call {call.index} is wrong, as this machine computes it"
        try:
            self._chain.channels.challenge(
                self._chain.address, self._offer, self._number, place, once=f"challenge {call.order.hex()}",
                bond=economics.bond(p, self._offer.max_price),
            )  # fmt: skip
            self._say(f"{what}: challenged")
        except ChainError as error:  # without the bond, or too late
            self._say(f"{what}, and cannot be challenged: {error.what}")

    def _play(self, repeat: Repeat, happened: Sequence[Event]) -> None:
        ended = {event.game_id for event in happened if isinstance(event, events.GameEnded)}
        for event in happened:
            if isinstance(event, events.Challenged) and self._is_own(event) and event.game_id not in ended:
                try:
                    repeat.turn(self._account, event.game_id)
                except EigenTensorError as error:  # the next look tries again: its clock is longer
                    self._say(f"game {event.game_id}: {error.what}")

    def _is_own(self, event: events.Challenged) -> bool:
        is_mine = event.challenger.lower() == self._chain.address.lower()
        return is_mine and event.order.operators == self._channel

    # ---- What follows ----

    def _move_on(self) -> None:
        """Sends what anybody may send, where nobody did in time."""
        if self._batch.state is not BatchState.COMMITTED:
            return
        windows, seed = self._chain.channels.windows_of(self._offer, self._number), 0
        with suppress(Reverted):  # somebody else was faster
            if self._block > windows.dispute_by + LATE:
                self._chain.channels.close(self._offer, self._number)
                self._say("closed")
            else:
                seed = self._chain.channels.seed_block_of(self._id)
                if self._block > seed + LATE and self._chain.market.seed_of(seed) is None:
                    self._chain.market.seed(seed)

    def _settle(self, happened: Sequence[Event], committed: Committed | None) -> bool:
        state = self._batch.state
        if not state.is_terminal:
            return False
        if committed is not None and state in (BatchState.FINAL, BatchState.CONVICTED) and not committed.refunded:
            refunded = any(isinstance(e, events.Refunded) and e.channel == self._channel for e in happened)
            if not refunded and self._chain.channels.payback_at(self._id).left:
                self._refund(committed.proof)
            self._ledger.commit(self._account, replace(committed, state=state.name.lower(), refunded=True))
        return self._fetch_prize() if state is BatchState.CONVICTED else True

    def _refund(self, proof: LineProof) -> None:
        with suppress(Reverted):  # somebody else was faster
            self._chain.channels.refund(self._offer, self._number, [proof])
            self._say("what the line gets back was fetched")

    def _fetch_prize(self) -> bool:
        """Slashes for whoever convicted by this client's evidence, and has it paid. Whether nothing is due any more."""
        judgment = self._chain.channels.judgment_at(self._id)
        if judgment.winner.lower() != self._deal.client.lower():
            return True
        with suppress(Reverted):  # EigenLayer is paused, or it is not payable yet: later
            if not judgment.slashed:
                self._chain.channels.slash(self._offer, self._number)
                self._say("the operator's stake was slashed")
                return False
            for event in (e for e in self._events() if isinstance(e, events.Slashed)):  # slashed since the look began
                if self._chain.stake.note_of(event.slash_id).amount:
                    if self._block < self._chain.stake.payable_from(event.slash_id):
                        return False
                    self._chain.stake.pay_bounty(event.slash_id)
                    self._say("half of the slashed stake was paid")
            return True
        return False

    def _say(self, what: str) -> None:
        self._seen.append(Seen(self._number, self._batch.state.name.lower(), what))


_CANDIDATES = 16  # of a share


class Watching:
    """A thread that looks again and again, until the block ends. What goes wrong in a look ends nothing."""

    def __init__(self, look: Callable[[], object], seconds: float) -> None:
        self._look, self._seconds = look, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="channels", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it, after a look that goes on."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            with suppress(EigenTensorError):  # the chain is away: the next look sees it all
                self._look()
