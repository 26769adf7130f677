"""Calls through one channel: signed, written down, sent, verified, written down. It knows no chain.

Calls stand in order, as many at once as the offer lets. A refusal of the oldest one drops those behind it, which are
signed anew. Where no response comes a call stays under way: the next caller, in this process or another, sends the same
bytes first.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from eigentensor import merkle
from eigentensor.channel import CallReceipt, Voucher, hash_of, is_signed_by, message_of, task_of
from eigentensor.channel.calls import SALT, CallResponse, Computation, PaidCalls, Payment, SignedVoucher
from eigentensor.channel.payer import Payer, Sent
from eigentensor.channel.shown import CallsRequest
from eigentensor.errors import (
    CallConflict,
    ChannelClosed,
    ChannelError,
    EigenTensorError,
    NoResponse,
    WrongReceipt,
    WrongResult,
)
from eigentensor.store.tensors import parse_flat
from eigentensor.task import NONE
from eigentensor.task.signatures import Signer
from eigentensor_client.channels.endpoint import PATIENCE, Endpoint
from eigentensor_client.channels.ledger import Account, Call, Ledger, Stage

_MILLION = 1_000_000
_LOOK = 0.05  # seconds between looks at what another process has under way


@dataclass(frozen=True, slots=True)
class Request:
    """A call that somebody wants: what is to be computed, on which inputs, for how much."""

    computation: Computation
    body: bytes
    """The inputs, and states that the operator does not have, a safetensors file; empty where there are none."""
    price: int
    """Wei."""
    inputs: bytes
    """The bindings root of the inputs; zeros: there are none."""
    salt: int | None = None
    """The random part of its order's nonce, by which `Ledger.calls_of` has it again; None: a new one."""


#: Takes a call with its verified outputs, as they came, before the ledger has its response: what it does not keep is
#: lost where the process ends then. Whatever it raises leaves the call under way.
Keep = Callable[[Call, bytes], None]


def kept_nowhere(call: Call, outputs: bytes) -> None:
    """For those that want the outputs of calls that they wait for alone."""


@dataclass(frozen=True, slots=True)
class Response:
    """The outputs of a call, as they came, and the receipt of the operator: they have the root that it signed."""

    call: Call
    outputs: bytes
    """A safetensors file."""

    @property
    def receipt(self) -> CallReceipt:
        """The operator's receipt."""
        return self.call.receipt

    @property
    def states(self) -> bytes:
        """The bindings root of the new states, which the operator keeps; zeros: there are none."""
        return self.call.response.states if self.call.response else NONE


@dataclass(eq=False, slots=True)
class _Turn:
    """A call under way, in this process. `is_first`: it was the oldest one when it was sent."""

    call: Call
    is_first: bool
    is_dropped: bool = False


