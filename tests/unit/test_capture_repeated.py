"""What layers do that are alike is made once, and gives the program that it would give made again and again."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor, UOp, dtypes

from eigentensor.capture import GraphProgram, capture, capture_graph, repeated
from eigentensor.lowering import patterns
from eigentensor.lowering.kernel import Kernel, add, fresh_array, fresh_axis, index, scaled
from eigentensor.program.expression import Axis, Node, binary, counter, load, reduction
from eigentensor.program.ops import DType, Op
from eigentensor_models import decoder, writing
from eigentensor_models.folder import Network, read_network
from support.vectors.models import FOLDER

WIDTH, PLACES, LAYERS = 8, 6, 6
Layer = Callable[[], Tensor]


class Stack:
    """Layers that keep what they were given, of two kinds in turn; the first of each makes what all of it read."""

    def __init__(self, *, is_plain: bool = False) -> None:
        self.weights = [Tensor.empty(WIDTH, WIDTH) for _ in range(LAYERS)]
        self.kept = [Tensor.empty(PLACES, WIDTH) for _ in range(LAYERS)]
        self.given = [Tensor.empty(1, WIDTH) for _ in range(LAYERS)]  # which nothing reads
        self.is_plain, self.made = is_plain, Counter[int]()

    def __call__(self, x: Tensor, at: UOp) -> Tensor:
        self.made.clear()
        turns: dict[int, Tensor] = {}
        for number, own in enumerate(zip(self.weights, self.kept, self.given, strict=True)):
            kind = number % 2

            def made(x: Tensor = x, own: tuple[Tensor, Tensor, Tensor] = own, kind: int = kind) -> Tensor:
                weight, kept, given = own
                self.made[kind] += 1
                given.assign(x)
                if kind not in turns:
                    turns[kind] = (Tensor.arange(WIDTH) + at + x * 0 + kind).sin().contiguous()
                kept[at : at + 1].assign((x * turns[kind]).contiguous())
                return x + (kept.sum(0, keepdim=True) @ weight).relu() * (1 + kind)

            x = made().contiguous().realize() if self.is_plain else repeated(kind, [x, *own], made)
        return x

    def program(self) -> GraphProgram:
        variables = {"at": (0, PLACES - 1)}
        return capture(self, {"x": np.zeros((1, WIDTH), np.float32)}, self, variables=variables, max_repeat=PLACES)


def test_the_program_is_that_of_layers_that_are_made_one_by_one() -> None:
    stack = Stack()
    program = stack.program()
    assert program.uuid == Stack(is_plain=True).program().uuid
    assert len(program.states) == 2 * LAYERS
    assert stack.made == {0: 2, 1: 2}  # the first of a kind stores what it shares with the others


def test_other_shapes_and_kinds_are_made_for_themselves() -> None:
    weights = [Tensor.empty(WIDTH, WIDTH) for _ in range(3)]
    half = Tensor.empty(WIDTH, WIDTH, dtype=dtypes.float16)
    wide = [Tensor.empty(WIDTH, 2 * WIDTH), Tensor.empty(2 * WIDTH, WIDTH)]
    layers = ((1, weights[0]), (2, weights[1]), (1, weights[2]), (1, half), (1, wide[0]), (1, wide[1]))
    made = list[int]()

    def function(x: Tensor, *, is_plain: bool = False) -> Tensor:
        x = x.contiguous().realize()
        for factor, weight in layers:

            def product(x: Tensor = x, factor: int = factor, weight: Tensor = weight) -> Tensor:
                made.append(factor)
                return (x @ weight.cast(dtypes.float32)) * factor

            x = product().contiguous().realize() if is_plain else repeated(factor, [x, weight], product)
        return x

    x, model = np.zeros((3, WIDTH), np.float32), [*weights, half, *wide]
    program = capture(function, [x], model)
    assert made == [1, 2, 1, 1, 1]
    assert program.uuid == capture(lambda x: function(x, is_plain=True), [x], model).uuid


def test_tensors_that_are_one_are_not_taken_for_two() -> None:
    first, second, both = (Tensor.empty(WIDTH) for _ in range(3))

    def function(x: Tensor, *, is_plain: bool = False) -> Tensor:
        x = x.contiguous().realize()
        for read, written in ((first, second), (both, both)):

            def made(x: Tensor = x, read: Tensor = read, written: Tensor = written) -> Tensor:
                written.assign(x + 1)
                return read + x

            x = made().contiguous().realize() if is_plain else repeated(0, [x, read, written], made)
        return x

    x, model = np.zeros(WIDTH, np.float32), [first, second, both]
    plain = capture(lambda x: function(x, is_plain=True), [x], model)
    assert capture(function, [x], model).uuid == plain.uuid


def tripled(x: Tensor) -> Tensor:
    return x * 3 + 1


def test_what_leaves_the_function_has_its_value_afterwards() -> None:
    ones = [Tensor(np.full(4, n, np.float32)) for n in range(4)]
    left = list[Tensor]()

    def function(x: Tensor) -> Tensor:
        left[:] = [repeated(0, [one], partial(tripled, one)) for one in ones]
        return x + sum(left[1:], left[0])

    capture(function, [np.zeros(4, np.float32)], ones)
    values = [[3.0 * n + 1] * 4 for n in range(4)]
    assert [tensor.tolist() for tensor in left] == values
    function(Tensor.zeros(4))  # without a program it is computed
    assert [tensor.tolist() for tensor in left] == values


def test_a_graph_has_all_of_it() -> None:
    weights = [Tensor.empty(WIDTH, WIDTH) for _ in range(4)]

    def function(x: Tensor) -> Tensor:
        for weight in weights:
            x = repeated(0, [x, weight], partial(x.dot, weight))
        return x

    graph = capture_graph(function, [np.zeros((1, WIDTH), np.float32)], weights)
    assert len(graph.data) == 4


def test_a_models_layers_are_made_twice_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six layers of Gemma's, four of which have a window."""
    whole = read_network(FOLDER / "gemma3")
    architecture = replace(whole.architecture, layers=whole.architecture.layers * 2)
    count = len(whole.architecture.layers)
    kept = {}
    for name in architecture.shapes():
        parts = name.split(".")
        same = [f"{int(part) % count}" if part.isdigit() else part for part in parts]
        kept[name] = whole.weights[".".join(same)]
    made, original = list[int](), decoder.Decoder._layer

    def counted(*of: Any) -> Tensor:
        made.append(1)
        return original(*of)

    monkeypatch.setattr(decoder.Decoder, "_layer", counted)
    monkeypatch.setattr(writing, "get", lambda _: None)
    program = writing.scoring(Network(architecture, kept), 32).program
    assert len(made) == 4  # of each kind the first one makes its rotation
    monkeypatch.setattr(decoder, "repeated", lambda _kind, _tensors, layer: layer().contiguous().realize())
    assert writing.scoring(Network(architecture, kept), 32).program == program
    assert len(made) == 4 + 6


