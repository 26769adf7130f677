"""What callers say in the query of a request: what a safetensors body cannot, and how the answer is to be."""

from typing import Annotated, Any, Literal, Self

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError

from eigentensor.errors import BindingError
from eigentensor_serve.bodies import Stage

Elements = Literal["lists", "base64"]
_Uuid = Annotated[str | None, Field(max_length=66)]
_BESIDE = "with a safetensors body"


class AppQuery(BaseModel):
    """What an app is asked beside its inputs."""

    variable: list[str] | None = Field(default=None, max_length=64, description=f"{_BESIDE}: NAME:NUMBER")
    repeat: int | None = Field(default=None, ge=1, lt=1 << 32, description="… how many times it is executed")
    elements: Elements | None = Field(
        default=None, description="how an answer in JSON has elements of tensors; as the request has them unless said"
    )

    @classmethod
    def of(cls, request: Request) -> Self:
        """Raises RequestValidationError, whatever the body is."""
        query = request.query_params
        members = {
            name: query.getlist(name) if name == "variable" else query[name]
            for name in cls.model_fields
            if name in query
        }
        try:
            return cls.model_validate(members)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False)
            raise RequestValidationError([{**e, "loc": ("query", *e["loc"])} for e in errors]) from None

    def variables(self) -> dict[str, int]:
        """Raises BindingError."""
        return dict(_variable(word) for word in self.variable or ())


class TaskQuery(AppQuery):
    """The members of a `TaskBody` except its inputs; programs and weights have two names."""

    program: _Uuid = Field(default=None, description=f"{_BESIDE}: the program")
    weights: _Uuid = Field(default=None, description="… its weights")
    states: _Uuid = Field(default=None, description="… its states")
    task_uuid: _Uuid = Field(default=None, description="the program, by its other name")
    weights_uuid: _Uuid = Field(default=None, description="its weights, by their other name")
    wait: Stage | None = Field(default=None, description="what the answer waits for")
    max_price: str | None = Field(default=None, max_length=64, description="in whole tokens")

    def members(self) -> dict[str, Any]:
        """Those of a body that are given. Raises BindingError."""
        members = {
            "program": self.program or self.task_uuid,
            "weights": self.weights or self.weights_uuid,
            "states": self.states,
            "variables": self.variables() or None,
            "repeat": self.repeat,
            "wait": self.wait,
            "terms": None if self.max_price is None else {"max_price": self.max_price},
        }
        return {name: value for name, value in members.items() if value is not None}


def parameters(model: type[AppQuery], *without: str) -> list[dict[str, Any]]:
    """What OpenAPI says of them."""
    members = model.model_json_schema()["properties"]
    return [
        {"name": name, "in": "query", "required": False, "description": schema["description"], "schema": schema}
        for name, schema in members.items()
        if name not in without
    ]


def _variable(word: str) -> tuple[str, int]:
    name, _, number = word.rpartition(":")
    try:
        return name, int(number[:12])
    except ValueError:
        raise BindingError(f"cannot read variable {word!r}", fix="Write NAME:NUMBER.") from None
