"""What an app takes and gives, for programs and for people: JSON Schema, an example, a curl line. Pure."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import Buffer, Program, Role
from eigentensor_client.elements import WORDS
from eigentensor_serve.apps.registry import App
from eigentensor_serve.rows import Rows

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_WRITTEN = 256  # elements of an example that are written out
_PACKED = 256 << 10  # bytes of one that are packed
_TYPED = 300  # letters of a body in a command


def input_schema(program: Program, rows: Rows | None = None) -> dict[str, Any]:
    """The JSON Schema of the body of a request to a program: `inputs`, and `variables` if it has any."""
    with_rows = rows.inputs if rows else ()
    inputs = {n: tensor_schema(b.dtype, b.shape, rows=n in with_rows) for n, b in program.named(Role.INPUT).items()}
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


def tensor_schema(dtype: DType, shape: tuple[int, ...], *, rows: bool = False) -> dict[str, Any]:
    """A tensor as nested lists, or as its little-endian bytes in base64; bfloat16 as uint16 patterns. With `rows` there
    may be fewer of them."""
    nested = _nested(dtype, shape)
    extents: dict[str, Any] = {"const": list(shape)}
    if rows:
        nested["minItems"] = 1
        count = {"type": "integer", "minimum": 1, "maximum": shape[0]}
        whole = [count, *({"const": extent} for extent in shape[1:])]
        extents = {"type": "array", "prefixItems": whole, "minItems": len(shape), "maxItems": len(shape)}
    data = {"type": "string", "contentEncoding": "base64"}
    packed = {"dtype": {"const": dtype.name.lower()}, "shape": extents, "data": data}
    return {"title": _title(dtype, shape, rows), "anyOf": [nested, _object(packed)]}


def output_schema(dtype: DType, shape: tuple[int, ...], *, rows: bool = False) -> dict[str, Any]:
    """A tensor of an answer: its elements are nested lists in `values`, or base64 in `data`."""
    nested = _nested(dtype, shape)
    if rows:
        nested["minItems"] = 1
    properties = {
        "dtype": {"const": dtype.name.lower()},
        "shape": {"type": "array", "items": {"type": "integer"}},
        "values": nested,
        "data": {"type": "string", "contentEncoding": "base64"},
    }
    return {
        "title": _title(dtype, shape, rows),
        "type": "object",
        "properties": properties,
        "required": ["dtype", "shape"],
    }


def size_of_example(program: Program, rows: Rows | None = None) -> int:
    """Bytes of the elements of `example`."""
    return sum(_elements(b, rows) * b.dtype.size for b in program.named(Role.INPUT).values())


def example(program: Program, rows: Rows | None = None) -> dict[str, Any]:
    """A request that the schema admits: zeros, one row where rows are free, each variable at its least."""
    body: dict[str, Any] = {}
    inputs = program.named(Role.INPUT)
    if inputs:
        small = sum(_elements(b, rows) for b in inputs.values()) <= _WRITTEN
        body["inputs"] = {name: _zeros(buffer, rows, packed=not small) for name, buffer in inputs.items()}
    if program.variables:
        body["variables"] = {v.name: v.minimum for v in program.variables}
    return body


def short_example(program: Program, rows: Rows | None = None) -> dict[str, Any] | None:
    """The same, None where it would be a large one."""
    return example(program, rows) if size_of_example(program, rows) <= _PACKED else None


def outputs(program: Program) -> list[dict[str, Any]]:
    """Name, dtype and shape of what a request is answered with."""
    return [
        {"name": r.name, "dtype": program.parameter(r.buffer).dtype.name.lower(), "shape": list(r.shape)}
        for r in program.outputs.values()
    ]


def rows_word(shape: Sequence[int], name: str, rows: Rows | None) -> str:
    """A shape for people, with the rows that a request chooses."""
    free = rows is not None and name in (*rows.inputs, *rows.outputs)
    return f"[{', '.join([f'1 to {shape[0]}', *map(str, shape[1:])])}]" if free else str(list(shape))


def described(
    app: App, program: Program, versions: list[int], served: int, base: str, *, tokens: bool
) -> dict[str, Any]:
    """`eigentensor.app/1` as a service at `base` answers it: the app, its versions, what it takes and gives."""
    url = f"/v1/apps/{app.name}"
    return {
        **app.to_json(),
        "served": served,
        "versions": versions,
        "input": input_schema(program, app.rows),
        "example": short_example(program, app.rows),
        "outputs": outputs(program),
        "url": url,
        "docs": f"/apps/{app.name}",
        "openapi": f"{url}/openapi.json",
        "curl": curl(app, program, base, tokens=tokens),
    }


def text_example(app: App) -> tuple[str, dict[str, Any]] | None:
    """The path and a request of the route that speaks text; None for an app that has no model."""
    if app.model is None:
        return None
    if app.model.kind == "chat":
        message = {"role": "user", "content": "Hello"}
        return "/v1/chat/completions", {"model": app.name, "messages": [message], "max_tokens": 32, "seed": 1}
    return "/v1/embeddings", {"model": app.name, "input": ["Hello"]}


def curl(app: App, program: Program, base: str, *, tokens: bool = False) -> str:
    """A command that asks an app at `base`, as it is: what is long comes from there, a token from the environment."""
    path, body = text_example(app) or (f"/v1/apps/{app.name}", short_example(program, app.rows))
    token = ' -H "Authorization: Bearer $TOKEN"' if tokens else ""
    ask = f"curl {base}{path}{token} -H 'Content-Type: application/json'"
    text = json.dumps(body)
    if body is None or len(text) > _TYPED or "'" in text:
        return f"curl -s {base}/v1/apps/{app.name}/example{token} | {ask} -d @-"
    return f"{ask} -d '{text}'"


def _elements(buffer: Buffer, rows: Rows | None) -> int:
    free = rows is not None and buffer.name in rows.inputs
    return buffer.elements // buffer.shape[0] if free else buffer.elements


def _zeros(buffer: Buffer, rows: Rows | None, *, packed: bool) -> Any:
    free = rows is not None and buffer.name in rows.inputs
    zeros = np.zeros((1, *buffer.shape[1:]) if free else buffer.shape, STORAGE[buffer.dtype])
    if not packed:
        return zeros.tolist()
    data = base64.b64encode(zeros.tobytes()).decode()
    return {"dtype": buffer.dtype.name.lower(), "shape": list(zeros.shape), "data": data}


def _nested(dtype: DType, shape: tuple[int, ...]) -> dict[str, Any]:
    nested = _element(dtype)
    for extent in reversed(shape):
        nested = {"type": "array", "items": nested, "minItems": extent, "maxItems": extent}
    return nested


def _title(dtype: DType, shape: tuple[int, ...], rows: bool) -> str:
    extents = ", ".join([f"1 to {shape[0]}", *map(str, shape[1:])] if rows else map(str, shape))
    return f"{dtype.name.lower()} [{extents}]"


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
        return {"anyOf": [{"type": "number"}, {"enum": list(WORDS)}]}
    bounds = np.iinfo(STORAGE[dtype])
    return {"type": "integer", "minimum": int(bounds.min), "maximum": int(bounds.max)}
