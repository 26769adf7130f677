"""An operator's endpoint for paid calls, over HTTP: quotes, deals and calls. What it answers may be anything."""

import json
import math
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import stamina

from eigentensor import connecting, errors
from eigentensor.channel import x402
from eigentensor.channel.calls import (
    CallResponse,
    ChannelStatus,
    Computation,
    DealRequest,
    PaidCalls,
    Payment,
    Quote,
    Quotes,
    SignedDeal,
    SignedVoucher,
)
from eigentensor.errors import (
    BindingError,
    CallConflict,
    CallRefused,
    ChannelBusy,
    ChannelClosed,
    ChannelError,
    ChannelSpent,
    EigenTensorError,
    NoResponse,
    TaskError,
    WrongReceipt,
)
from eigentensor.task import Domain

PATIENCE = 60.0  #: seconds in which a call has a response, unless its caller says otherwise
_PATIENCE = 10.0  # seconds in which quotes and deals come
_ANSWER = 1 << 30  # bytes of outputs
_TEXT = 16 << 20  # bytes of quotes
_WORDS = 2_000  # characters of a refusal that are passed on
_LATER = (429, 502, 503, 504)
_AGAIN = 0.05  # seconds after a connection that broke, at first
_LONGEST = 5.0  # seconds between two tries
_REFUSALS: Mapping[str, type[ChannelError]] = {
    kind.__name__: kind for kind in (ChannelClosed, ChannelBusy, CallConflict)
}


class _Later(Exception):
    """Not now, in so many seconds perhaps."""

    def __init__(self, seconds: float, what: str) -> None:
        super().__init__(what)
        self.seconds = seconds


