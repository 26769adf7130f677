"""What the OpenAPI document says that code alone does not: bodies of two kinds, problems, examples."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from eigentensor.errors import BindingError
from eigentensor.web.problems import MEDIA_TYPE
from eigentensor_client.serving.bodies import AppBody, Body, ExecuteBody, TaskBody

_REF = "#/components/schemas/{model}"
_FILE = {"schema": {"type": "string", "format": "binary"}}
_OBJECT = {"schema": {"type": "object"}}
RESULT: dict[str, Any] = {
    "responses": {
        HTTPStatus.OK: {
            "description": "The outputs",
            "content": {"application/octet-stream": _FILE, "application/json": _OBJECT},
        }
    }
}
_ACCEPTED = {HTTPStatus.ACCEPTED: {"description": "It goes on: where to ask", "content": {"application/json": _OBJECT}}}


def executes(model: type[Body]) -> dict[str, Any]:
    """Of a route that takes a task and answers with its result, or with 202."""
    return {"openapi_extra": _body(model), "responses": RESULT["responses"] | _ACCEPTED}


def quotes(model: type[TaskBody]) -> dict[str, Any]:
    return {"openapi_extra": _body(model)}


def variable(word: str) -> tuple[str, int]:
    """A bound variable from `name:number`. Raises BindingError."""
    name, _, number = word.rpartition(":")
    try:
        return name, int(number[:12])
    except ValueError:
        raise BindingError(f"cannot read variable {word!r}", fix="Write NAME:NUMBER.") from None


def _body(model: type[Body]) -> dict[str, Any]:
    content = {
        "application/json": {"schema": {"$ref": _REF.format(model=model.__name__)}},
        "application/octet-stream": _FILE,
    }
    return {"requestBody": {"required": True, "content": content}}


def install(app: FastAPI) -> None:
    """Completes the document of an app: the bodies' schemas, a problem for every refusal, and how to show a token."""
    generate = app.openapi

    def complete() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            for model in (TaskBody, ExecuteBody, AppBody):
                _add(schemas, model)
            schemas["Problem"] = _PROBLEM
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}, {}]
            for path in document["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
                    operation["responses"].setdefault("default", _REFUSAL)
        return app.openapi_schema  # type: ignore[return-value]

    app.openapi = complete  # type: ignore[method-assign]


def _add(schemas: dict[str, Any], model: type[BaseModel]) -> None:
    schema = model.model_json_schema(ref_template=_REF)
    schemas |= schema.pop("$defs", {})
    schemas[model.__name__] = schema


_PROBLEM = {
    "type": "object",
    "description": "RFC 9457; `code` is the error's name, `fix` what to do.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "fix": {"type": "string"},
    },
}
_REFUSAL = {
    "description": "Refused",
    "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}},
}
