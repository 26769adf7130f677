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
from eigentensor.numerics.dtypes import STORAGE, DType
from eigentensor.program import Buffer, Program, Role
from eigentensor.web import problems
from eigentensor.web.limits import BodyLimit
from eigentensor_serve.asking import read_body
from eigentensor_serve.bodies import AppBody, tensors_of


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
