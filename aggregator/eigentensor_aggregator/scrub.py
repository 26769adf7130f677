"""Whether the bytes of blobs are what their names say; what is damaged or lost is fetched from other gateways."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from eigentensor.errors import BlobCorrupt, BlobNotFound, StoreError
from eigentensor.store import GatewayClient, LocalStore, Names, Pieces
from eigentensor.wire import Object, Root, word
from eigentensor_aggregator.blob_index import BlobIndex
from eigentensor_aggregator.folder import Folder


class Found(StrEnum):
    """What a look at a blob brought: its bytes are right; were not, and are again; or nobody has them."""

    WELL = "well"
    FETCHED = "fetched"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ScrubReport(Object, schema="eigentensor.scrub/1"):
    """`eigentensor.scrub/1`: one blob whose bytes were damaged or gone."""

    blob: Root
    """Its blob root."""
    found: Annotated[Found, word(*Found)]
    """`fetched`: its bytes are here again; `lost`: nobody who was asked has them, and it can be given again."""
    words: str
    """What was wrong, and who had it."""


class Scrub:
    """Looks at blobs, one after the other, those first at which nobody has looked for longest."""

    def __init__(self, folder: Folder, index: BlobIndex, peers: Sequence[str], scratch: Path) -> None:
        """`peers` are URLs of other gateways, asked in turn; `scratch` is a folder for what they give."""
        self._folder, self._index = folder, index
        self._peers, self._scratch = peers, scratch

    def due(self, before: float) -> Iterator[tuple[Names, ScrubReport]]:
        """The blobs that nobody has looked at since then, and what was found. Raises Away."""
        while (known := self._index.unchecked(before)) is not None:
            yield known[0], self._look(*known)

    def all(self) -> Iterator[ScrubReport]:
        """What is found of every blob. Raises Away."""
        for blob in self._index.sizes():
            for names, pieces in self._index.find(blob):
                if names.blob == blob:
                    yield self._look(names, pieces)

    def _look(self, names: Names, pieces: Pieces) -> ScrubReport:
        """Looks at all bytes of a blob, and sees to it that damaged ones are not served any more."""
        found, words = Found.WELL, ""
        if wrong := self._wrong(names.blob, pieces):
            peer = self._fetch(names.blob)
            found, words = Found.FETCHED if peer else Found.LOST, f"{wrong}; {peer or 'nobody'} has it"
            if peer is None:
                self._folder.remove(names.blob)
        self._index.checked(names.blob, time.time())
        return ScrubReport(bytes.fromhex(names.blob), found, words)

    def _wrong(self, blob: str, pieces: Pieces) -> str:
        """What is wrong with its bytes; empty if nothing is."""
        try:
            size = self._folder.size(blob)
            if size is None:
                return "its bytes are gone"
            if size != pieces.size:
                return f"it has {size} of {pieces.size} bytes"
            for index, data in enumerate(self._folder.read(blob, 0, pieces.size)):
                pieces.check(index, data)
        except BlobNotFound:
            return "its bytes are gone"
        except BlobCorrupt as error:
            return error.what
        return ""

    def _fetch(self, blob: str) -> str | None:
        """Fetches a blob from whoever has it, verified; the URL of who had it."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        for peer in self._peers:
            with (
                tempfile.TemporaryDirectory(dir=self._scratch) as folder,
                GatewayClient(peer, LocalStore(Path(folder)), attempts=2) as gateway,
            ):
                try:
                    path = gateway.fetch(blob)
                except StoreError:
                    continue
                self._folder.place(path, blob)
                return peer
        return None


def printed(as_json: bool) -> Callable[[ScrubReport], None]:
    """On stdout, a line or `eigentensor.scrub/1` each."""

    def show(report: ScrubReport) -> None:
        line = f"{report.found}  blob {report.blob.hex()[:16]}…  {report.words}"
        typer.echo(json.dumps(report.to_json()) if as_json else line)

    return show
