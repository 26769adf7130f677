"""Questions to nodes, as JSON-RPC over HTTP. A node may say anything: its answers are bounded in bytes and time."""

import json
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any

import httpx

from eigentensor import connecting
from eigentensor.chain.answers import FIX, Question, Refusal, read, read_all
from eigentensor.errors import ChainError, Unreachable

#: Bytes of an answer: the logs of many blocks fit.
MOST = 64 << 20
#: Seconds that a question waits for nodes that want fewer of them.
PATIENCE = 8.0
_BEHIND = 3  # blocks by which nodes of one chain usually differ
_TOO_MUCH = (-32005, -32029)  # numbers of a node's error for too many requests
_TOO_MANY, _UNAVAILABLE = 429, 503  # HTTP
_FIRST, _LONGEST = 0.5, 60.0  # seconds that a node rests, twice as long each time
_SLOW = 3  # times the time-out is an answer's whole time
_KEPT = httpx.Limits(keepalive_expiry=60)
_HEADERS = {"Content-Type": "application/json"}


class Rpc:
    """A chain's node, or one of several. Who fails or is behind is asked after the others for a while, and nobody is
    asked before the time that it named for too many requests. For any threads."""

    def __init__(self, urls: str, timeout: float) -> None:
        """`urls` is a node's, or those of several with commas, the best first. `timeout` in seconds is for each silence
        of a node; a whole answer has a few times as long."""
        self._endpoints = [_Endpoint(url.strip(), timeout) for url in urls.split(",")]
        self._numbers = count(1)
        self._highest = 0

    def ask(self, method: str, *parameters: Any) -> Any:
        """The result, as `answers.read` gives it. Numbers and bytes among the parameters are written in hex.

        Raises what httpx raises, Refusal for the node's error, ChainError for nonsense."""
        return self.ask_plainly(method, _encoded(parameters))

    def ask_plainly(self, method: str, parameters: Sequence[Any]) -> Any:
        """As `ask`, with parameters that are JSON already: a method that is one node's own may want numbers as such."""
        question = Question(next(self._numbers), method, parameters)
        content = json.dumps(question.json).encode()
        (answer,) = self._asked([question], lambda node: [read(question, node.exchange(content))])
        return answer

    def ask_together(self, *asked: tuple[str, Sequence[Any]]) -> list[Any]:
        """The results of several methods with their parameters, in one request: one and the same node says them all,
        one after the other, also where several stand behind one address. Raises what `ask` raises."""
        questions = [Question(next(self._numbers), method, _encoded(parameters)) for method, parameters in asked]
        content = json.dumps([question.json for question in questions]).encode()
        return self._asked(questions, lambda node: read_all(questions, node.exchange(content)))

    def _asked(self, questions: Sequence[Question], ask: Callable[["_Endpoint"], list[Any]]) -> list[Any]:
        until = time.monotonic() + PATIENCE
        while True:
            late: list[Any] | None = None
            failed: Exception | None = None
            for endpoint in self._in_turn():
                if not endpoint.is_open_by(until):
                    continue
                try:
                    answers = ask(endpoint)
                except (httpx.HTTPError, ChainError) as error:
                    endpoint.failed(_pause_of(error))
                    failed = error
                except Refusal as refusal:
                    if not _is_too_much(refusal, questions):
                        raise
                    endpoint.failed(0.0)
                    failed = refusal
                else:
                    if not self._is_behind(questions, answers):
                        endpoint.is_well()
                        return answers
                    endpoint.failed(None)
                    late = answers
            if late is not None:  # so say all who speak: a chain that was started anew, perhaps
                self._highest = _height(questions, late)
                return late
            if failed is None:
                raise Unreachable("every node wants fewer requests", fix="Ask again later, or name another node.")
            if not any(endpoint.wants_fewer and endpoint.is_open_by(until) for endpoint in self._endpoints):
                raise failed

    def _in_turn(self) -> list["_Endpoint"]:
        """As they were named; behind them who rests, by the end of that."""
        now = time.monotonic()
        return sorted(self._endpoints, key=lambda endpoint: max(now, endpoint.rests_until))

    def _is_behind(self, questions: Sequence[Question], answers: Sequence[Any]) -> bool:
        """Whether a node tells of a chain that is shorter than what was heard already, by more than is usual."""
        height = _height(questions, answers)
        self._highest = max(self._highest, height)
        return 0 < height < self._highest - _BEHIND


class _Endpoint:
    """A node at one URL, and how it has behaved of late."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url, self._timeout = url, timeout
        self.rests_until = 0.0  #: until then others are asked before it
        self.wants_fewer = False  #: until then it is not asked at all
        self._rest = _FIRST
        self._http = connecting.client(url, timeout=timeout, limits=_KEPT, headers=_HEADERS)
        weakref.finalize(self, self._http.close)

    def is_well(self) -> None:
        """It has answered."""
        self.rests_until, self.wants_fewer, self._rest = 0.0, False, _FIRST

    def failed(self, pause: float | None) -> None:
        """It rests, the longer the more often it failed in a row. A `pause` in seconds is what it asked for at least
        because there were too many requests; None: it did not."""
        now = time.monotonic()
        if now >= self.rests_until:  # else other threads failed beside this one, and that counts once
            self.rests_until, self._rest = now + self._rest, min(_LONGEST, 2 * self._rest)
        self.rests_until = max(self.rests_until, now + min(_LONGEST, pause or 0.0))
        self.wants_fewer = pause is not None

    def is_open_by(self, until: float) -> bool:
        """Whether it may be asked before `until`."""
        return not self.wants_fewer or self.rests_until <= until

    def exchange(self, content: bytes) -> bytes:
        """The node's whole answer, when it may be asked."""
        if self.wants_fewer:
            time.sleep(max(0.0, self.rests_until - time.monotonic()))
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


def _pause_of(error: Exception) -> float | None:
    """Seconds for which a node wants to be asked no more; None unless that is what it said."""
    if not isinstance(error, httpx.HTTPStatusError):
        return None
    response = error.response
    said = response.headers.get("Retry-After", "")
    if response.status_code != _TOO_MANY and not (response.status_code == _UNAVAILABLE and said):
        return None
    with suppress(ValueError, OverflowError):
        return float(int(said))
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
    return 0.0


def _is_too_much(refusal: Refusal, questions: Sequence[Question]) -> bool:
    """Whether a node refused because of too many requests; of logs the same number means that there are too many."""
    return refusal.code in _TOO_MUCH and all(question.method != "eth_getLogs" for question in questions)


def _height(questions: Sequence[Question], answers: Sequence[Any]) -> int:
    """The newest block that answers tell of; 0 if they are about something else."""
    return max(_heights(questions, answers), default=0)


def _heights(questions: Sequence[Question], answers: Sequence[Any]) -> Iterator[int]:
    for (_, method, parameters), answer in zip(questions, answers, strict=True):
        if method == "eth_blockNumber":
            yield int(answer)
        if method == "eth_getBlockByNumber" and parameters and parameters[0] == "latest" and answer is not None:
            yield int(answer["number"])


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
