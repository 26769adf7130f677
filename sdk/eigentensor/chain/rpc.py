"""Questions to a node, as JSON-RPC over HTTP. The node may say anything: its answers are bounded in bytes and time."""

import json
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from eigentensor import certificates
from eigentensor.chain.answers import FIX, read
from eigentensor.errors import ChainError

#: Bytes of an answer: the logs of many blocks fit.
MOST = 64 << 20
_SLOW = 3  # times the time-out is an answer's whole time
_KEPT = httpx.Limits(keepalive_expiry=60)
_HEADERS = {"Content-Type": "application/json"}


class Rpc:
    """A node at one URL, for any threads."""

    def __init__(self, url: str, timeout: float) -> None:
        """`timeout` in seconds is for each silence; a whole answer has a few times as long."""
        self._url, self._timeout = url, timeout
        verify = certificates.needed(url)
        self._http = httpx.Client(timeout=timeout, limits=_KEPT, headers=_HEADERS, verify=verify)
        weakref.finalize(self, self._http.close)

    def ask(self, method: str, *parameters: Any) -> Any:
        """The result, as `answers.read` gives it. Numbers and bytes among the parameters are written in hex.

        Raises what httpx raises, Refusal for the node's error, ChainError for nonsense."""
        return self.ask_plainly(method, _encoded(parameters))

    def ask_plainly(self, method: str, parameters: Sequence[Any]) -> Any:
        """As `ask`, with parameters that are JSON already: a method that is one node's own may want numbers as such."""
        asked = {"jsonrpc": "2.0", "id": 0, "method": method, "params": parameters}
        content = json.dumps(asked).encode()
        try:
            response = self._exchange(content)
        except (httpx.NetworkError, httpx.RemoteProtocolError):  # a connection that was kept, and has ended meanwhile
            response = self._exchange(content)
        return read(method, response)

    def _exchange(self, content: bytes) -> bytes:
        until, response = time.monotonic() + _SLOW * self._timeout, bytearray()
        with self._http.stream("POST", self._url, content=content) as answer:
            answer.raise_for_status()
            for piece in answer.iter_bytes():
                response += piece
                if len(response) > MOST:
                    raise ChainError(f"the node's answer has more than {MOST >> 20} MiB", fix=FIX)
                if time.monotonic() > until:
                    raise httpx.ReadTimeout(f"no whole answer in {_SLOW * self._timeout:.0f} s")
        return bytes(response)


def _encoded(value: Any) -> Any:
    """Numbers and bytes in hex, whatever they are in."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, Mapping):
        return {name: _encoded(item) for name, item in value.items()}
    return [_encoded(item) for item in value] if isinstance(value, (list, tuple)) else value
