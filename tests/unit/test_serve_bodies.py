"""What callers send: lists of numbers as a program's tensors, and bodies that are too large."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pytest
from fastapi import Body, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from eigentensor.errors import BindingError
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import Buffer, Kind, Program, Role
from eigentensor.program.model import Result
from eigentensor.web import problems
from eigentensor.web.limits import VALUES, BodyLimit
from eigentensor_serve.asking import read_body
from eigentensor_serve.bodies import AppBody, is_listed, outputs_as_json, tensors_of


def read(dtype: DType, value: Any) -> np.ndarray:
    program = Program((), (Buffer(Role.INPUT, dtype, (3,), "x"),), (), (), ())
    return tensors_of(program, Role.INPUT, {"x": value})["x"]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (DType.UINT64, [2**64 - 1, 1, 0]),
        (DType.INT64, [-(2**63), 2**53 + 1, True]),
        (DType.FLOAT32, [1, 2.5, False]),
        (DType.FLOAT32, [float("nan"), float("inf"), -0.0]),
        (DType.FLOAT16, ["NaN", ["Infinity", "-Infinity"][1], 3]),
        (DType.BOOL, [True, 0, 1]),
        (DType.INT8, [[1], [2]]),
    ],
)
def test_lists_are_the_numbers_that_they_say(dtype: DType, value: Any) -> None:
    array = read(dtype, value)
    assert array.dtype == STORAGE[dtype] and np.array_equal(
        array, np.array(value, STORAGE[dtype]), equal_nan=dtype.is_float
    )


def test_what_is_more_than_the_largest_float_is_infinity() -> None:
    assert read(DType.FLOAT16, [1e6, -1e400]).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (DType.INT32, [1.5, 2]),
        (DType.INT32, [2.0]),
        (DType.FLOAT32, [None, 1]),
        (DType.FLOAT32, ["1", "nan"]),
        (DType.FLOAT32, ["NaN", "infinity"]),
        (DType.INT32, ["NaN"]),
        (DType.BOOL, ["NaN"]),
        (DType.FLOAT32, [{"a": 1}]),
        (DType.FLOAT32, [[1], 2]),
        (DType.BOOL, [2]),
        (DType.BOOL, ["yes"]),
        (DType.BOOL, [{}]),
        (DType.UINT8, [256]),
        (DType.UINT64, [-1]),
    ],
)
def test_nothing_else_is_taken_for_a_number(dtype: DType, value: Any) -> None:
    with pytest.raises(BindingError, match="'x'"):
        read(dtype, value)


@pytest.mark.parametrize("dtype", [dtype for dtype in STORAGE if dtype is not DType.INDEX])
def test_what_is_answered_in_lists_is_taken_for_the_same_bits(dtype: DType) -> None:
    storage = STORAGE[dtype]
    array = np.random.default_rng(0).integers(0, 256, 3 * storage.itemsize, np.uint8).view(storage)
    if storage.kind == "f":
        array = np.array([-0.0, np.finfo(storage).smallest_subnormal, -np.inf], storage)
    if dtype is DType.BOOL:
        array = np.array([True, False, True])
    program = Program((), (Buffer(Role.INPUT, dtype, (3,), "x"),), (), (), (Result(Kind.OUTPUT, "y", 0, (3,)),))
    for as_lists in (True, False):
        text = json.dumps(outputs_as_json(program, {"y": array}, as_lists=as_lists), allow_nan=False)
        tensor = json.loads(text)["y"]
        assert (tensor["dtype"], tensor["shape"], "values" in tensor) == (dtype.name.lower(), [3], as_lists)
        body = read_body(AppBody, json.dumps({"inputs": {"x": tensor["values"] if as_lists else tensor}}).encode())
        assert is_listed(body.inputs) is as_lists
        assert tensors_of(program, Role.INPUT, body.inputs)["x"].tobytes() == array.tobytes()


def test_so_many_numbers_that_no_request_may_have_are_answered_as_base64() -> None:
    program = Program((), (Buffer(Role.INPUT, DType.BOOL, (1,), "x"),), (), (), (Result(Kind.OUTPUT, "y", 0, (1,)),))
    many = outputs_as_json(program, {"y": np.zeros(VALUES + 1, np.bool_)}, as_lists=True)
    assert "values" not in many["y"] and len(many["y"]["data"]) > VALUES


def _echo(body: Annotated[list[int], Body()]) -> list[int]:
    return body


def test_a_body_that_turns_out_too_large_is_told_so_whoever_reads_it() -> None:
    app = FastAPI()
    problems.install(app)
    app.post("/")(_echo)
    app.add_middleware(BodyLimit, limit=lambda scope: 100, total=1000)

    def parts() -> Iterator[bytes]:  # of no length that is told before
        for _ in range(20):
            yield b"[1,2,3,4],"

    refused = TestClient(app).post("/", content=parts(), headers={"content-type": "application/json"})
    assert (refused.status_code, refused.json()["code"]) == (413, "BlobTooLarge"), refused.text


@given(
    st.recursive(
        st.integers(-5, 5) | st.floats(width=32) | st.booleans() | st.none() | st.text(max_size=2),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=1), inner, max_size=2),
    )
)
def test_json_is_read_as_pydantic_reads_it(value: Any) -> None:
    data = json.dumps({"inputs": {"x": value}}).encode()
    try:
        expected = AppBody.model_validate_json(data)
    except ValidationError:
        with pytest.raises(RequestValidationError):
            read_body(AppBody, data)
    else:
        assert repr(read_body(AppBody, data)) == repr(expected)


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b"\xff", b'{"inputs": {"x": 1}} 2', b"1"])
def test_what_is_no_json_is_malformed(data: bytes) -> None:
    with pytest.raises(RequestValidationError):
        read_body(AppBody, data)
