"""A bad line between two parties: a TCP proxy that drops, delays, cuts, spoils, repeats and swaps what passes."""

import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from enum import StrEnum
from random import Random
from types import TracebackType
from typing import Self

_CHUNK = 1 << 16


class Kind(StrEnum):
    """What happens to a chunk of bytes."""

    DROP = "drop"
    """It is lost, and the connection with it."""
    DELAY = "delay"
    """It comes up to two seconds later."""
    CUT = "cut"
    """Half of it comes, and the connection ends."""
    GARBAGE = "garbage"
    """Some of its bytes are others, and no text any more: a line's noise, not a forger's."""
    DUPLICATE = "duplicate"
    """It comes twice."""
    REORDER = "reorder"
    """The one behind it comes first, if one comes soon."""


class Proxy:
    """Passes on what comes to its `url`; as long as `kinds` are set, a share of all chunks suffers one of them.

    What happens follows from the random numbers and from when what comes: the kinds repeat, not their places.
    """

    def __init__(self, target: str, random: Random, share: float = 0.1) -> None:
        """`target` is the URL of a service on loopback."""
        host, _, port = target.partition("://")[2].partition("/")[0].rpartition(":")
        self._target, self._random, self.share = (host, int(port)), random, share
        self._lock, self._open = threading.Lock(), set[socket.socket]()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://localhost:{self._listening.getsockname()[1]}"  # by a name, which may not be found
        self.kinds: Collection[Kind] = ()
        self.planted: Counter[Kind] = Counter()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=[near], daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(self._target) as far:
            pair = {near, far}
            with self._lock:
                self._open |= pair
            try:
                while True:
                    for source in select.select(pair, (), ())[0]:
                        (sink,) = pair - {source}
                        if not (data := source.recv(_CHUNK)) or not self._pass(data, source, sink):
                            return
            finally:
                with self._lock:
                    self._open -= pair

    def _pass(self, data: bytes, source: socket.socket, sink: socket.socket) -> bool:
        """Passes a chunk on; whether the connection goes on."""
        with self._lock:
            kinds = sorted(self.kinds)
            kind = self._random.choice(kinds) if kinds and self._random.random() < self.share else None
            wait, place = 2 * self._random.random(), self._random.randrange(len(data))
            noise = bytes(self._random.randrange(0x80, 0x100) for _ in range(16))
            if kind is not None:
                self.planted[kind] += 1
        match kind:
            case Kind.DROP:
                return False
            case Kind.DELAY:
                time.sleep(wait)
            case Kind.CUT:
                sink.sendall(data[: len(data) // 2])
                return False
            case Kind.GARBAGE:
                data = (data[:place] + noise + data[place + 16 :])[: len(data)]
            case Kind.DUPLICATE:
                data += data
            case Kind.REORDER if select.select([source], (), (), 0.2)[0]:
                data = source.recv(_CHUNK) + data
        sink.sendall(data)
        return True