class Caller:
    """Of one channel; for several threads at once."""

    def __init__(
        self, ledger: Ledger, account: Account, key: Signer, endpoint: Endpoint, token: str, recheck: int = 0,
        keep: Keep = kept_nowhere,
    ) -> None:  # fmt: skip
        """`key` is the payer's. `recheck`: of a million calls so many are kept, to be executed again."""
        self._ledger, self._key, self._endpoint, self._token = ledger, key, endpoint, token
        self._account, self._payer = account, ledger.payer(account)
        self._channel = account.agreement.channel
        self._recheck, self._keep = recheck, keep
        self._turn = threading.Condition()
        self._turns: list[_Turn] = []
        self._dropped = 0  # calls that were dropped, whose requests have not ended
        self._broken = bool(self._payer.sent)  # calls are under way that nobody waits for
        self._is_lent = False  # somebody else sends one

    # ---- What there is ----

    @property
    def account(self) -> Account:
        """The channel as it stands."""
        return self._account

    @property
    def payer(self) -> Payer:
        """What is signed so far."""
        return self._payer

    # ---- Calls ----

    def call(self, request: Request, seconds: float = PATIENCE) -> Response:
        """The response to a call: its outputs have the root that its receipt is signed for.

        Raises ChannelClosed, ChannelSpent before anything is signed; ChannelError where the operator refuses, and
        nothing is owed for it; NoResponse, WrongReceipt, WrongResult after which the call is under way: `resume` takes
        it up. Where another process signed the same place with the same key, its calls are taken into the ledger, and
        this one is signed anew behind them.
        """
        end = time.monotonic() + seconds
        while True:
            turn = self._signed(request, end)
            response = self._finished(turn, end)
            if response is not None:
                return response

    def resume(self, seconds: float = PATIENCE) -> list[Response]:
        """Sends the calls again that are under way and that nobody waits for, the same bytes, and takes their
        responses. Those that the operator never took are dropped: nothing is owed for them. Raises as `call`."""
        end = time.monotonic() + seconds
        with self._turn:
            return self._resumed(end)

    def _resumed(self, end: float) -> list[Response]:
        """Holding the lock: nobody else may call meanwhile."""
        responses: list[Response] = []
        if not self._broken or self._turns:
            return responses
        for call in self._ledger.under_way(self._channel):
            try:
                responses.append(self._taken(call, *self._ask(call, end)))
            except NoResponse:
                raise
            except ChannelError as error:
                self._refused(call)
                if isinstance(error, CallConflict):
                    self._caught_up(end)
                break
        self._broken = False
        self._turn.notify_all()
        return responses

    # ---- Calls that somebody else sends ----

    def signed(self, request: Request, seconds: float = PATIENCE) -> Call:
        """A call that somebody else sends, signed and written; `take` takes its response. There is one at a time, and
        meanwhile no other call. What became of one whose response was not taken the operator is asked.

        Raises as `call`.
        """
        end = time.monotonic() + seconds
        with self._turn:
            while self._turns or self._dropped:
                self._wait(end)
            if self._account.stage is not Stage.OPEN:
                raise ChannelClosed(f"channel {self._channel.hex()} is {self._account.stage}")
            if self._payer.sent and not self._learned(end):
                self._refused(self._ledger.under_way(self._channel)[0])
            self._broken, self._is_lent = False, True
            return self._written(request)

    def take(self, call: Call, response: CallResponse, outputs: bytes) -> Response:
        """Takes the response to the call that was signed last. Raises WrongReceipt, WrongResult for one that proves
        nothing: the call stays under way."""
        with self._turn:
            taken = self._taken(call, response, outputs)
            self._is_lent = False
            self._turn.notify_all()
            return taken

    # ---- Others with the same key ----

    def _caught_up(self, end: float) -> bool:
        """As `_learned`; false, too, where the operator shows nothing: what it refused is refused."""
        with suppress(ChannelError):
            return self._learned(end)
        return False

    def _learned(self, end: float) -> bool:
        """Whether the operator showed calls whose responses this ledger does not have: they are owed, and what is
        signed next goes on from them. Holding the lock: nobody else may call meanwhile.

        Raises WrongReceipt for calls that prove nothing, ChannelError where it shows none, NoResponse while one is
        under way.
        """
        known = self._payer.count
        while True:
            status = self._endpoint.status(self._channel)
            if status.count > self._payer.count:
                self._adopt(self._endpoint.calls(self._channel, self._payer.count, self._calls_request()))
            elif self._payer.count > known or status.index <= known:
                return self._payer.count > known
            elif time.monotonic() > end:
                raise NoResponse(f"call {known} of the channel is under way still")
            else:
                time.sleep(_LOOK)

    def _calls_request(self) -> bytes:
        request = CallsRequest(self._channel, self._payer.count)
        return self._key.sign(request.message(self._payer.domain))

    def _adopt(self, shown: PaidCalls) -> None:
        """Takes calls that were shown, each by both signatures: what this key did not sign is not owed."""
        payer, calls, begun = replace(self._payer, sent=(), number=0), list[Call](), self._payer.number
        for one in shown.calls:
            computation = Computation.of_query(parse_qsl(one.query, keep_blank_values=True))
            payment, voucher = one.payment, one.payment.voucher
            order = task_of(
                payer.domain, computation.order(payer.deal, self._channel, payer.count, payment.salt, payment.inputs)
            )
            is_next = (voucher.channel, voucher.count) == (self._channel, payer.count + 1)
            signed = is_signed_by(self._key.address, hash_of(payer.domain, voucher), payment.signature)
            if not (is_next and signed and voucher.amount >= payer.amount):
                raise WrongReceipt("payment", f"call {payer.count} was not paid for with this key")
            price = voucher.amount - payer.amount
            after = replace(payer, sent=(Sent(order, voucher),)).received(
                one.response, one.response.receipt.outputs_root
            )
            calls.append(Call(payer.count, computation, payment, order, price, b"", one.response))
            payer = replace(after, number=0)
        if not calls:
            raise WrongReceipt("calls", "the operator says that there are more, and shows none")
        with self._as_written():
            self._ledger.adopt(self._channel, calls)
        self._payer = replace(payer, number=begun)

    def _signed(self, request: Request, end: float) -> _Turn:
        """A call, signed and written, when there is room for it."""
        with self._turn:
            while self._is_lent or self._dropped or self._is_full or (self._broken and self._turns):
                self._wait(end)
            if self._account.stage is not Stage.OPEN:
                raise ChannelClosed(f"channel {self._channel.hex()} is {self._account.stage}")
            self._resumed(end)
            call = self._written(request)
            turn = _Turn(call, not self._turns)
            self._turns.append(turn)
            return turn

    @property
    def _is_full(self) -> bool:
        return len(self._turns) >= self._payer.offer.tail

    def _written(self, request: Request) -> Call:
        payer = self._payer
        salt = secrets.randbits(SALT) if request.salt is None else request.salt
        order = request.computation.order(payer.deal, self._channel, payer.next, salt, request.inputs)
        hash_ = task_of(payer.domain, order)
        after, voucher = payer.called(hash_, request.price)
        payment = Payment(salt, request.inputs, voucher, self._key.sign(message_of(payer.domain, voucher)))
        chosen = secrets.randbelow(_MILLION) < self._recheck
        call = Call(payer.next, request.computation, payment, hash_, request.price, request.body, chosen=chosen)
        with self._as_written():
            self._ledger.sign(self._channel, call)
        self._payer = after
        return call

    def _finished(self, turn: _Turn, end: float) -> Response | None:
        """The response, taken in its turn; None: it is to be signed anew."""
        while True:
            answer = self._answer(turn, end)
            with self._turn:
                while not turn.is_dropped and not self._broken and self._turns[0] is not turn:
                    self._turn.wait()
                if turn.is_dropped:
                    try:
                        return self._taken_all_the_same(turn, answer, end)
                    finally:
                        self._dropped -= 1
                        self._turn.notify_all()
                if self._broken:
                    self._leave(turn)
                    raise NoResponse(f"call {turn.call.index} is under way behind one that has no response")
                if not isinstance(answer, EigenTensorError):
                    return self._take(turn, *answer)
                if isinstance(answer, ChannelError) and not isinstance(answer, NoResponse):
                    if turn.is_first:
                        self._drop(turn)
                        if isinstance(answer, CallConflict) and self._caught_up(end):
                            return None
                        raise answer
                    turn.is_first = True  # it came before those that it goes on from: now it stands first
                else:
                    self._break(turn)
                    raise answer

    def _taken_all_the_same(
        self, turn: _Turn, answer: tuple[CallResponse, bytes] | EigenTensorError, end: float
    ) -> Response | None:
        """The response to a call that was dropped with the one before it, whose place another process had: then the
        operator may have taken this one, and it is owed. None: it was refused as well, and is to be signed anew."""
        if isinstance(answer, ChannelError) and not isinstance(answer, NoResponse):
            return None
        self._caught_up(end)
        signed = self._ledger.responded(self._channel, turn.call.index)
        taken = next((call for call in signed if call.order == turn.call.order), None)
        if taken is None or taken.response is None:
            return None
        response, outputs = self._ask(turn.call, end) if isinstance(answer, EigenTensorError) else answer
        if _results_root(response, outputs) != taken.receipt.outputs_root:
            raise WrongResult(f"the outputs of call {taken.index} are not those that its receipt names")
        return Response(taken, outputs)

    def _answer(self, turn: _Turn, end: float) -> tuple[CallResponse, bytes] | EigenTensorError:
        try:
            return self._ask(turn.call, end)
        except EigenTensorError as error:
            return error
        except BaseException:
            with self._turn:
                self._break(turn)
            raise

    def _ask(self, call: Call, end: float) -> tuple[CallResponse, bytes]:
        left = max(0.1, end - time.monotonic())
        return self._endpoint.call(self._payer.domain, self._token, call.computation, call.payment, call.body, left)

    def _take(self, turn: _Turn, response: CallResponse, outputs: bytes) -> Response:
        try:
            taken = self._taken(turn.call, response, outputs)
        except BaseException:
            self._break(turn)
            raise
        self._leave(turn)
        return taken

    def _taken(self, call: Call, response: CallResponse, outputs: bytes) -> Response:
        """Verified, and on disk."""
        root = _results_root(response, outputs)
        after = self._payer.received(response, root)
        self._keep(replace(call, response=response), outputs)
        with self._as_written():
            self._ledger.receive(self._channel, call, response)
        self._payer = after
        return Response(replace(call, response=response), outputs)

    @contextmanager
    def _as_written(self) -> Iterator[None]:
        """Whatever ends the block early leaves open what was written: the ledger says it, and calls are taken up."""
        try:
            yield
        except BaseException:
            self._broken = True
            self._payer = self._ledger.payer(self._account)
            self._turn.notify_all()
            raise

    def _drop(self, turn: _Turn) -> None:
        """The oldest call is refused: so are all behind it."""
        self._turns.remove(turn)
        for other in self._turns:
            other.is_dropped = True
        self._dropped += len(self._turns)
        self._turns.clear()
        self._refused(turn.call)
        self._turn.notify_all()

    def _refused(self, call: Call) -> None:
        self._ledger.drop(self._channel, call.index)
        self._payer = self._payer.refused()

    def _break(self, turn: _Turn) -> None:
        """The call stays under way, and so do those behind it."""
        self._broken = True
        self._leave(turn)

    def _leave(self, turn: _Turn) -> None:
        with suppress(ValueError):
            self._turns.remove(turn)
        self._turn.notify_all()

    def _wait(self, end: float) -> None:
        if not self._turn.wait(max(0.0, end - time.monotonic())):
            raise NoResponse("calls are under way before this one, and have no response yet: it was not signed")

    # ---- The end ----

    def conclude(self, seconds: float = PATIENCE) -> tuple[Voucher, bytes, bytes]:
        """The channel's last voucher, with the signatures of payer and offer's signer. From here on no call is signed.

        Raises NoResponse, ChannelError where the operator does not sign it, WrongReceipt where it signs another one.
        """
        payer = self.drained(seconds)
        self.update(lambda account, payer: (replace(account, stage=Stage.LEFT), payer))
        voucher = payer.last()
        digest = hash_of(payer.domain, voucher)
        own = self._key.sign(message_of(payer.domain, voucher))
        theirs = self._endpoint.conclude(SignedVoucher(voucher, own))
        if theirs.voucher != voucher or not is_signed_by(payer.offer.signer, digest, theirs.signature):
            raise WrongReceipt("signature", "the operator did not sign the last voucher")
        return voucher, own, theirs.signature

    # ---- What the chain says ----

    def update(self, change: Callable[[Account, Payer], tuple[Account, Payer]]) -> None:
        """Takes a change of the channel, which is written with it."""
        with self._turn:
            account, payer = change(self._account, self._payer)
            if account != self._account:
                self._ledger.update(account)
            self._account, self._payer = account, payer

    def drained(self, seconds: float = PATIENCE) -> Payer:
        """What is signed when nothing is under way any more. Raises NoResponse."""
        end = time.monotonic() + seconds
        with self._turn:
            while self._is_lent or self._dropped or self._turns:
                self._wait(end)
            self._resumed(end)
            return self._payer


def _root(data: bytes) -> bytes:
    return merkle.bindings_root({name: merkle.array_root(*tensor) for name, tensor in parse_flat(data).items()})


def _results_root(response: CallResponse, outputs: bytes) -> bytes:
    """The outputs root of a response. Raises WrongResult for bytes that are no outputs."""
    states = response.states if response.states != NONE else merkle.bindings_root({})
    return merkle.outputs_root(_outputs_root(outputs), states)


def _outputs_root(outputs: bytes) -> bytes:
    """The bindings root of outputs. Raises WrongResult for bytes that are no outputs."""
    try:
        return _root(outputs) if outputs else merkle.bindings_root({})
    except EigenTensorError as error:
        raise WrongResult(f"the outputs cannot be read: {error.what}") from None
