"""The OpenAPI document of one app: what it takes, in types, and a command that asks it. Pure."""

from collections.abc import Mapping
from typing import Any

from eigentensor.lowering.build import NAME as FINGERPRINT
from eigentensor.program import Program
from eigentensor.web.documents import LICENCE
from eigentensor_serve.apps.registry import App
from eigentensor_serve.apps.schema import output_schema
from eigentensor_serve.documents import HEADERS

_PROBLEM = {
    "type": "object",
    "properties": {word: {"type": "string"} for word in ("code", "detail", "fix")},
    "required": ["code", "detail"],
}


def document(app: App, program: Program, described: Mapping[str, Any], base: str, *, tokens: bool) -> dict[str, Any]:
    """From which a client of this app alone can be generated; `described` is what the service at `base` says of it."""
    operation: dict[str, Any] = {
        "operationId": "ask",
        "summary": f"Executes version {app.version} of {app.name}.",
        "requestBody": {"required": True, "content": {"application/json": _body(described)}},
        "responses": {
            "200": {
                "description": "The outputs, in `values` where the request had lists of numbers, in `data` otherwise",
                "headers": HEADERS,
                "content": {"application/json": {"schema": _answer(app, program)}},
            },
            "202": {"description": "It goes on: `urls` of the answer say where to ask"},
            "default": {"description": "Refused", "content": {"application/problem+json": {"schema": _PROBLEM}}},
        },
        "x-codeSamples": [{"lang": "Shell", "label": "curl", "source": described["curl"]}],
    }
    whole: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": app.name, "version": str(app.version), "license": LICENCE},
        "servers": [{"url": base}],
        "paths": {described["url"]: {"post": operation}},
    }
    if tokens:
        whole["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        whole["security"] = [{"token": []}]
    return whole


def _body(described: Mapping[str, Any]) -> dict[str, Any]:
    example = {} if described["example"] is None else {"example": described["example"]}
    return {"schema": described["input"], **example}


def _answer(app: App, program: Program) -> dict[str, Any]:
    with_rows = app.rows.outputs if app.rows else ()
    outputs = {
        r.name: output_schema(program.parameter(r.buffer).dtype, r.shape, rows=r.name in with_rows)
        for r in program.outputs.values()
    }
    always = [name for name in outputs if name != FINGERPRINT]  # the checksum is of all rows, not of some
    return {
        "type": "object",
        "properties": {"outputs": {"type": "object", "properties": outputs, "required": always}},
        "required": ["outputs"],
    }
