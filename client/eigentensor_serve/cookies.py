"""The cookie by which a browser reads pages: it holds a pass, no token, and is sent with no request of another site."""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response

_NAME = "eigentensor-pages"


def kept(request: HTTPConnection) -> str:
    """The pass in a request's cookies; empty without one."""
    return request.cookies.get(_name(request), "")


def keep(response: Response, request: HTTPConnection, pass_: str) -> None:
    """Lets the browser of a request keep a pass until it is closed."""
    is_secure = request.url.scheme == "https"
    response.set_cookie(_name(request), pass_, path="/", httponly=True, samesite="strict", secure=is_secure)


def forget(response: Response, request: HTTPConnection) -> None:
    """Takes it away."""
    response.delete_cookie(_name(request), path="/", httponly=True, samesite="strict")


def _name(request: HTTPConnection) -> str:
    """Cookies do not tell ports apart, and two services on one host have each their own."""
    try:
        port = urlsplit(f"//{request.headers.get('host', '')}").port
    except ValueError:
        port = None
    return f"{_NAME}-{port}" if port else _NAME
