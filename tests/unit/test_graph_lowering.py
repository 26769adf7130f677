"""Graphs become programs as they are written."""

import subprocess
import sys

import numpy as np
import pytest

from eigentensor.errors import CaptureError
from eigentensor.graph.lower import lower
from eigentensor.graph.node import Form, Graph, Node, constant, counter, leaf, node, variable
from eigentensor.lowering.constants import float_pattern
from eigentensor.program.model import Variable
from eigentensor.program.ops import DType, Op
from eigentensor.reference import execute
from support.programs.captured import graphs

F32 = DType.FLOAT32


def graph_input(name: str, *shape: int, dtype: DType = F32) -> Node:
    return leaf(Form.INPUT, name, dtype, shape)


def along(n: Node, axis: int, extent: int) -> Node:
    """The tensor repeated along a new axis."""
    shape = (*n.shape[:axis], 1, *n.shape[axis:])
    return node(Form.EXPAND, node(Form.RESHAPE, n, arg=shape), arg=(*shape[:axis], extent, *shape[axis + 1 :]))


def product(a: Node, b: Node) -> Node:
    terms = node(Op.MUL, along(a, 1, b.shape[1]), along(node(Form.PERMUTE, b, arg=(1, 0)), 0, a.shape[0]))
    return node(Op.REDUCE_ADD, terms, arg=(2,))


def same_bits(a: object, b: object) -> bool:
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_product_of_matrices_is_the_program_that_capture_makes() -> None:
    graph = Graph({"output": product(graph_input("a", 9, 20), graph_input("b", 20, 7))})
    assert lower(graph).to_bytes() == graphs()["matmul"].captured().to_bytes()


def test_a_softmax_has_the_bits_and_the_calls_of_the_captured_one() -> None:
    x = graph_input("x", 5, 33)
    power = node(Form.FUNCTION, node(Op.SUB, x, along(node(Op.REDUCE_MAX, x, arg=(1,)), 1, 33)), arg="exp")
    total = node(Op.REDUCE_ADD, power, arg=(1,))
    graph = lower(Graph({"output": node(Op.DIV, power, along(total, 1, 33))}))
    captured, inputs = graphs()["softmax"].captured(), graphs()["softmax"].inputs
    assert len(graph.program.calls) == len(captured.program.calls)
    results = [execute(program, inputs).outputs["output"] for program in (graph.program, captured.program)]
    assert same_bits(*results)


def test_what_follows_a_product_at_its_own_shape_is_in_its_kernel() -> None:
    a, b, bias = graph_input("a", 4, 6), graph_input("b", 6, 5), graph_input("bias", 5)
    linear = node(Op.ADD, product(a, b), along(bias, 0, 4))
    relu = node(Op.MAX, linear, constant(F32, 0, (4, 5)))
    assert len(lower(Graph({"output": relu})).program.calls) == 1
    assert len(lower(Graph({"output": product(relu, graph_input("c", 5, 3))})).program.calls) == 2


def test_a_product_is_accumulated_with_one_rounding_also_where_it_is_an_output_itself() -> None:
    x = graph_input("x", 3, 7)
    square = node(Op.MUL, x, x)
    total = node(Op.REDUCE_ADD, square, arg=(1,))
    alone, both = lower(Graph({"total": total})), lower(Graph({"square": square, "total": total}))
    values = {"x": np.random.default_rng(1).standard_normal((3, 7)).astype(np.float32)}
    results = [execute(graph.program, values).outputs["total"] for graph in (alone, both)]
    assert same_bits(*results)
    stored = lower(Graph({"total": node(Op.REDUCE_ADD, node(Form.CONTIGUOUS, square), arg=(1,))}))
    assert len(stored.program.calls) == 2


def test_a_product_that_is_rounded_is_no_term_of_a_sum_and_is_not_stored() -> None:
    x = graph_input("x", 40, 200)
    square = node(Op.MUL, x, x)
    parts = {"joined": square, "rounded": node(Form.ROUNDED, square), "stored": node(Form.CONTIGUOUS, square)}
    values = {"x": np.random.default_rng(1).standard_normal((40, 200)).astype(np.float32)}
    totals, calls = {}, {}
    for name, term in parts.items():
        turned = node(Form.PERMUTE, term, arg=(1, 0))
        program = lower(Graph({"total": node(Op.REDUCE_ADD, turned, arg=(0,))}), fingerprint=False).program
        totals[name], calls[name] = execute(program, values).outputs["total"], len(program.calls)
    assert same_bits(totals["rounded"], totals["stored"]) and not same_bits(totals["rounded"], totals["joined"])
    assert calls["rounded"] == calls["joined"] == calls["stored"] - 1


def test_moves_are_arithmetic_of_indices() -> None:
    x = graph_input("x", 4, 6)
    moved = node(Form.PAD, node(Form.FLIP, node(Form.PERMUTE, x, arg=(1, 0)), arg=(0,)), arg=((1, 2), (0, 1)))
    moved = node(Form.RESHAPE, node(Form.SHRINK, moved, arg=((0, 8), (1, 5))), arg=(2, 16))
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected = np.pad(values.T[::-1], ((1, 2), (0, 1)))[:8, 1:5].reshape(2, 16)
    program = lower(Graph({"moved": moved})).program
    assert len(program.calls) == 1
    assert same_bits(execute(program, {"x": values}).outputs["moved"], expected)


