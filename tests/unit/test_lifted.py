"""Programs become graphs again, with the same bits; their functions are found, and plans are made of them."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from tinygrad import Tensor

from eigentensor import reference
from eigentensor.capture import capture
from eigentensor.errors import CaptureError, LimitError
from eigentensor.graph.lower import lower
from eigentensor.graph.node import Form, Graph, Node, leaf, node
from eigentensor.lowering import functions
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.lifted import lifted
from eigentensor.planner.plan import Plan
from eigentensor.planner.recognised import recognised
from eigentensor.planner.sample import sample_of
from eigentensor.planner.settled import settled
from eigentensor.planner.spots import at_spots, evaluations, parts, spots
from eigentensor.planner.views import Shape
from eigentensor.planner.whole import planned
from eigentensor.program.cost import costs
from eigentensor.program.model import Program
from eigentensor.program.ops import Op
from eigentensor.program.text import summary
from eigentensor.regions.boxes import slices
from support.generated.programs import generate
from support.programs import long_program
from support.vectors.dispute import captured

F32 = DType.FLOAT32


def x(name: str, *shape: int) -> Node:
    return leaf(Form.INPUT, name, F32, shape)


def test_a_lifted_program_has_the_bits_of_the_program() -> None:
    count = 0
    for seed in range(25):
        example = generate(seed)
        greatest = {variable.name: variable.maximum for variable in example.program.variables}
        count += bool(greatest)
        made = lower(lifted(settled(example.program)), fingerprint=False).program
        read = {buffer.name for buffer in made.buffers}
        given = {name: tensor for name, tensor in example.tensors.items() if name in read}
        expected, got = reference.execute(example.program, example.tensors, greatest), reference.execute(made, given)
        for of, wanted in ((got.outputs, expected.outputs), (got.states, expected.states)):
            assert {name: array.tobytes() for name, array in of.items()} == {
                name: array.tobytes() for name, array in wanted.items()
            }, seed
    assert count > 10


@pytest.mark.parametrize("name", functions.__all__)
def test_functions_are_found_in_what_they_are_lowered_to(name: str) -> None:
    of = [node(Op.MUL, x("x", 4, 8), x("w", 4, 8)), x("y", 4, 8)][: 2 if name == "power" else 1]
    graph = Graph({"out": node(Op.ADD, node(Form.FUNCTION, *of, arg=name), x("w", 4, 8))})
    assert recognised(lifted(lower(graph, fingerprint=False).program)).outputs["out"] is graph.outputs["out"]


CONVOLUTIONS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Shape, Shape]] = {
    "padding": (lambda x, w: x.conv2d(w, padding=1), (2, 3, 6, 5), (4, 3, 3, 3)),
    "on one side": (lambda x, w: x.pad((2, 0, 0, 1)).conv2d(w), (2, 3, 6, 6), (4, 3, 3, 3)),
    "stride": (lambda x, w: x.conv2d(w, padding=1, stride=2), (2, 3, 7, 7), (4, 3, 3, 3)),
    "dilation": (lambda x, w: x.conv2d(w, padding=2, dilation=2), (2, 3, 7, 7), (4, 3, 3, 3)),
    "one axis": (lambda x, w: x.conv2d(w, padding=2), (2, 3, 7), (4, 3, 5)),
    "groups": (lambda x, w: x.conv2d(w, padding=1, groups=2, stride=2), (2, 4, 7, 7), (6, 2, 3, 3)),
    "a group a channel": (lambda x, w: x.conv2d(w, padding=1, groups=4), (2, 4, 5, 5), (8, 1, 3, 3)),
    "pool": (lambda x, w: x.max_pool2d(3, stride=2, padding=1) * w, (2, 3, 8, 8), (3, 4, 4)),
}


def convolution(
    function: Callable[[Tensor, Tensor], Tensor], *shapes: Shape
) -> tuple[Program, dict[str, NDArray[np.float32]]]:
    """The program of a function, and operands."""
    random = np.random.default_rng(4)
    given = {n: random.standard_normal(shape, dtype=np.float32) for n, shape in zip("xw", shapes, strict=True)}
    return capture(lambda x, w: function(x, w), given, {}, fingerprint=False).program, given


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_with_padding_are_found(name: str) -> None:
    function, *shapes = CONVOLUTIONS[name]
    program, given = convolution(function, *shapes)
    made = lower(lifted(program), fingerprint=False).program
    expected, got = (reference.execute(p, given).outputs["output"] for p in (program, made))
    assert expected.tobytes() == got.tobytes()
    assert planned(program, 60).gain >= 1


def test_what_looks_at_bits_is_no_mathematics() -> None:
    graph = Graph({"out": node(Op.BITCAST, x("x", 4), arg=DType.INT32)})
    with pytest.raises(CaptureError, match="the bits of floats"):
        recognised(lifted(lower(graph).program))


def test_the_plan_of_a_program_begins_with_the_program() -> None:
    program = captured("softmax").program
    plan = planned(program, 60)
    assert [summary(plan.original.made.program.bodies[call.body]) for call in plan.original.made.program.calls] == [
        summary(program.bodies[call.body]) for call in program.calls
    ]
    shown = [(part, candidate) for part in plan.parts for candidate in part.shown()]
    assert any(candidate.rules == "as it is" for _, candidate in shown) and len(shown) > len(plan.parts)
    verdicts = [part.verdict(candidate) for part, candidate in shown]
    assert verdicts.count("chosen") == len(plan.parts)
    assert all(candidate.error is not None or candidate.verdict for _, candidate in shown)
    assert plan.chosen.error <= max(1e-5, 2 * plan.original.error) and plan.gain >= 1


def test_the_cheaper_order_of_three_products_is_found_in_the_program() -> None:
    def product(a: Node, b: Node) -> Node:
        (n, k), (_, m) = a.shape, b.shape
        left = node(Form.EXPAND, node(Form.RESHAPE, a, arg=(n, 1, k)), arg=(n, m, k))
        right = node(Form.RESHAPE, node(Form.PERMUTE, b, arg=(1, 0)), arg=(1, m, k))
        return node(Op.REDUCE_ADD, node(Op.MUL, left, node(Form.EXPAND, right, arg=(n, m, k))), arg=(2,))

    graph = Graph({"out": product(product(x("a", 32, 32), x("b", 32, 32)), x("c", 32, 1))})
    plan = planned(lower(graph, fingerprint=False).program, 60)
    assert plan.gain > 2, ways(plan)


def ways(plan: Plan) -> list[str]:
    return [f"{c.rules}: {c.cost.seconds:.2e} s, {part.verdict(c)}" for part in plan.parts for c in part.shown()]


def spread(name: str, *shape: int) -> Node:
    return node(Form.EXPAND, x(name, *shape), arg=(4096, 4096))


LARGE = {
    "at most 64": long_program.example(40, 8).program,
    "at most 33,554,432": lower(Graph({"out": node(Form.SHRINK, x("x", 1 << 24), arg=((7, 8),))})).program,
    "some elements": lower(Graph({"out": node(Op.REDUCE_MAX, x("x", 1 << 20), arg=(0,))})).program,
    "too many": lower(
        Graph({"out": node(Op.REDUCE_MAX, node(Op.MUL, spread("x", 4096, 1), spread("w", 1, 4096)), arg=(1,))})
    ).program,
}


@pytest.mark.parametrize("why", LARGE)
def test_large_programs_are_not_planned(why: str) -> None:
    with pytest.raises(LimitError, match=why):
        planned(LARGE[why], 60)


def test_the_errors_of_a_large_program_are_those_of_some_of_its_elements() -> None:
    def product(a: Node, b: Node) -> Node:
        shape = (a.shape[0], b.shape[1], b.shape[0])
        left = node(Form.EXPAND, node(Form.RESHAPE, a, arg=(shape[0], 1, shape[2])), arg=shape)
        right = node(Form.RESHAPE, node(Form.PERMUTE, b, arg=(1, 0)), arg=(1, shape[1], shape[2]))
        return node(Op.REDUCE_ADD, node(Op.MUL, left, node(Form.EXPAND, right, arg=shape)), arg=(2,))

    hidden = node(Op.MAX, product(x("x", 300, 64), x("a", 64, 96)), node(Form.EXPAND, x("b", 1, 96), arg=(300, 96)))
    graph = Graph({"out": product(hidden, x("c", 96, 40)), "hidden": node(Form.RESHAPE, hidden, arg=(3, 100, 96))})
    program, sample = lower(graph, fingerprint=False).program, sample_of(graph)
    boxes = spots(program, 1_000_000)
    needs = parts(program, boxes)
    assert 100_000 < evaluations(program, needs) < 1_000_000 < costs(program).evaluations / 10
    whole = reference.execute(program, sample.tensors).outputs
    for result, of, found in zip(program.results, boxes, at_spots(program, sample.tensors, boxes), strict=True):
        assert len(of) > 1 and [whole[result.name][slices(box)].tolist() for box in of] == [v.tolist() for v in found]
    plan = planned(program, 60)
    assert 0 < plan.original.error < 1e-5 and sum(len(part.shown()) for part in plan.parts) > len(plan.parts)


def test_a_plan_ends_in_time() -> None:
    with pytest.raises(LimitError, match="longer than"):
        planned(captured("long sum").program, 0)


def test_tensors_without_elements_are_lifted() -> None:
    graph = Graph({"out": node(Form.PAD, x("x", 0), arg=((2, 1),))})
    made = lower(lifted(lower(graph).program)).program
    assert (
        reference.execute(made, {"x": np.empty(0, np.float32)} if made.buffers else {}).outputs["out"].tolist()
        == [0] * 3
    )
