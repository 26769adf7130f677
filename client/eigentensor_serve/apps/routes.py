"""Apps over HTTP: what is deployed, what it takes, a page for people, and its answers."""

from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from eigentensor.program import Role
from eigentensor.web.documents import Responses, refused, response
from eigentensor_serve import asking, documents, schemas
from eigentensor_serve.apps import schema as apps_schema
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.apps.document import document
from eigentensor_serve.apps.registry import App
from eigentensor_serve.backend import Ask
from eigentensor_serve.bodies import AppBody, is_listed, tensors_in, tensors_of
from eigentensor_serve.queries import AppQuery
from eigentensor_serve.service import caller_of

Name = Annotated[str, Path(max_length=63, description="an app's name")]
Version = Annotated[int, Path(ge=1, lt=1 << 31, description="counts an app's versions from 1")]
_DOCUMENT: Responses = {
    200: {"description": "The document", "content": {"application/json": {"schema": {"type": "object"}}}},
    **refused(404, 501),
}
#: Of any app: URL is where the service is, APP its name.
_COMMAND = "curl -s $URL/v1/apps/$APP/example | curl $URL/v1/apps/$APP -H 'Content-Type: application/json' -d @-"
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
    def read_app(name: Name, request: Request) -> JSONResponse:
        """The served version of an app: what it takes as a JSON Schema, an example, what it gives."""
        return JSONResponse(_described(deployed, deployed.app(name), request))

    @routes.get("/{name}/versions/{version}", responses=_APP)
    def read_app_version(name: Name, version: Version, request: Request) -> JSONResponse:
        """The same of any version."""
        return JSONResponse(_described(deployed, deployed.app(name, version), request))

    @routes.get("/{name}/example", responses=response(AppBody, "A request") | refused(404, 413, 501))
    def read_app_example(name: Name) -> JSONResponse:
        """A request that the served version takes, however large: zeros."""
        app = deployed.app(name)
        program, most = deployed.program(app), deployed.service.settings.max_body
        if 2 * apps_schema.size_of_example(program, app.rows) > most:  # base64 takes a third more
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {most:,} bytes")
        return JSONResponse(apps_schema.example(program, app.rows))

    @routes.get("/{name}/openapi.json", responses=_DOCUMENT)
    def read_app_document(name: Name, request: Request) -> JSONResponse:
        """The same as OpenAPI of this app alone, with a command that asks it."""
        app = deployed.app(name)
        described, base = _described(deployed, app, request), _base(request)
        return JSONResponse(document(app, deployed.program(app), described, base, tokens=bool(caller_of(request))))

    @routes.post("/{name}", **documents.executes(AppBody, AppQuery, _COMMAND))
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


def _described(deployed: Deployed, app: App, request: Request) -> dict[str, Any]:
    versions, served = deployed.apps.versions(app.name), deployed.apps.get(app.name).version
    program, tokens = deployed.program(app), bool(caller_of(request))
    return apps_schema.described(app, program, versions, served, _base(request), tokens=tokens)


def _base(request: Request) -> str:
    """Where the caller reaches this service."""
    return str(request.base_url).rstrip("/")
