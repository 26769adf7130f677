"""Signing in with a token: a cookie reads from then on, and the tab itself keeps the token, with which it may spend."""

from http import HTTPStatus
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from eigentensor.web.pages.site import Site
from eigentensor_serve import cookies
from eigentensor_serve.tokens import Tokens

BODY = 4 << 10  #: bytes that a form of these pages may have
_POLICY = {"Referrer-Policy": "same-origin"}  # with `no-referrer` a form's origin would be told as `null`


def router(site: Site, tokens: Tokens) -> APIRouter:
    """`/sign-in` and `/sign-out`; no OpenAPI document has them."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/sign-in")
    def ask_for_token(request: Request, to: str = "/") -> Response:
        """The form."""
        return page(site, request, to)

    @routes.post("/sign-in")
    async def sign_in(request: Request, to: str = "/") -> Response:
        """Gives a browser its cookie, and leads to where it wanted."""
        form = parse_qs((await request.body()).decode(errors="replace"))
        kept = tokens.pass_of(form.get("token", [""])[0].strip())
        if kept is None:
            return page(site, request, to, is_wrong=True)
        response = RedirectResponse(place(to), HTTPStatus.SEE_OTHER)
        cookies.keep(response, request, kept)
        return response

    @routes.post("/sign-out")
    def sign_out(request: Request) -> Response:
        """Takes the cookie away."""
        response = RedirectResponse("/sign-in", HTTPStatus.SEE_OTHER)
        cookies.forget(response, request)
        return response

    return routes


def page(site: Site, request: Request, to: str, *, is_wrong: bool = False) -> Response:
    """The page that asks for a token. It says nothing about what there is."""
    action = f"/sign-in?to={quote(place(to))}"
    response = site.page(request, "sign_in.html", HTTPStatus.UNAUTHORIZED, action=action, is_wrong=is_wrong)
    response.headers.update(_POLICY)
    return response


def asking(site: Site, request: Request) -> Response:
    """The same in the place of a page that wants a token."""
    query = f"?{request.url.query}" if request.url.query else ""
    return page(site, request, request.url.path + query)


def place(to: str) -> str:
    """A path of this service, whatever somebody wrote into a link."""
    is_path = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if is_path else "/"
