"""What an OpenAPI document says that the routes do not say by themselves."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from eigentensor.web.problems import MEDIA_TYPE

REF = "#/components/schemas/{model}"
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
    "examples": [
        {
            "type": "urn:eigentensor:error:BlobNotFound",
            "title": "Not Found",
            "status": 404,
            "code": "BlobNotFound",
            "detail": "'3f' is not the uuid of a blob",
            "fix": "A uuid has 64 hex digits.",
        }
    ],
}
_REFUSAL = {
    "description": "Refused",
    "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(model="Problem")}}},
}


def install(app: FastAPI, models: Sequence[type[BaseModel]] = (), *, tokens: bool = False) -> None:
    """Completes the document of an app: every operation may answer with a problem; `models` are bodies that routes
    refer to by `REF`; with `tokens` it says how one is shown."""
    generate = app.openapi

    def complete() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = generate()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for model in models:
            schema = model.model_json_schema(ref_template=REF)
            schemas |= schema.pop("$defs", {})
            schemas[model.__name__] = schema
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas["Problem"] = _PROBLEM
        if tokens:
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}, {}]
        for path in document["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
                operation["responses"].setdefault("default", _REFUSAL)
        return document

    app.openapi = complete  # type: ignore[method-assign]
