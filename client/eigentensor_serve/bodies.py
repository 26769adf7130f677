"""What callers send and get in bodies: tensors as JSON or safetensors, what they want, on which terms."""

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from eigentensor.chain import to_wei
from eigentensor.economics.words import read_rate
from eigentensor.errors import BindingError, ConfigError, TermsRefused
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import Program, Role
from eigentensor.scratch import scratch
from eigentensor.store.tensors import load_safetensors, save_safetensors
from eigentensor.task.objects import Tensor
from eigentensor.web.limits import VALUES
from eigentensor_client import elements
from eigentensor_client.elements import WORDS
from eigentensor_client.files import Tensors, dtypes_of
from eigentensor_client.offers import ACCEPT_WITHIN
from eigentensor_client.orders import Terms

Uuid = Annotated[str, Field(pattern=r"^(0x)?[0-9a-fA-F]{64}$", description="64 hex digits, with or without 0x")]
Stage = Literal["result", "checked", "final"]
Amount = Annotated[str, Field(pattern=r"^\d{1,30}(\.\d{1,18})?$", description="whole tokens, as a decimal number")]
_DTYPES = {dtype.name.lower(): dtype for dtype in STORAGE if dtype is not DType.INDEX}
_EXAMPLE_UUID = "3f" * 32


class Body(BaseModel):
    """A JSON object that has no other members, and no member of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TensorBody(Body):
    """A tensor bit for bit: its elements in row-major order, little-endian, as base64. bool is a byte of 0 or 1."""

    dtype: Annotated[str, Field(json_schema_extra={"enum": sorted(_DTYPES)}, description="what its elements are")]
    shape: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=64, description="extents, outermost first")]
    data: Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"}, description="its elements")]


#: A tensor bit for bit, or nested lists of numbers, which are rounded to the program's dtype. `NaN`, `Infinity` and
#: `-Infinity` are words.
TensorLike = TensorBody | list[Any] | bool | int | float | Literal["NaN", "Infinity", "-Infinity"]
Inputs = Annotated[dict[str, TensorLike], Field(description="tensors by their names in the program")]
Bound = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]
Variables = Annotated[dict[str, Bound], Field(description="bound variables by their names")]
Repeat = Annotated[int, Field(ge=1, lt=1 << 32, description="how many times it is executed, with its own states")]


class TermsBody(Body):
    """What is offered. Whatever is left out is as `eigentensor run` has it; `max_price` is the service's at most."""

    max_price: Amount | None = Field(default=None, description="whole tokens at most")
    min_price: Amount | None = Field(default=None, description="whole tokens at first; about what operators ask")
    ramp: Annotated[int, Field(ge=0, lt=1 << 32)] | None = Field(
        default=None, description="blocks in which the price rises to `max_price`; 0: it is that from the start"
    )
    check: Annotated[str, Field(max_length=32, description="how probably others re-execute it: 20% or 0.2")] = "20%"
    verifiers: Annotated[int, Field(ge=1, le=4, description="how many others re-execute it then")] = 1
    check_fee: Amount | None = Field(default=None, description="whole tokens for each of them; the least unless said")
    value_at_risk: Amount = "0"
    exec: Annotated[int, Field(ge=1, lt=1 << 32)] | None = Field(default=None, description="blocks for the execution")
    accept_within: Annotated[int, Field(ge=1, lt=1 << 32, description="blocks for the acceptance")] = ACCEPT_WITHIN

    def terms(self, limit: int, decimals: int) -> Terms:
        """As wei. `limit` is the most that may be offered, and what is unless something is said.

        Raises TermsRefused for more, BindingError for a rate that is none.
        """

        def wei(text: str | None) -> int | None:
            try:
                return None if text is None else to_wei(text, decimals)
            except ConfigError as error:
                raise TermsRefused(error.what, fix=error.fix, topic=error.topic) from None

        offered = wei(self.max_price)
        price = limit if offered is None else offered
        if price > limit:
            raise TermsRefused(
                f"a max_price of {price} wei is more than the {limit} that this service offers for a task",
                fix="Offer less, or start the service with a higher --max-price.",
            )
        return Terms(
            max_price=price,
            min_price=wei(self.min_price),
            ramp=self.ramp,
            check_rate=read_rate(self.check),
            verifiers=self.verifiers,
            check_fee=wei(self.check_fee),
            value_at_risk=wei(self.value_at_risk) or 0,
            exec=self.exec,
            accept_within=self.accept_within,
        )


class AppBody(Body):
    """What an app is asked; its own description has the schema of its inputs."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"inputs": {"x": [1.0, 2.0]}}]})

    inputs: Inputs = Field(default_factory=dict)
    variables: Variables = Field(default_factory=dict)
    repeat: Repeat = 1


class TaskBody(Body):
    """A program and what it is given. `wait` is what the answer waits for; `checked` is checked with certainty."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "program": _EXAMPLE_UUID,
                    "weights": _EXAMPLE_UUID,
                    "inputs": {"x": {"dtype": "float32", "shape": [2], "data": "AACAPwAAAEA="}},
                    "wait": "result",
                    "terms": {"max_price": "0.01"},
                }
            ]
        }
    )

    program: Uuid
    weights: Uuid | None = Field(default=None, description="the bindings root of its weights")
    inputs: Inputs = Field(default_factory=dict)
    states: Uuid | dict[str, TensorLike] | None = Field(
        None, description="the states that it goes on from, or their root"
    )
    variables: Variables = Field(default_factory=dict)
    repeat: Repeat = 1
    wait: Stage = Field(default="result", description="what the answer waits for")
    terms: TermsBody = Field(default_factory=TermsBody)


