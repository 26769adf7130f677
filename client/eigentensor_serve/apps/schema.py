"""What an app takes and gives, for programs and for people: JSON Schema, an example, a curl line. Pure."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from eigentensor.numerics.dtypes import STORAGE, DType
from eigentensor.program import Buffer, Program, Role
from eigentensor_serve.apps.registry import App

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_WRITTEN = 256  # elements of an example that are written out
_PACKED = 256 << 10  # bytes of one that are packed


def input_schema(program: Program) -> dict[str, Any]:
    """The JSON Schema of the body of a request to a program: `inputs`, and `variables` if it has any."""
    inputs = {name: tensor_schema(buffer.dtype, buffer.shape) for name, buffer in program.named(Role.INPUT).items()}
    properties: dict[str, Any] = {"inputs": _object(inputs)}
    required = ["inputs"] if inputs else []
    if program.variables:
        bounds = {v.name: {"type": "integer", "minimum": v.minimum, "maximum": v.maximum} for v in program.variables}
        properties["variables"] = _object(bounds)
        required.append("variables")
    if program.max_repeat > 1:
        properties["repeat"] = {"type": "integer", "minimum": 1, "maximum": program.max_repeat, "default": 1}
    return {
        "$schema": DIALECT,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def tensor_schema(dtype: DType, shape: tuple[int, ...]) -> dict[str, Any]:
    """A tensor as nested lists, or as its little-endian bytes in base64; bfloat16 as uint16 patterns."""
    nested: dict[str, Any] = _element(dtype)
    for extent in reversed(shape):
        nested = {"type": "array", "items": nested, "minItems": extent, "maxItems": extent}
    packed = {
        "dtype": {"const": dtype.name.lower()},
        "shape": {"const": list(shape)},
        "data": {"type": "string", "contentEncoding": "base64"},
    }
    title = f"{dtype.name.lower()} {list(shape)}"
    return {"title": title, "anyOf": [nested, _object(packed)]}


def example(program: Program) -> dict[str, Any] | None:
    """A request that the schema admits: zeros, each variable at its least. None where it would be a large one."""
    body: dict[str, Any] = {}
    inputs = program.named(Role.INPUT)
    if sum(b.elements * b.dtype.size for b in inputs.values()) > _PACKED:
        return None
    if inputs:
        small = sum(b.elements for b in inputs.values()) <= _WRITTEN
        body["inputs"] = {name: _zeros(buffer, packed=not small) for name, buffer in inputs.items()}
    if program.variables:
        body["variables"] = {v.name: v.minimum for v in program.variables}
    return body


def outputs(program: Program) -> list[dict[str, Any]]:
    """Name, dtype and shape of what a request is answered with."""
    return [
        {"name": r.name, "dtype": program.parameter(r.buffer).dtype.name.lower(), "shape": list(r.shape)}
        for r in program.outputs.values()
    ]


def described(app: App, program: Program, versions: list[int], served: int) -> dict[str, Any]:
    """`eigentensor.app/1` as `serve` answers it: the app, its versions, what it takes and gives."""
    return {
        **app.to_json(),
        "served": served,
        "versions": versions,
        "input": input_schema(program),
        "example": example(program),
        "outputs": outputs(program),
        "url": f"/v1/apps/{app.name}",
        "docs": f"/v1/apps/{app.name}/docs",
    }


def text_example(app: App) -> tuple[str, dict[str, Any]] | None:
    """The path and a request of the route that speaks text; None for an app that has no model."""
    if app.model is None:
        return None
    if app.model.kind == "chat":
        message = {"role": "user", "content": "Hello"}
        return "/v1/chat/completions", {"model": app.name, "messages": [message], "max_tokens": 32, "seed": 1}
    return "/v1/embeddings", {"model": app.name, "input": ["Hello"]}


def curl(url: str, body: Mapping[str, Any], *, tokens: bool = False) -> str:
    """The command that sends a body; what is long comes from a file, a token from the environment."""
    text = json.dumps(body)
    data = "@body.json" if len(text) > 300 or "'" in text else f"'{text}'"
    token = ' -H "Authorization: Bearer $TOKEN"' if tokens else ""
    return f"curl {url}{token} -H 'Content-Type: application/json' -d {data}"


def _zeros(buffer: Buffer, *, packed: bool) -> Any:
    zeros = np.zeros(buffer.shape, STORAGE[buffer.dtype])
    if not packed:
        return zeros.tolist()
    data = base64.b64encode(zeros.tobytes()).decode()
    return {"dtype": buffer.dtype.name.lower(), "shape": list(buffer.shape), "data": data}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _element(dtype: DType) -> dict[str, Any]:
    if dtype is DType.BOOL:
        return {"type": "boolean"}
    if dtype.is_float and dtype is not DType.BFLOAT16:
        return {"type": "number"}
    bounds = np.iinfo(STORAGE[dtype])
    return {"type": "integer", "minimum": int(bounds.min), "maximum": int(bounds.max)}
