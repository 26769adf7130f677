"""The documentation site at `/docs`, out of the archive that `scripts/docs` puts beside this file, if it is there."""

import json
import mimetypes
import posixpath
from http import HTTPStatus
from pathlib import Path
from zipfile import ZipFile

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

ARCHIVE = Path(__file__).with_name("documentation.zip")
_SCRIPTS = "scripts.json"  #: hashes of the scripts that stand within pages


class Documentation:
    """What an archive has; it is read when it is asked for. Raises OSError where there is none."""

    def __init__(self, archive: Path) -> None:
        self._archive = ZipFile(archive)
        self._tags = {one.filename: f'"{one.CRC:08x}"' for one in self._archive.infolist()}
        scripts = " ".join(f"'{each}'" for each in json.loads(self._archive.read(_SCRIPTS)))
        self._headers = {
            "Content-Security-Policy": f"default-src 'none'; script-src 'self' {scripts}; style-src 'self'; "
            "img-src 'self' data:; connect-src 'self'; worker-src 'self'; form-action 'none'; base-uri 'none'; "
            "frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
        }

    def answer(self, path: str, seen: str) -> Response:
        """The file at a path; a page's is that of its folder. `seen` is the tag of what the reader has. Raises
        HTTPException where there is nothing."""
        name = path + "index.html" if not path or path.endswith("/") else path
        if (tag := self._tags.get(name)) is None:
            if f"{path}/index.html" in self._tags:
                return RedirectResponse(f"{posixpath.basename(path)}/", HTTPStatus.PERMANENT_REDIRECT)
            raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no page {path!r}")
        headers = self._headers | {"ETag": tag}
        if tag in seen:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(self._archive.read(name), media_type=kind, headers=headers)


def router() -> APIRouter:
    """The routes of the site; none where it was not built."""
    routes = APIRouter(include_in_schema=False)
    if not ARCHIVE.exists():
        return routes
    documentation = Documentation(ARCHIVE)

    @routes.get("/docs")
    def read_front() -> Response:
        return RedirectResponse("docs/", HTTPStatus.PERMANENT_REDIRECT)

    @routes.get("/docs/{path:path}")
    def read_documentation(path: str, request: Request) -> Response:
        return documentation.answer(path, request.headers.get("if-none-match", ""))

    return routes
