"""A site: templates and static files, and the headers with which pages go out."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from eigentensor.web.pages import words
from eigentensor.web.pages.assets import PREFIX, Assets, shared
from eigentensor.web.pages.words import Money, Now

#: Only what the service itself serves: no script of a stranger, none in the text of a page, and no frame around it.
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-cache",
    "Vary": "Accept, Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class Link:
    """A word of the navigation; it is the present one on its own path and below it."""

    path: str
    label: str

    def is_at(self, path: str) -> bool:
        """Whether the page at `path` is below this word."""
        return path == self.path or (self.path != "/" and path.startswith(self.path + "/"))


@dataclass(frozen=True)
class Site:
    """The pages of one service: its name, its navigation, the packages that have folders `templates` and `static`, and
    the block as of which a page is told."""

    name: str
    links: Sequence[Link]
    packages: Sequence[str] = ()
    money: Money = field(default_factory=Money)
    now: Callable[[], Now] = Now
    known: Mapping[str, Any] = field(default_factory=dict)
    """What every template knows beside what the room gives it: modules of words, say."""
    live: bool = True
    """Whether pages listen at /events, where a `Feed` tells what is new."""

    def __post_init__(self) -> None:
        folders = [files(package) / "static" for package in self.packages]
        object.__setattr__(self, "assets", Assets([*shared(), *folders]))
        object.__setattr__(self, "_templates", _environment(self))

    assets: Assets = field(init=False)
    _templates: Environment = field(init=False, repr=False)

    def page(self, request: Request, template: str, status: int = HTTPStatus.OK, **data: Any) -> Response:
        """The page that a template makes of `data`; 304 where the browser has the same already."""
        body = self.text(request, template, **data).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = HEADERS | {"ETag": tag}
        if status == HTTPStatus.OK and request.headers.get("if-none-match") in (tag, f"W/{tag}"):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(body, status, headers, media_type="text/html; charset=utf-8")

    def text(self, request: Request, template: str, **data: Any) -> str:
        """The same as text. Beside `data` a template knows `site`, `path`, `here` (path and query), `now`, and the
        macros `ui` of ui.html."""
        path, query = request.url.path, request.url.query
        here = f"{path}?{query}" if query else path
        return self._templates.get_template(template).render(path=path, here=here, now=self.now(), **data)


def _environment(site: Site) -> Environment:
    packages: Iterable[str] = (*site.packages, "eigentensor.web.pages")
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "short": words.short,
        "visible": words.visible,
        "number": site.money.number,
        "exact": site.money.exact,
        "count": words.count,
        "size": words.size,
    }
    environment.globals |= {"site": site, "asset": site.assets.url, "static": PREFIX, **site.known}
    environment.globals["ui"] = environment.get_template("ui.html").module
    return environment