class Endpoint:
    """Of one operator; usable from several threads at once."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None, patience: float = _PATIENCE) -> None:
        """Asks nothing yet; `patience` are the seconds in which quotes and deals come. Raises BindingError for what is
        no URL."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BindingError(f"{url!r} is no URL of an operator", fix="Write https://HOST, as the operator names it.")
        self.url, self._patience = url.rstrip("/"), patience
        timeout = httpx.Timeout(PATIENCE, connect=5)
        self._http = connecting.client(url, base_url=self.url, timeout=timeout, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def quotes(self) -> tuple[Quote, ...]:
        """What the operator offers. Raises NoResponse, TaskError for what is no quote."""
        return Quotes.from_json(self._asked("GET", "/v1/deals")).quotes

    def deal(self, request: DealRequest) -> SignedDeal:
        """A deal as it is asked for; check it before it is used. Raises NoResponse, ChannelError, TaskError."""
        return SignedDeal.from_json(self._asked("POST", "/v1/deals", json=request.to_json()))

    def status(self, channel: bytes) -> ChannelStatus:
        """Where a channel stands for the operator. Raises NoResponse, TaskError, ChannelError while it knows none."""
        return ChannelStatus.from_json(self._asked("GET", f"/v1/channels/{channel.hex()}"))

    def calls(self, channel: bytes, first: int, signature: bytes) -> PaidCalls:
        """The channel's calls from an index on, some at a time; `signature` is the payer's, of the `CallsRequest`. They
        are to be verified. Raises NoResponse, TaskError, ChannelError where they are not kept."""
        asked = {"first": str(first), "signature": "0x" + signature.hex()}
        return PaidCalls.from_json(self._asked("GET", f"/v1/channels/{channel.hex()}/calls", params=asked))

    def conclude(self, last: SignedVoucher) -> SignedVoucher:
        """A channel's last voucher, signed by the operator as well; check it. Raises NoResponse, ChannelError where the
        operator does not sign it, TaskError."""
        path = f"/v1/channels/{last.voucher.channel.hex()}/conclusion"
        return SignedVoucher.from_json(self._asked("POST", path, json=last.to_json()))

    def call(
        self, domain: Domain, token: str, computation: Computation, payment: Payment, body: bytes, seconds: float
    ) -> tuple[CallResponse, bytes]:
        """The response to a call, and its outputs as they came: both are to be verified.

        The same bytes are sent again while the connection breaks or the operator is busy, for so many seconds. Raises
        NoResponse then: the operator may have taken it; ChannelError where it is refused; WrongReceipt, TaskError for
        a response that is none.
        """
        accepted = x402.requirements(domain, token, 0, math.ceil(seconds), {"channel": payment.voucher.channel.hex()})
        headers = {x402.SIGNATURE: x402.signature(payment, accepted), "Content-Type": "application/octet-stream"}
        path = f"/v1/channels/{payment.voucher.channel.hex()}/calls"
        response = self._patiently(
            "POST", path, seconds, _ANSWER, params=computation.query(), content=body, headers=headers
        )
        header = response.headers.get(x402.RESPONSE)
        if header is None:
            raise WrongReceipt(x402.RESPONSE, "the operator gave no receipt")
        return x402.read_response(header), response.content

    def _asked(self, method: str, path: str, **options: Any) -> Mapping[str, Any]:
        content = _parse(self._patiently(method, path, self._patience, _TEXT, **options).content)
        if content is None:
            raise TaskError(f"{self.url} is no operator's endpoint: {method} {path} gave no JSON object")
        return content

    def _patiently(self, method: str, path: str, seconds: float, limit: int, **options: Any) -> httpx.Response:
        try:
            for attempt in stamina.retry_context(
                on=_pause, attempts=None, timeout=seconds, wait_initial=_AGAIN, wait_max=_LONGEST, wait_jitter=_AGAIN
            ):
                with attempt:
                    return self._once(method, path, limit, options)
        except (httpx.TransportError, _Later) as error:
            raise NoResponse(f"no response from the operator at {self.url}: {error}") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as error:
            raise NoResponse(f"the response of the operator at {self.url} cannot be read: {error}") from None
        raise AssertionError("a retry ends with an answer or an error")

    def _once(self, method: str, path: str, limit: int, options: Mapping[str, Any]) -> httpx.Response:
        with self._http.stream(method, path, **options) as response:
            content = bytearray()
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > limit:
                    raise ValueError(f"it is larger than {limit} bytes")
        if response.is_success:
            return httpx.Response(response.status_code, headers=_plain(response.headers), content=bytes(content))
        raise _refusal(response.status_code, response.headers, bytes(content))


def _plain(headers: httpx.Headers) -> dict[str, str]:
    """Without those that say how the content was encoded: it is not any more."""
    return {name: value for name, value in headers.items() if name not in ("content-encoding", "content-length")}


def _pause(error: Exception) -> bool | float:
    """Whether a try makes sense again, and after how many seconds."""
    return max(_AGAIN, error.seconds) if isinstance(error, _Later) else isinstance(error, httpx.TransportError)


def _refusal(status: int, headers: httpx.Headers, content: bytes) -> Exception:
    """What a response that is none means. A problem of RFC 9457 has the words of the error tree."""
    problem = _parse(content) or {}
    what = str(problem.get("detail") or f"HTTP {status}")[:_WORDS]
    fix, code = str(problem.get("fix") or "")[:_WORDS], str(problem.get("code"))
    if status in _LATER:
        return _Later(_seconds(headers.get("Retry-After", "")), what)
    if code == "ChannelSpent":
        return ChannelSpent(what, 0)
    kind = _REFUSALS.get(code, CallRefused)
    return kind(what if code in _REFUSALS else f"the operator refuses: {what}", fix=fix)


def _seconds(text: str) -> float:
    """How long to wait; none where it is not said, or said in another way."""
    return min(float(text), _LONGEST) if text.isascii() and text.isdigit() and len(text) < 10 else _AGAIN


def _parse(content: bytes) -> dict[str, Any] | None:
    """A JSON object; None for anything else."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


#: What may come of a call that is no response: none of these stops anything but the call.
FAILURES: tuple[type[EigenTensorError], ...] = (ChannelError, TaskError, errors.StoreError)
