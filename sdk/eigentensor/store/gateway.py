"""The client side of a gateway: blobs up and down, verified piece by piece and resumable, and its public queries."""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import httpx
import stamina

from eigentensor import system, traces
from eigentensor.errors import BlobCorrupt, BlobNotFound, BlobTooLarge, GatewayError, StoreFull
from eigentensor.leaves import PIECE
from eigentensor.store.describing import describe
from eigentensor.store.http import answering, error_of
from eigentensor.store.local import LocalStore, writing
from eigentensor.store.names import Names, parse_name
from eigentensor.store.pieces import Pieces
from eigentensor.store.queries import Queries

#: Called with how many bytes of how many are there.
Progress = Callable[[int, int], None]

_DEFAULT_LIMIT = 1 << 40
_REQUEST = 64 * PIECE  # bytes that are sent at once


class GatewayClient(Queries):
    """A gateway with its blobs, which it fetches into a local store and uploads from there. Usable from several threads
    and processes at once.

    An interrupted transfer goes on where it stopped, also in another process.
    """

    def __init__(
        self,
        url: str,
        store: LocalStore | None = None,
        *,
        limit: int = _DEFAULT_LIMIT,
        attempts: int = 5,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`limit` is the largest blob in bytes that is fetched, `attempts` how often one step may fail in a row."""
        super().__init__(url, attempts=attempts, transport=transport)
        self.store = store or LocalStore()
        self.limit = limit

    # ---- Blobs ----

    def names(self, name: str | bytes) -> Names | None:
        """The names of a blob at the gateway; None if it does not have it."""
        try:
            return self._pieces(parse_name(name))[1]
        except BlobNotFound:
            return None

    def has(self, name: str | bytes) -> bool:
        """Whether the gateway has a blob of this name."""
        return self._connection.request("HEAD", f"/v1/blobs/{parse_name(name)}", missing_ok=True) is not None

    def fetch(self, name: str | bytes, progress: Progress | None = None) -> Path:
        """The file of a blob in the local store, downloaded if it is not there.

        Each piece is verified when it arrives and fetched again if it is wrong; a program root or bindings root is
        computed from the whole. Raises BlobNotFound, BlobTooLarge, BlobCorrupt, StoreFull, GatewayError.
        """
        name = parse_name(name)
        if name in self.store:
            return self.store.path(name)
        pieces, _ = self._pieces(name)
        if pieces.size > self.limit:
            raise BlobTooLarge(f"blob {name} has {pieces.size} bytes, more than {self.limit}")
        part = self.store.partial(pieces.blob)
        with _locked(part) as file:
            if name in self.store:  # another process was faster
                return self.store.path(name)
            with writing(part):
                self._complete(file, pieces, progress)
            names, _ = describe(part, pieces)
            if name not in names:
                part.unlink()
                raise BlobCorrupt(
                    f"the gateway gave blob {names.blob} for {name}, but it computes {names.computed}",
                    fix="Fetch it from another gateway.",
                )
            return self.store.adopt(part, names)

    def upload(self, source: str | bytes | Path, progress: Progress | None = None) -> str:
        """Gives the gateway a blob that the local store has, or a file, unless it has it; returns the blob root."""
        path = source if isinstance(source, Path) else self.store.path(source)
        pieces = Pieces.of(path)
        blob = pieces.blob.hex()
        if not self.has(blob):
            with path.open("rb") as file:
                # Who needed the upload's place took it: begin anew. Or there is none: some go within seconds.
                for attempt in stamina.retry_context(
                    on=(BlobNotFound, StoreFull), attempts=self._connection.attempts, wait_initial=0.05, wait_max=2.0
                ):
                    with attempt:
                        self._send(blob, file, pieces, progress)
        if progress:
            progress(pieces.size, pieces.size)
        return blob

    def _send(self, blob: str, file: BinaryIO, pieces: Pieces, progress: Progress | None) -> None:
        done, is_one = 0, len(pieces.roots) <= 1
        if not is_one:
            answer = self._connection.request_json("PUT", f"/v1/blobs/{blob}/pieces", json=pieces.to_json())
            done = _received(answer, pieces)
            if answer.get("complete") is True:
                return
        while True:
            stop = min(done + _REQUEST, pieces.size)
            headers = {"Content-Length": str(stop - done)}
            if not is_one:
                headers["Content-Range"] = f"bytes {done}-{stop - 1}/{pieces.size}"
            content = _Sent(file, done, stop, pieces.size, progress)
            answer = self._connection.request_json("PUT", f"/v1/blobs/{blob}", content=content, headers=headers)
            before, done = done, _received(answer, pieces)
            if progress:
                progress(done, pieces.size)
            if answer.get("complete") is True:
                return
            if done <= before:
                raise GatewayError(f"the gateway takes nothing more of blob {blob}", fix="Use another gateway.")

    def _pieces(self, name: str) -> tuple[Pieces, Names]:
        answer = self._connection.request_json("GET", f"/v1/blobs/{name}/pieces")
        return Pieces.from_json(answer, _DEFAULT_LIMIT), Names.from_json(answer)

    def _complete(self, file: BinaryIO, pieces: Pieces, progress: Progress | None) -> None:
        have = _verified(file, pieces)
        while have < len(pieces.roots):
            for attempt in stamina.retry_context(
                on=(BlobCorrupt, GatewayError), attempts=self._connection.attempts, wait_initial=0.05, wait_max=2.0
            ):
                with attempt:
                    have = self._continue(file, pieces, have, progress)
        file.flush()

    def _continue(self, file: BinaryIO, pieces: Pieces, have: int, progress: Progress | None) -> int:
        """Appends verified pieces until the blob is complete or the gateway fails; raises if there was none."""
        first = have
        file.seek(first * PIECE)
        headers = {"Range": f"bytes={first * PIECE}-", "Accept-Encoding": "identity", **traces.headers()}
        try:
            path = f"/v1/blobs/{pieces.blob.hex()}"
            with self._connection.http.stream("GET", path, headers=headers) as response:
                if response.status_code != 206:
                    with answering(self._connection.url):
                        raise error_of(response)
                for data in _checked(_pieces_of(response.iter_raw(), pieces, first), pieces, first):
                    file.write(data)
                    have += 1
                    if progress:
                        progress(min(have * PIECE, pieces.size), pieces.size)
            if have == first:
                raise GatewayError("the gateway ended the transfer early")
        except httpx.TransportError as error:
            if have == first:
                raise GatewayError(f"the transfer from {self._connection.url} broke off: {error}") from error
        except BlobCorrupt:
            if have == first:
                raise
        return have


class _Sent:
    """A part of a file as the body of a request, from its beginning whenever the request is sent again."""

    def __init__(self, file: BinaryIO, start: int, stop: int, size: int, progress: Progress | None) -> None:
        self._file = file
        self._range = range(start, stop, PIECE)
        self._size = size
        self._progress = progress

    def __iter__(self) -> Iterator[bytes]:
        for at in self._range:
            self._file.seek(at)
            yield self._file.read(min(PIECE, self._range.stop - at))
            if self._progress:
                self._progress(min(at + PIECE, self._range.stop), self._size)


def _received(answer: Mapping[str, Any], pieces: Pieces) -> int:
    """How many bytes of a blob the gateway says that it has. Raises GatewayError unless it can have so many."""
    received = answer.get("received")
    if type(received) is not int or not 0 <= received <= pieces.size:
        raise GatewayError(f"the gateway says that it has {received!r:.80} of {pieces.size} bytes")
    return received


def _pieces_of(chunks: Iterator[bytes], pieces: Pieces, index: int) -> Iterator[bytes]:
    """Cuts a stream into pieces, beginning with piece `index`; an incomplete last one is left out."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        while index < len(pieces.roots) and len(buffer) >= (length := pieces.length(index)):
            yield bytes(buffer[:length])
            del buffer[:length]
            index += 1
        if index == len(pieces.roots):
            return


def _checked(stream: Iterator[bytes], pieces: Pieces, index: int) -> Iterator[bytes]:
    """The same pieces, each verified by another thread while the next one comes. Raises BlobCorrupt."""
    waiting: tuple[bytes, Future[None]] | None = None
    broken: httpx.TransportError | None = None
    with ThreadPoolExecutor(1) as others:
        while broken is None:
            try:
                data = next(stream, None)
            except httpx.TransportError as error:
                data, broken = None, error
            if waiting is not None:
                waiting[1].result()
                yield waiting[0]
            if data is None:
                break
            waiting = data, others.submit(pieces.check, index, data)
            index += 1
    if broken is not None:
        raise broken


def _verified(file: BinaryIO, pieces: Pieces) -> int:
    """How many pieces a partial file holds; cuts off what is not verified."""
    file.seek(0)
    have = 0
    while have < len(pieces.roots):
        try:
            pieces.check(have, file.read(pieces.length(have)))
        except BlobCorrupt:
            break
        have += 1
    file.truncate(min(have * PIECE, pieces.size))
    return have


@contextmanager
def _locked(part: Path) -> Iterator[BinaryIO]:
    """A partial file of which this process is the only writer."""
    while True:
        with part.open("ab+") as opened:
            system.lock(opened.fileno(), wait=True)
            # Whoever held the lock may have moved the file to its final place.
            if part.exists() and os.path.samestat(os.fstat(opened.fileno()), part.stat()):
                with part.open("rb+") as file:
                    yield file
                return