def kernel(width: int = 4, offset: int = 0) -> Kernel:
    """Sums of rows of products of two arrays."""
    rows, columns = fresh_axis(3), fresh_axis(width, is_reduce=True)
    a, b = fresh_array(DType.FLOAT32, 3 * width), fresh_array(DType.FLOAT32, 3 * width + offset)

    def at(row: Axis, column: Axis) -> Node:
        return add(add(scaled(counter(row), width), counter(column)), index(offset))

    term = binary(Op.MUL, load(a, at(rows, columns)), load(b, at(rows, columns)))
    return Kernel(fresh_array(DType.FLOAT32, 3), (rows,), reduction(Op.REDUCE_ADD, (columns,), term), "here")


def test_kernels_that_differ_in_names_alone_have_one_pattern() -> None:
    one, two = kernel(), kernel()
    assert patterns.pattern(one).kernel == patterns.pattern(two).kernel
    assert patterns.pattern(one).arrays != patterns.pattern(two).arrays
    assert patterns.pattern(one).kernel not in (
        patterns.pattern(kernel(5)).kernel,
        patterns.pattern(kernel(4, 1)).kernel,
    )
    ((call, lowered),) = patterns.admitted(one)
    before = patterns._parts.cache_info()
    ((other, again),) = patterns.admitted(two)
    assert patterns._parts.cache_info().hits == before.hits + 1
    assert (call, other) == (one.result.key, two.result.key)
    assert lowered.body is again.body
    assert [array.key for array in lowered.arrays + again.arrays] == [
        array.key for k in (one, two) for array in patterns.pattern(k).arrays
    ]
