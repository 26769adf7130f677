"""What an OpenAPI document says that the routes do not say by themselves.

Answers are made by hand, so that none is validated a second time: `response` says what they are, tests hold them to it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter

from eigentensor.schemas.problems import Problem
from eigentensor.web.refusals import REFUSED, RESPONSES

REF = "#/components/schemas/{model}"
BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
LICENCE = {"name": "GPL-3.0-or-later", "identifier": "GPL-3.0-or-later"}
HERE = [{"url": "/", "description": "where this document is from"}]
Responses = dict[int | str, dict[str, Any]]


def name(route: APIRoute) -> str:
    """The operation's id: by it generated clients name what calls it."""
    return route.name


def response(model: Any, what: str, *, status: int = 200, **more: Any) -> Responses:
    """A response: a JSON object of this type, and what else OpenAPI has for a response."""
    return {status: {"model": model, "description": what, **more}}


def refused(*statuses: int) -> Responses:
    """That these are among an operation's refusals, beside those that every operation has."""
    return {status: {"$ref": f"#/components/responses/{RESPONSES[status][0]}"} for status in statuses}


def header(what: str, example: str, **schema: Any) -> dict[str, Any]:
    """A header of a response."""
    return {"description": what, "schema": {"type": "string", **schema}, "example": example}


def asks(name: str, what: str, example: str, **schema: Any) -> dict[str, Any]:
    """A header of a request."""
    return {"name": name, "in": "header", "required": False, **header(what, example, **schema)}


def examples(package: str) -> dict[str, Any]:
    """Objects by the names of their types, as a package has them in examples.json."""
    objects: dict[str, Any] = json.loads(files(package).joinpath("examples.json").read_text())
    return objects


def install(
    app: FastAPI,
    models: Sequence[type[BaseModel]] = (),
    *,
    examples: Mapping[str, Any] = {},
    everywhere: Sequence[int] = (),
    tokens: bool = False,
) -> None:
    """Completes the document of an app: `models` are bodies that routes refer to by `REF`, `examples` are of schemas by
    their names, `everywhere` are statuses with which every operation may refuse; `tokens`: it says how to show one."""
    generate = app.openapi

    def complete() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = generate()
        components = document.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        for model in models:
            schema = model.model_json_schema(ref_template=REF)
            schemas |= schema.pop("$defs", {})
            schemas[model.__name__] = schema
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas["Problem"] = TypeAdapter(Problem).json_schema()
        for name, schema in schemas.items():
            _untitle(schema)
            if name in examples:
                schema["examples"] = [examples[name]]
        components["responses"] = dict(RESPONSES.values()) | {"Refused": REFUSED}
        if tokens:
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": _TOKEN}}
            document["security"] = [{"token": []}, {}]
        for operation in _operations(document):
            _complete(operation, everywhere)
        return document

    app.openapi = complete  # type: ignore[method-assign]


_TOKEN = "`eigentensor serve token new NAME` makes one; none is needed where there are none."


def _operations(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()


def _complete(operation: dict[str, Any], everywhere: Sequence[int]) -> None:
    """Adds refusals, and takes out what FastAPI says wrongly."""
    responses = operation["responses"]
    if "HTTPValidationError" in json.dumps(responses.get("422", "")):
        del responses["422"]  # what is malformed is refused with 400
    for response in responses.values():
        if "$ref" in response:
            response.pop("description", None)
        if "content" in response:  # first what is answered where Accept says nothing: generated clients read that
            kinds = sorted(response["content"].items(), reverse="requestBody" not in operation)
            response["content"] = dict(kinds)
        for media in response.get("content", {}).values():
            media.pop("itemSchema", None)  # a word of OpenAPI 3.2
    for media in operation.get("requestBody", {}).get("content", {}).values():
        if "$ref" in media["schema"]:
            media["schema"] = {"$ref": media["schema"]["$ref"]}  # beside what FastAPI sees: any object
    for parameter in operation.get("parameters", ()):
        parameter["schema"].pop("title", None)
    if "default" not in responses:
        takes = [400] * ("parameters" in operation or "requestBody" in operation)
        guards = () if operation.get("security") == [] else everywhere
        more = refused(*takes, *([413] * ("requestBody" in operation)), *guards, 500)
        responses |= {str(status): one for status, one in more.items() if str(status) not in responses}
        responses["default"] = {"$ref": "#/components/responses/Refused"}
    operation["responses"] = dict(sorted(responses.items()))


def _untitle(schema: dict[str, Any]) -> None:
    """Drops titles that repeat the names of members: generated code would be named by them."""
    for member in schema.get("properties", {}).values():
        member.pop("title", None)
