"""What may be given to a program."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from eigentensor.errors import BindingError
from eigentensor.program import Buffer, DType, Kind, Program, Role, bind, collect, iteration_values
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, counter, load, to_body
from eigentensor.program.fitting import Header, fit, takes_bools
from support.programs.worked_examples import layer, session

LAYER, SESSION = layer(), session()


def of_type(dtype: DType) -> Program:
    """output = x, for two elements of a type."""
    axis = Axis(0, 2)
    copy = to_body(load(Array("x", dtype, 2), counter(axis)), (axis,))
    externals = {"x": Buffer(Role.INPUT, dtype, (2,), "x")}
    return assemble([("y", copy)], externals, {(Kind.OUTPUT, "output"): ("y", (2,))})


def test_buffers_come_in_the_order_of_the_records_with_constants() -> None:
    token, cache, offsets = bind(SESSION.program, SESSION.tensors, SESSION.variables, 2)
    assert token.tolist() == [2]
    assert cache.tolist() == [7, 0, 0, 0]
    assert offsets.tolist() == [10, 20, 30]


def test_a_fitting_array_is_not_copied() -> None:
    buffers = bind(LAYER.program, LAYER.tensors)
    assert np.shares_memory(buffers[0], LAYER.tensors["x"])


def test_an_array_with_strides_is_made_contiguous() -> None:
    tensors = LAYER.tensors | {"x": np.asfortranarray(LAYER.tensors["x"])}
    assert bind(LAYER.program, tensors)[0].tolist() == LAYER.tensors["x"].reshape(-1).tolist()


def test_lists_and_numbers_are_converted() -> None:
    buffers = bind(SESSION.program, {"token": 2, "cache": [7, 0, 0, 0]}, {"pos": 0})
    assert [b.dtype for b in buffers] == [np.int32] * 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"x": np.zeros((3, 2), np.float32)},
            r"'x': expected float32 of shape \(2, 3\), given float32 of shape \(3, 2\)",
        ),
        ({"x": np.zeros((2, 3))}, "expected float32 .*, given float64"),
        ({"x": np.zeros((2, 3), ">f4")}, "given >f4"),
        ({"x": [["a", "b", "c"]]}, "'x': expected float32"),
        ({"y": np.zeros(1)}, "unknown y"),
    ],
)
def test_what_does_not_fit_is_named_with_what_was_expected(changes: dict[str, ArrayLike], message: str) -> None:
    with pytest.raises(BindingError, match=message):
        bind(LAYER.program, LAYER.tensors | changes)


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype is not DType.INDEX])
@pytest.mark.parametrize("shape", [(2,), (1, 2), (3,)])
@pytest.mark.parametrize(
    "actual", ["bool", "int8", "uint16", "int64", "float16", "float32", ">f4", "float64", "complex64", "<U3"]
)
def test_a_header_fits_where_an_array_of_it_does_and_is_refused_in_the_same_words(
    dtype: DType, shape: tuple[int, ...], actual: str
) -> None:
    program, array = of_type(dtype), np.zeros(shape, actual)
    words: list[str] = []
    for check in (lambda: bind(program, {"x": array}), lambda: fit(program, {"x": Header(str(array.dtype), shape)})):
        try:
            check()
            words.append("fits")
        except BindingError as error:
            words.append(f"{error.what}|{error.fix}")
    assert words[0] == words[1]
    assert takes_bools(program) is (dtype is DType.BOOL)


def test_a_float64_is_refused_with_the_line_that_casts_it() -> None:
    with pytest.raises(BindingError) as refusal:
        bind(LAYER.program, LAYER.tensors | {"x": np.zeros((2, 3))})
    assert refusal.value.fix == 'Cast it: x.astype("float32"), and save it anew if it is a file.'


def test_all_missing_names_are_told_with_all_that_there_are() -> None:
    with pytest.raises(BindingError, match="missing b, w") as refusal:
        bind(LAYER.program, {"x": LAYER.tensors["x"]})
    assert refusal.value.fix == "Give what the program has: b, w, x."


def test_bfloat16_comes_as_patterns_and_never_as_a_list() -> None:
    program = of_type(DType.BFLOAT16)
    assert bind(program, {"x": np.array([0x3F80, 0x7FC0], np.uint16)})[0].tolist() == [0x3F80, 0x7FC0]
    with pytest.raises(BindingError, match="uint16 patterns"):
        bind(program, {"x": np.array([1, 2], np.float32)})
    with pytest.raises(BindingError, match="given a list") as refusal:
        bind(program, {"x": [1.0, 2.0]})
    assert "uint16" in refusal.value.fix


def test_a_bool_has_no_bits_but_one() -> None:
    with pytest.raises(BindingError, match="bits other than 0 and 1"):
        bind(of_type(DType.BOOL), {"x": np.array([1, 2], np.uint8).view(np.bool_)})


@pytest.mark.parametrize(
    ("variables", "repeat", "message"),
    [
        ({"pos": 4}, 1, r"'pos' is 4, expected 0…3"),
        ({"pos": -1}, 1, r"'pos' is -1"),
        ({"pos": 2}, 3, r"'pos' is 2…4 in 3 iterations"),
        ({}, 1, "missing pos"),
        ({"pos": 0, "n": 1}, 1, "unknown n"),
        ({"pos": 0}, 0, "repeat 0, the program allows 1…4"),
        ({"pos": 0}, 5, "repeat 5"),
    ],
)
def test_variables_stay_within_their_bounds_in_every_iteration(
    variables: dict[str, int], repeat: int, message: str
) -> None:
    headers = {name: Header(str(array.dtype), array.shape) for name, array in SESSION.tensors.items()}
    with pytest.raises(BindingError, match=message):
        bind(SESSION.program, SESSION.tensors, variables, repeat)
    with pytest.raises(BindingError, match=message):
        fit(SESSION.program, headers, variables, repeat)


def test_variables_move_by_their_stride() -> None:
    assert [iteration_values(SESSION.program, {"pos": 1}, t) for t in range(3)] == [(1,), (2,), (3,)]


def test_results_are_collected_by_kind_and_shaped() -> None:
    buffers = [np.zeros(n, np.int32) for n in (1, 4, 3)] + [np.arange(4, dtype=np.int32), np.full(1, 9, np.int32)]
    results = collect(SESSION.program, buffers)
    assert results.outputs["output"].shape == () and results.outputs["output"] == 9
    assert results.states["cache"].tolist() == [0, 1, 2, 3]