def test_rows_that_a_table_has_not_are_zeros() -> None:
    table, rows = graph_input("table", 5, 2), graph_input("rows", 4, dtype=DType.INT32)
    program = lower(Graph({"found": node(Form.GATHER, table, rows)})).program
    values = np.arange(1, 11, dtype=np.float32).reshape(5, 2)
    gathered = execute(program, {"table": values, "rows": np.array([4, -1, 5, 0], np.int32)}).outputs["found"]
    assert gathered.tolist() == [[9, 10], [0, 0], [0, 0], [1, 2]]


def test_indices_that_are_computed_from_counters_need_no_guard() -> None:
    windows = node(Op.ADD, counter((4, 3), 0), counter((4, 3), 1))
    program = lower(Graph({"windows": node(Form.GATHER, graph_input("x", 6), windows)})).program
    assert not any(i.op is Op.CMPLT for body in program.bodies for i in body.instructions)
    assert execute(program, {"x": np.arange(6, dtype=np.float32)}).outputs["windows"].tolist()[3] == [3, 4, 5]


def test_a_state_takes_a_variable_number_of_rows() -> None:
    state, new = leaf(Form.STATE, "rows", F32, (4, 2)), graph_input("new", 2)
    position = node(Form.EXPAND, node(Form.RESHAPE, variable(Variable("position", 0, 3, 1)), arg=(1, 1)), arg=(4, 2))
    here = node(Op.CMPEQ, counter((4, 2), 0), position)
    rows = node(Op.WHERE, here, along(new, 0, 4), state)
    total = node(Op.REDUCE_ADD, rows, arg=(0, 1))
    graph = lower(Graph({"total": total}, {"rows": rows}, {"rows": np.zeros((4, 2), np.float32)}))
    tensors = {"new": np.ones(2, np.float32), **graph.states}
    results = execute(graph.program, tensors, {"position": 0}, repeat=1)
    assert results.states["rows"].tolist() == [[1, 1], [0, 0], [0, 0], [0, 0]]
    assert results.outputs["total"] == 2


def test_a_sum_of_so_many_elements_is_a_loop_of_that_length_and_never_longer_than_its_axis() -> None:
    x = leaf(Form.INPUT, "x", F32, (2, 300))
    of = node(Op.ADD, variable(Variable("n", 0, 299, 0)), constant(DType.INT32, 1))
    graph = Graph({"y": node(Op.REDUCE_ADD, x, of, arg=(1,))})
    program = lower(graph, fingerprint=False).program
    assert len(program.calls) == 1  # no spans: each step adds one element
    values = np.random.default_rng(0).standard_normal((2, 300)).astype(np.float32)
    for n in (0, 7, 299):
        total = np.add.accumulate(values[:, : n + 1], axis=1, dtype=np.float32)[:, -1]
        assert execute(program, {"x": values}, {"n": n}).outputs["y"].tobytes() == total.tobytes()
    longer = node(Op.ADD, of, constant(DType.INT32, 1))
    with pytest.raises(CaptureError, match="takes 2 to 301 elements of an axis of 300"):
        lower(Graph({"y": node(Op.REDUCE_ADD, x, longer, arg=(1,))}))


def test_a_long_chain_is_cut_into_kernels() -> None:
    x = graph_input("x", 3)
    for _ in range(100):
        x = node(Form.FUNCTION, x, arg="tanh")
    calls = len(lower(Graph({"x": x}), fingerprint=False).program.calls)
    assert 8 <= calls <= 15


def test_tensors_without_elements_go_through() -> None:
    empty = graph_input("empty", 0, 3)
    graph = lower(Graph({"sum": node(Op.REDUCE_ADD, empty, arg=(0,)), "none": node(Form.FUNCTION, empty, arg="exp")}))
    results = execute(graph.program, {"empty": np.zeros((0, 3), np.float32)}).outputs
    assert results["sum"].tolist() == [0, 0, 0]
    assert results["none"].shape == (0, 3)


def test_data_of_another_shape_are_refused() -> None:
    weight = leaf(Form.WEIGHT, "w", F32, (3,))
    graph = Graph(
        {"w": node(Op.ADD, weight, constant(F32, float_pattern(F32, 1.0), (3,)))}, data={"w": np.zeros(4, np.float32)}
    )
    with pytest.raises(CaptureError, match="'w'"):
        lower(graph)


def test_a_graph_becomes_a_program_without_tinygrad() -> None:
    code = (
        "import sys\nfrom eigentensor.graph.lower import lower\nfrom eigentensor.graph.node import *\n"
        "x = leaf(Form.INPUT, 'x', DType.FLOAT32, (3,))\n"
        "assert lower(Graph({'y': node(Form.FUNCTION, x, arg='exp')})).uuid\n"
        "assert 'tinygrad' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
