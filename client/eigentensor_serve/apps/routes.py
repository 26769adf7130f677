"""Apps over HTTP: what is deployed, what it takes, a page for people, and its answers."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from eigentensor.chain.units import from_wei
from eigentensor.program import Role
from eigentensor.web.documents import Responses, refused, response
from eigentensor_serve import asking, documents, schemas
from eigentensor_serve.apps import page as apps_page
from eigentensor_serve.apps import schema as apps_schema
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.apps.registry import App
from eigentensor_serve.backend import Ask
from eigentensor_serve.bodies import AppBody, is_listed, tensors_in, tensors_of
from eigentensor_serve.queries import AppQuery
from eigentensor_serve.service import caller_of

Name = Annotated[str, Path(max_length=63, description="an app's name")]
Version = Annotated[int, Path(ge=1, lt=1 << 31, description="counts an app's versions from 1")]
_SIGN_IN: Responses = {
    401: {"description": "A page that asks for a token", "content": {"text/html": {"schema": {"type": "string"}}}}
}
_APP = response(schemas.App, "The app") | refused(404, 501)


def router(deployed: Deployed) -> APIRouter:
    """The routes under /v1/apps."""
    routes = APIRouter(prefix="/v1/apps", tags=["apps"])

    @routes.get("", responses=response(schemas.Apps, "The apps"))
    def list_apps() -> JSONResponse:
        """Every app, in the version that is served."""
        apps = [app.to_json() for app in deployed.apps.list()]
        return JSONResponse({"schema": "eigentensor.apps/1", "apps": apps})

    @routes.get("/{name}", responses=_APP)
    def read_app(name: Name) -> JSONResponse:
        """The served version of an app: what it takes as a JSON Schema, an example, what it gives."""
        return JSONResponse(_described(deployed, deployed.app(name)))

    @routes.get("/{name}/versions/{version}", responses=_APP)
    def read_app_version(name: Name, version: Version) -> JSONResponse:
        """The same of any version."""
        return JSONResponse(_described(deployed, deployed.app(name, version)))

    @routes.get("/{name}/docs", response_class=HTMLResponse, responses=_SIGN_IN | refused(404, 501))
    def read_app_page(name: Name, request: Request) -> HTMLResponse:
        """The same for people, with a form to try it."""
        app = deployed.app(name)
        program, versions = deployed.program(app), deployed.apps.versions(name)
        described = _described(deployed, app)
        url = str(request.base_url).rstrip("/")
        price, tokens = _price(deployed, app), bool(caller_of(request))
        text = apps_page.page(app, program, versions, described["example"], url, price, tokens=tokens)
        return HTMLResponse(text, headers=apps_page.HEADERS)

    @routes.post("/{name}", **documents.executes(AppBody, AppQuery))
    async def ask_app(name: Name, request: Request) -> Response:
        """Executes an app: JSON for JSON, safetensors for safetensors."""
        return await _answered(deployed, request, name, None)

    @routes.post("/{name}/versions/{version}", **documents.executes(AppBody, AppQuery))
    async def ask_app_version(name: Name, version: Version, request: Request) -> Response:
        """Executes one version of an app."""
        return await _answered(deployed, request, name, version)

    return routes


async def _answered(deployed: Deployed, request: Request, name: str, version: int | None) -> Response:
    query = AppQuery.of(request)
    variables, repeat = query.variables(), query.repeat or 1
    has_tensors, data = asking.is_tensors(request), await request.body()
    app = deployed.apps.get(name, version)

    def ask() -> Ask:
        deployed.held(app)
        program = deployed.program(app)
        if has_tensors:
            return deployed.ask(app, program, tensors_in(data), variables, repeat)
        body = asking.read_body(AppBody, data)
        inputs = tensors_of(program, Role.INPUT, body.inputs)
        asked = deployed.ask(app, program, inputs, body.variables, body.repeat)
        return replace(asked, as_lists=is_listed(body.inputs))

    is_brief = len(data) <= asking.SMALL and deployed.is_warm(app)
    return await asking.executed(deployed.service, request, ask, is_brief=is_brief)


def _described(deployed: Deployed, app: App) -> dict[str, Any]:
    versions, served = deployed.apps.versions(app.name), deployed.apps.get(app.name).version
    return apps_schema.described(app, deployed.program(app), versions, served)


def _price(deployed: Deployed, app: App) -> str:
    if app.terms is None or deployed.service.domain is None:
        return "executed by this machine: nothing is paid, nobody checks"
    most = from_wei(app.terms.max_price, deployed.service.decimals)
    a_day = "" if app.budget is None else f"; at most {from_wei(app.budget, deployed.service.decimals)} a day"
    return f"a paid task for at most {most} tokens and its verifiers{a_day}; answered when it is {app.stage}"
