"""Static files, each under a name that has the hash of its bytes: a browser keeps it for ever."""

import hashlib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from mimetypes import guess_type

import structlog
from starlette.responses import Response

PREFIX = "/static/"
#: What others wrote: `scripts/setup` puts it into the folder `vendor`, with its licences.
VENDORED = ("htmx.min.js", "sse.min.js", "uPlot.iife.min.js", "uPlot.min.css")
_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_log = structlog.get_logger(__name__)


class Assets:
    """The files of folders, read once. Safe for several threads."""

    def __init__(self, folders: Iterable[Traversable]) -> None:
        """Of two files with one name the later folder's counts."""
        self._hashes: dict[str, str] = {}
        self._bodies: dict[str, tuple[bytes, str]] = {}
        for folder in folders:
            for file in folder.iterdir() if folder.is_dir() else ():
                if file.is_file():
                    self._add(file.name, file.read_bytes())

    def __contains__(self, name: str) -> bool:
        return name in self._hashes

    def url(self, name: str) -> str:
        """Where the file `name` is. Raises KeyError."""
        return PREFIX + self._hashes[name]

    def response(self, hashed: str, headers: Mapping[str, str]) -> Response | None:
        """The file under the last part of its URL, or that the browser has it; None if there is no such file."""
        if hashed not in self._bodies:
            return None
        body, kind = self._bodies[hashed]
        tag = {"ETag": f'"{hashed}"'}
        if headers.get("if-none-match") == tag["ETag"]:
            return Response(status_code=304, headers=_HEADERS | tag)
        return Response(body, headers=_HEADERS | tag, media_type=kind)

    def _add(self, name: str, body: bytes) -> None:
        stem, _, ending = name.rpartition(".")
        hashed = f"{stem}.{hashlib.sha256(body).hexdigest()[:16]}.{ending}"
        self._hashes[name] = hashed
        self._bodies[hashed] = body, guess_type(name)[0] or "application/octet-stream"


def shared() -> list[Traversable]:
    """The folders of this package: its own files, and what `scripts/setup` put beside them."""
    here = files("eigentensor.web.pages")
    missing = [name for name in VENDORED if not (here / "vendor" / name).is_file()]
    if missing:
        _log.warning("pages do not update themselves", missing=missing, fix="Run scripts/setup.")
    return [here / "vendor", here / "static"]
