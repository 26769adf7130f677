"""A channel as a payment scheme of x402: what the clients of that protocol register, to pay for calls themselves.

`x402Client().register(scheme.network, scheme)` of the package `x402`, which is not needed here: a scheme is whatever
has a name and makes payloads. The endpoint answers a call without a payment with its terms, the client has them signed
and sends the same request again; `received` takes what comes then.
"""

import threading
from typing import Any, Protocol
from urllib.parse import parse_qsl

import httpx

from eigentensor import merkle
from eigentensor.channel import x402
from eigentensor.channel.calls import Computation
from eigentensor.errors import CallRefused, WrongReceipt, WrongResult
from eigentensor.store.tensors import parse_flat
from eigentensor.task import NONE
from eigentensor.wire import unhex
from eigentensor_client.channels.caller import Request, Response
from eigentensor_client.channels.channel import Channel
from eigentensor_client.channels.endpoint import PATIENCE
from eigentensor_client.channels.ledger import Call


class Requirements(Protocol):
    """What an endpoint would accept for a call, as clients of x402 read it."""

    amount: str
    pay_to: str
    extra: dict[str, Any]


class ChannelScheme:
    """Pays out of one channel, one call at a time; the wallet and the chain are the channel's."""

    scheme = x402.SCHEME

    def __init__(self, channel: Channel, max_price: int, seconds: float = PATIENCE) -> None:
        """`max_price` in wei is the most that a call may cost."""
        self._channel, self._max_price, self._seconds = channel, max_price, seconds
        self._call: Call | None = None
        self._lock = threading.Lock()

    @property
    def network(self) -> str:
        """The name of the channel's chain, for which the scheme is registered (CAIP-2)."""
        return x402.network_of(self._channel.payer.domain)

    @property
    def spend_controls(self) -> Any:
        """What a client of x402 is to allow: the market's token, and no more of it for a call than this scheme pays."""
        token = self._channel.client.network.deployment.token
        allowed = {"network": self.network, "asset": token, "max_amount_per_payment": str(self._max_price)}
        return {"allowed_assets": [allowed]}

    def create_payment_payload(self, requirements: Requirements) -> dict[str, Any]:
        """What pays for a call, signed, and written down before. Where the response to the call before it was not
        taken, the operator is asked what became of that.

        Raises CallRefused for terms that are not this channel's or cost too much, and what `Caller.signed` raises.
        """
        caller, price = self._channel.caller, int(requirements.amount)
        named = str(requirements.extra.get("channel")), requirements.pay_to.lower()
        if named != ("0x" + self._channel.name, caller.payer.domain.market.lower()):
            raise CallRefused(
                f"channel {named[0]} of market {named[1]} is to pay", fix="Call through the scheme's own."
            )
        if price > self._max_price:
            say = self._channel.client.amount
            raise CallRefused(f"a call costs {say(price)}, more than {say(self._max_price)}", fix="Raise max_price.")
        try:
            query, inputs = str(requirements.extra["query"]), unhex(requirements.extra["inputs"])
        except (KeyError, TypeError, ValueError):
            raise CallRefused("the operator does not say what is to be paid for", fix="Ask another operator.") from None
        computation = Computation.of_query(parse_qsl(query, keep_blank_values=True))
        with self._lock:
            self._call = caller.signed(Request(computation, b"", price, inputs), self._seconds)
            return self._call.payment.to_json()

    def received(self, response: httpx.Response) -> Response:
        """The outputs of a call that was paid for, and its receipt, once they are verified and written down.

        Raises CallRefused for a response that is a refusal, or where nothing was paid; WrongReceipt, WrongResult for
        one that does not prove what was asked, after which the next payment asks the operator what became of it.
        """
        with self._lock:
            call = self._call
            if call is None:
                raise CallRefused("no call was paid for by this scheme", fix="Give the response to one that was.")
            if not response.is_success:
                raise CallRefused(f"the operator refuses: {response.text[:2000]}", fix="Pay again, as it says.")
            if (header := response.headers.get(x402.RESPONSE)) is None:
                raise WrongReceipt(x402.RESPONSE, "the operator gave no receipt")
            _check_asked(call, response.request)
            taken = self._channel.caller.take(call, x402.read_response(header), response.content)
            self._call = None
            return taken


def _check_asked(call: Call, request: httpx.Request) -> None:
    """Raises WrongResult where the operator had something else paid for than was asked of it."""
    query = parse_qsl(request.url.query.decode("ascii", "replace"), keep_blank_values=True)
    is_same = Computation.of_query(query) == call.computation
    if is_same and call.computation.states == NONE:  # with states, they may be in the body as well
        tensors = parse_flat(request.content) if request.content else {}
        root = merkle.bindings_root({name: merkle.array_root(*tensor) for name, tensor in tensors.items()})
        is_same = call.payment.inputs == (root if tensors else NONE)
    if not is_same:
        raise WrongResult("the operator had another computation paid for than it was asked for")