_WORDS = {"task_uuid": "program", "weights_uuid": "weights", "input_tensors": "inputs"}


def _with_words(schema: dict[str, Any]) -> None:
    known = schema["properties"]
    known |= {word: known[name] | {"description": f"`{name}`, by its other name"} for word, name in _WORDS.items()}
    del schema["required"]  # the program, under one of its names
    schema["examples"] = [{"task_uuid": _EXAMPLE_UUID, "input_tensors": {"x": [1.0, 2.0]}}]


class ExecuteBody(TaskBody):
    """A task by the words of `execute_graph_on_gpu` or of `/v1/tasks`: `task_uuid` is the program's."""

    model_config = ConfigDict(json_schema_extra=_with_words)

    @model_validator(mode="before")
    @classmethod
    def _words(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {_WORDS.get(name, name): value for name, value in values.items()}


def tensors_of(program: Program, role: Role, values: Mapping[str, TensorLike]) -> Tensors:
    """Arrays of what came as JSON; lists become what the program has under their name. Raises BindingError."""
    expected = program.named(role)
    return {name: _array(name, expected[name].dtype if name in expected else None, v) for name, v in values.items()}


def is_listed(*groups: Mapping[str, TensorLike]) -> bool:
    """Whether all tensors came as lists of numbers: then what comes of them is answered so."""
    return not any(isinstance(value, TensorBody) for group in groups for value in group.values())


def _array(name: str, expected: DType | None, value: TensorLike) -> np.ndarray[Any, Any]:
    try:
        if not isinstance(value, TensorBody):
            return np.empty(0) if expected is None else _of_lists(expected, value)
        if value.dtype not in _DTYPES:
            raise ValueError(f"{value.dtype!r} is not one of {', '.join(sorted(_DTYPES))}")
        data = base64.b64decode(value.data, validate=True)
        return np.frombuffer(data, STORAGE[_DTYPES[value.dtype]].newbyteorder("<")).reshape(value.shape)
    except (ValueError, TypeError, OverflowError, binascii.Error) as error:
        raise BindingError(
            f"tensor {name!r}: {error}", fix="Give dtype, shape and the elements as base64; or nested lists of numbers."
        ) from None


def _of_lists(dtype: DType, value: TensorLike) -> np.ndarray[Any, Any]:
    """Numbers are rounded to a float, otherwise what they are: `null` is none, and 1.5 no whole one.

    Raises ValueError, TypeError, OverflowError.
    """
    storage = STORAGE[dtype]
    with np.errstate(over="ignore"):  # beyond the largest float is infinity, as rounding has it
        array = np.asarray(value, storage)
    if dtype is DType.BOOL:
        is_exact = set(np.asarray(value, object).flat) <= {False, True}
    else:
        kinds, words = _kinds(value)
        is_exact = kinds <= ({bool, int, float, str} if storage.kind == "f" else {bool, int}) and words <= set(WORDS)
    if not is_exact:
        raise ValueError(f"there are elements that are no {dtype.name.lower()}")
    return array


def _kinds(value: TensorLike) -> tuple[set[type], set[str]]:
    """The types of all that is in nested lists, and the words."""
    types, words, rest = set[type](), set[str](), [value]
    while rest:
        one = rest.pop()
        parts = one if isinstance(one, list) else [one]
        kinds = set(map(type, parts))
        if list in kinds:
            rest += [part for part in parts if isinstance(part, list)]
        if str in kinds:
            words |= {part for part in parts if isinstance(part, str)}
        types |= kinds - {list}
    return types, words


def tensors_in(data: bytes) -> Tensors:
    """The tensors of a safetensors file that came as a body. Raises TensorFileError."""
    with scratch() as folder:
        path = folder / "the body"
        path.write_bytes(data)
        return load_safetensors(path)  # mapped: the bytes outlive their name


def tensors_out(program: Program, outputs: Tensors) -> bytes:
    """Outputs as a safetensors file, to be sent."""
    with scratch() as folder:
        save_safetensors(folder / "the answer", outputs, dtypes_of(program))
        return (folder / "the answer").read_bytes()


def outputs_as_json(
    program: Program, outputs: Mapping[str, np.ndarray[Any, Any]], *, as_lists: bool
) -> dict[str, Tensor]:
    """Outputs as lists of numbers, if there are no more than a request may have; else as `TensorBody` says."""
    as_lists = as_lists and sum(array.size for array in outputs.values()) <= VALUES
    tensors: dict[str, Tensor] = {}
    for name, array in outputs.items():
        dtype = program.parameter(program.outputs[name].buffer).dtype
        tensors[name] = {"dtype": dtype.name.lower(), "shape": list(array.shape)}
        if as_lists:
            tensors[name]["values"] = elements.as_json(array)
        else:
            data = np.ascontiguousarray(array, STORAGE[dtype].newbyteorder("<")).tobytes()
            tensors[name]["data"] = base64.b64encode(data).decode()
    return tensors
