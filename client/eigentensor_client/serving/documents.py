"""What the OpenAPI document says of routes whose bodies are of two kinds."""

from http import HTTPStatus
from typing import Any

from eigentensor.errors import BindingError
from eigentensor.web.documents import REF
from eigentensor_client.serving.bodies import Body

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


def quotes(model: type[Body]) -> dict[str, Any]:
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
        "application/json": {"schema": {"$ref": REF.format(model=model.__name__)}},
        "application/octet-stream": _FILE,
    }
    return {"requestBody": {"required": True, "content": content}}
