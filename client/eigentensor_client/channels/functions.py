"""Calls of a function of Tensors through channels: what it refers to is uploaded once, what it assigns to stays with
the operator that computed it."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from eigentensor import merkle, spending
from eigentensor.capture.signatures import Captured, Use
from eigentensor.capture.values import Values, same_bits
from eigentensor.economics import shares
from eigentensor.errors import StoreError
from eigentensor.program import Role
from eigentensor.task import NONE
from eigentensor_client import transfer
from eigentensor_client.channels.operators import Operators, Terms
from eigentensor_client.transfer import Report

#: By process too: what a process has opened is not for those that it forks.
_operators: dict[tuple[int, tuple[str, ...], str | None, Terms], Operators] = {}
_lock = threading.Lock()


def operators_of(urls: tuple[str, ...], network: str | None, terms: Terms) -> Operators:
    """This process's channels on these terms: functions share them."""
    with _lock:
        key = os.getpid(), urls, network, terms
        if key not in _operators:
            _operators[key] = Operators(urls, terms, network)
        return _operators[key]


def close() -> None:
    """Lets other processes have what this one has taken; also before it ends by itself."""
    with _lock:
        for (process, *_), operators in list(_operators.items()):
            if process == os.getpid():
                operators.close()
        _operators.clear()


@dataclass(frozen=True, slots=True)
class _Kept:
    """States that an operator keeps: they follow from `values`, which the function's tensors had at first."""

    values: Values
    root: bytes
    url: str


@dataclass(eq=False, slots=True)
class ChannelCalls:
    """Of one function."""

    operators: Operators
    _kept: dict[Captured, _Kept] = field(default_factory=dict)
    _uploading: threading.Lock = field(default_factory=threading.Lock)
    _threads: dict[int, ThreadPoolExecutor] = field(default_factory=dict)  # by process: those of another are not here

    def call(self, use: Use, report: Report, made: Callable[..., Any]) -> Any:
        """What the function returns; `made` makes its tensors, out of an expression and a `result`.

        Tensors that it assigns to keep their values here: their new ones are at the operator, where the next call goes
        on from them, until somebody gives them others here. Raises what `Operators.call` raises.
        """
        spending.check()
        program, captured = use.captured.graph.program, use.captured
        kept = self._kept_of(use)
        result = self.operators.call(
            program, bytes.fromhex(captured.graph.uuid), use.inputs, weights=self._weights(use, report),
            states=(use.states or NONE) if kept is None else kept.root, variables=use.variables,
            only=None if kept is None else kept.url, report=report,
        )  # fmt: skip
        if use.states:
            self._kept[captured] = _Kept(use.states, result.states, result.channel.account.agreement.url)
        return use.returns.filled(program, dict(result.outputs), {}, partial(made, result=result))

    def start(self, use: Use, made: Callable[..., Any]) -> "Future[Any]":
        """As `call`, of a function that assigns to nothing, in a thread: as many are under way as offers let, and
        others wait for their turn."""
        spending.check()
        with _lock:
            if (process := os.getpid()) not in self._threads:
                self._threads[process] = ThreadPoolExecutor(shares.TAIL, "calls")
        return self._threads[process].submit(spending.carried(self.call), use, transfer.silent, made)

    def _kept_of(self, use: Use) -> _Kept | None:
        kept = self._kept.get(use.captured)
        is_same = kept is not None and all(same_bits(use.states[name], value) for name, value in kept.values.items())
        return kept if is_same else None

    def _weights(self, use: Use, report: Report) -> bytes:
        captured = use.captured
        if not use.weights:
            return NONE
        with self._uploading:
            if not captured.root or use.weights is not captured.weights:
                root = merkle.role_root(captured.graph.program, Role.WEIGHT, use.weights)
                with suppress(StoreError):  # the gateway is away: the operator may have them
                    self._upload(use, report)
                if use.weights is not captured.weights:
                    return root
                captured.root = root
            return captured.root

    def _upload(self, use: Use, report: Report) -> None:
        gateway = self.operators.client.gateway
        transfer.upload_fixed(gateway, use.captured.graph.program, use.weights, use.states, report)
