"""Questions to nodes, as JSON-RPC over HTTP. A node may say anything: its answers are bounded in bytes and time."""

import json
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from eigentensor import certificates
from eigentensor.chain.answers import FIX, Refusal, read
from eigentensor.errors import ChainError

#: Bytes of an answer: the logs of many blocks fit.
MOST = 64 << 20
_BEHIND = 3  # blocks by which nodes of one chain usually differ
_TOO_MUCH = (-32005, -32029)  # numbers of a node's error for too many requests
_SLOW = 3  # times the time-out is an answer's whole time
_KEPT = httpx.Limits(keepalive_expiry=60)
_HEADERS = {"Content-Type": "application/json"}


class Rpc:
    """A chain's node, or one of several: who fails or is behind is asked after the others. For any threads."""

    def __init__(self, urls: str, timeout: float) -> None:
        """`urls` is a node's, or those of several with commas, the best first. `timeout` in seconds is for each silence
        of a node; a whole answer has a few times as long."""
        self._endpoints = [_Endpoint(url.strip(), timeout) for url in urls.split(",")]
        self._highest = 0

    def ask(self, method: str, *parameters: Any) -> Any:
        """The result, as `answers.read` gives it. Numbers and bytes among the parameters are written in hex.

        Raises what httpx raises, Refusal for the node's error, ChainError for nonsense."""
        return self.ask_plainly(method, _encoded(parameters))

    def ask_plainly(self, method: str, parameters: Sequence[Any]) -> Any:
        """As `ask`, with parameters that are JSON already: a method that is one node's own may want numbers as such."""
        asked = {"jsonrpc": "2.0", "id": 0, "method": method, "params": parameters}
        content = json.dumps(asked).encode()
        endpoints = list(self._endpoints)
        for endpoint in endpoints[:-1]:
            try:
                answer = read(method, endpoint.exchange(content))
                if not self._is_behind(method, parameters, answer):
                    return answer
            except (httpx.HTTPError, ChainError):
                pass
            except Refusal as refusal:
                if refusal.code not in _TOO_MUCH:
                    raise
            self._put_last(endpoint)
        answer = read(method, endpoints[-1].exchange(content))
        if self._is_behind(method, parameters, answer):  # so say all: a chain that was started anew, perhaps
            self._highest = _height(method, parameters, answer)
        return answer

    def _is_behind(self, method: str, parameters: Sequence[Any], answer: Any) -> bool:
        """Whether a node tells of a chain that is shorter than what was heard already, by more than is usual."""
        height = _height(method, parameters, answer)
        self._highest = max(self._highest, height)
        return 0 < height < self._highest - _BEHIND

    def _put_last(self, endpoint: "_Endpoint") -> None:
        """Others are asked before it from now on."""
        self._endpoints = [other for other in self._endpoints if other is not endpoint] + [endpoint]


class _Endpoint:
    """A node at one URL."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url, self._timeout = url, timeout
        verify = certificates.needed(url)
        self._http = httpx.Client(timeout=timeout, limits=_KEPT, headers=_HEADERS, verify=verify)
        weakref.finalize(self, self._http.close)

    def exchange(self, content: bytes) -> bytes:
        """The node's whole answer."""
        try:
            return self._exchange(content)
        except (httpx.NetworkError, httpx.RemoteProtocolError):  # a connection that was kept, and has ended meanwhile
            return self._exchange(content)

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


def _height(method: str, parameters: Sequence[Any], answer: Any) -> int:
    """The newest block that an answer tells of; 0 if it is about something else."""
    if method == "eth_blockNumber":
        return int(answer)
    if method == "eth_getBlockByNumber" and parameters and parameters[0] == "latest" and answer is not None:
        return int(answer["number"])
    return 0


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
