"""Appends run over their box alone, in the memory of the tensor before, and give the bits of the whole."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.assemble import assemble
from eigentensor.program.codec import decode, encode
from eigentensor.program.expression import (
    Array,
    Axis,
    Named,
    Node,
    binary,
    conjunction,
    const,
    counter,
    load,
    node,
    reduction,
    to_body,
)
from eigentensor.program.model import Bounds, Buffer, Kind, Program, Role, Variable
from eigentensor.program.ops import Op
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.memory.append import append
from eigentensor.runtime.memory.plan import parts, plan
from support.campaigns.device_cases import on_devices, usable
from support.generated.trials import trial
from support.oracles.agreement import Observable
from support.oracles.backends import SECOND, backend

F32, I32, INDEX = DType.FLOAT32, DType.INT32, DType.INDEX
POS = node(Op.VAR, INDEX, arg=Named("pos", Bounds(0, 7)))
Condition = Callable[[list[Node]], Node]


def index(value: int) -> Node:
    return const(INDEX, value)


def add(a: Node, b: Node | int) -> Node:
    return binary(Op.ADD, a, index(b) if isinstance(b, int) else b)


def sub(a: Node, b: Node) -> Node:
    return binary(Op.SUB, a, b)


def less(a: Node, b: Node | int) -> Node:
    return binary(Op.CMPLT, a, const(a.dtype, b) if isinstance(b, int) else b)


def equal(a: Node, b: Node) -> Node:
    return binary(Op.CMPEQ, a, b)


def inside(i: Node, start: Node, size: int) -> Node:
    """As capture writes it: −1 < i − start < size."""
    position = sub(i, start)
    return conjunction(less(index(-1), position), less(position, size))


def negated(condition: Node) -> Node:
    return binary(Op.CMPNE, condition, const(DType.BOOL, 1))


def cast(value: Node) -> Node:
    return node(Op.CAST, I32, value)


LOADED = load(Array("at", I32, 1), index(0))
SMALL = node(Op.CAST, INDEX, binary(Op.AND, LOADED, const(I32, 7)))


def long_way(value: Node) -> Node:
    """The same value, after so many operations that do nothing."""
    for _ in range(500):
        value = binary(Op.MIN, binary(Op.MAX, value, index(0)), index(7))
    return value


#: Shape, condition over the counters, extents of the box; None where the whole tensor is written.
CASES: dict[str, tuple[tuple[int, ...], Condition, tuple[int, ...] | None]] = {
    "a row": ((8, 48), lambda i: equal(i[0], POS), (1, 48)),
    "a row, as capture writes it": ((8, 48), lambda i: inside(i[0], POS, 1), (1, 48)),
    "rows of each head": ((3, 8, 20), lambda i: equal(POS, i[1]), (3, 1, 20)),
    "a column": ((6, 8), lambda i: equal(i[1], POS), (6, 1)),
    "an element of each, turned": ((2, 8, 5, 3), lambda i: conjunction(equal(i[1], POS), less(i[3], 1)), (2, 1, 5, 1)),
    "an interval": ((8, 33), lambda i: inside(i[0], POS, 3), (3, 33)),
    "an interval that begins before": ((8, 33), lambda i: inside(i[0], sub(POS, index(2)), 4), (4, 33)),
    "a point beyond the end": ((8, 33), lambda i: equal(i[0], add(POS, 5)), (1, 33)),
    "a point before the beginning": ((8, 33), lambda i: equal(i[0], sub(POS, index(4))), (1, 33)),
    "as far as the other end": ((8, 33), lambda i: equal(i[0], sub(index(7), POS)), (1, 33)),
    "first rows": ((8, 33), lambda i: less(i[0], 3), (3, 33)),
    "last rows": ((8, 33), lambda i: less(index(5), i[0]), (2, 33)),
    "a box": ((8, 9, 16), lambda i: conjunction(inside(i[0], POS, 2), inside(i[1], POS, 3)), (2, 3, 16)),
    "more than a box": (
        (8, 40),
        lambda i: conjunction(equal(i[0], POS), less(load(Array("at", I32, 1), index(0)), cast(i[1]))),
        (1, 40),
    ),
    "compared as integers": ((8, 33), lambda i: equal(cast(i[0]), cast(POS)), (1, 33)),
    "where data says": ((8, 33), lambda i: equal(i[0], SMALL), (1, 33)),
    "far from where it is counted": (
        (8, 33),
        lambda i: equal(i[0], sub(binary(Op.MUL, binary(Op.MUL, POS, index(1 << 30)), index(1 << 28)), index(1))),
        None,
    ),
    "behind a long way": ((8, 33), lambda i: equal(i[0], long_way(POS)), (1, 33)),
    "one axis": ((100,), lambda i: inside(i[0], POS, 17), (17,)),
    "most of it": ((8, 33), lambda i: inside(i[0], POS, 5), None),
    "up to a position": ((8, 33), lambda i: less(i[0], POS), None),
    "one of two": ((8, 33), lambda i: binary(Op.OR, equal(i[0], POS), equal(i[0], index(0))), None),
    "twice the counter": ((8, 33), lambda i: equal(binary(Op.MUL, i[0], index(2)), POS), None),
    "a diagonal": ((8, 8), lambda i: equal(i[0], i[1]), None),
    "far away as integers": (
        (8, 33),
        lambda i: less(load(Array("at", I32, 1), index(0)), cast(i[0])),
        None,
    ),
}


def body_of(
    shape: tuple[int, ...], condition: Condition, *, dtype: DType = F32, old: str = "s", swap: bool = False
) -> Any:
    axes = tuple(Axis(n, extent) for n, extent in enumerate(shape))
    counters, size = [counter(axis) for axis in axes], int(np.prod(shape))
    at = index(0)
    for n, i in enumerate(counters):
        at = add(at, binary(Op.MUL, i, index(int(np.prod(shape[n + 1 :])))))
    here, before = condition(counters), load(Array(old, dtype, size), at)
    new = load(Array("x", dtype, size), at, here)
    value = (before, new) if swap else (new, before)
    return to_body(node(Op.WHERE, dtype, negated(here) if swap else here, *value), axes)


def program(name: str, *, dtype: DType = F32, swap: bool = False, twice: bool = False) -> Program:
    """The state is appended to, once or twice, and then read whole."""
    shape, condition, _ = CASES[name]
    calls = [("new", body_of(shape, condition, dtype=dtype, swap=swap))]
    if twice:
        calls.append(("newer", body_of(shape, lambda i: equal(i[0], index(2)), dtype=dtype, old="new")))
    last, size = calls[-1][0], int(np.prod(shape))
    whole, k = Axis(0, size), counter(Axis(0, size))
    read = load(Array(last, dtype, size), sub(index(size - 1), k))
    calls.append(("output", to_body(binary(Op.MAX, read, read), (whole,))))
    buffers = {
        "s": Buffer(Role.STATE, dtype, shape, "s"),
        "x": Buffer(Role.INPUT, dtype, shape, "x"),
        "at": Buffer(Role.INPUT, I32, (), "at"),
    }
    used = {array.key for _, lowered in calls for array in lowered.arrays} & buffers.keys()
    results = {(Kind.OUTPUT, "output"): ("output", shape), (Kind.STATE, "s"): (last, shape)}
    variables = [Variable("pos", 0, 7, 1)] if any(c.variables for _, c in calls) else []
    made = assemble(calls, {n: b for n, b in buffers.items() if n in used}, results, variables, max_repeat=8)
    return decode(encode(made))  # which checks it


def tensors(of: Program, seed: int = 1) -> dict[str, np.ndarray]:
    """Any bits: also NaNs that a store would change."""
    random = np.random.default_rng(seed)
    arrays = {}
    for buffer in of.buffers:
        storage = STORAGE[buffer.dtype]
        raw = random.integers(0, 256, buffer.elements * buffer.dtype.size, np.uint8)
        arrays[buffer.name] = (raw & 1 if buffer.dtype is DType.BOOL else raw).view(storage).reshape(buffer.shape)
        if buffer.dtype is F32:
            arrays[buffer.name].reshape(-1)[::5] = np.array([0x7FA12345], np.uint32).view(np.float32)
    return arrays


def bits(results: Any) -> list[dict[str, bytes]]:
    return [{name: a.tobytes() for name, a in arrays.items()} for arrays in (results.outputs, results.states)]


def appending(calls: list[tuple[int, bytes]]) -> Callable[[int, np.ndarray], None]:
    return lambda number, array: calls.append((number, array.tobytes()))


def agree(of: Program, run: Observable, starts: range = range(8)) -> None:
    """Each value of the variable, alone and followed by all later ones: results, and those of all calls."""
    arrays = tensors(of)
    copies = {name: array.copy() for name, array in arrays.items()}
    for pos in starts if of.variables else [0]:
        for repeat in {1, 2, 8 - pos}:
            values = {v.name: pos for v in of.variables}
            if pos + repeat > 8:
                continue
            right: list[tuple[int, bytes]] = []
            seen: list[tuple[int, bytes]] = []
            expected = reference.execute(of, arrays, values, repeat, observe=appending(right))
            observed = run(arrays, values, repeat, observe=appending(seen))
            assert seen == right
            assert bits(run(arrays, values, repeat)) == bits(observed) == bits(expected)
    assert all(arrays[name].tobytes() == copies[name].tobytes() for name in arrays)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("name", CASES)
def test_a_condition_bounds_a_box(name: str) -> None:
    shape, condition, extents = CASES[name]
    appended = append(body_of(shape, condition).body)
    swapped = append(body_of(shape, condition, swap=True).body)
    assert (appended and appended.part.output_ranges) == (swapped and swapped.part.output_ranges) == extents


FEW = ("rows of each head", "a column", "an interval that begins before", "a point beyond the end", "more than a box")


def some(cases: Iterable[Any], few: Collection[Any]) -> list[Any]:
    return [pytest.param(case, marks=[] if case in few else [pytest.mark.slow]) for case in cases]


@pytest.mark.parametrize("swap", some([False, True], [False]))
@pytest.mark.parametrize("name", some(CASES, FEW))
def test_an_append_gives_the_bits_of_the_whole(name: str, swap: bool, kernels: Cache) -> None:
    of = program(name, swap=swap)
    assert bool(plan(of, over=True).later) is (CASES[name][2] is not None)
    agree(of, CompiledGraph(of, cache=kernels).run, range(8) if name in FEW[1:] else range(0, 8, 3))


@pytest.mark.parametrize("dtype", some([d for d in DType if d is not INDEX], [DType.BFLOAT16]))
def test_so_it_does_in_every_type(dtype: DType, kernels: Cache) -> None:
    of = program("rows of each head", dtype=dtype)
    agree(of, CompiledGraph(of, cache=kernels).run, range(0, 8, 3))


def test_an_append_to_an_append_lies_in_the_same_memory(kernels: Cache) -> None:
    of = program("an interval", twice=True)
    layout = plan(of, over=True)
    assert (list(layout.later), list(layout.appends), layout.size) == ([0], [1], 0)
    agree(of, CompiledGraph(of, cache=kernels).run)


LLVM = pytest.param("CPU:LLVM", "rows of each head", marks=pytest.mark.slow)


@pytest.mark.parametrize(("device", "name"), [LLVM, *on_devices(CASES)])
def test_so_it_does_on_every_device(device: str, name: str, kernels: Cache) -> None:
    of = program(name, twice=len(CASES[name][0]) > 1)
    agree(of, CompiledGraph(of, device=usable(device), cache=kernels).run, range(0, 8, 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_second_way_agrees(name: str) -> None:
    of = program(name, twice=len(CASES[name][0]) > 1)
    agree(of, backend(SECOND).way([of])(of), range(0, 8, 3))


def with_old(value: Callable[[Node], Node]) -> Program:
    """new = s where the counter is 3, and there a value that also depends on s; the output reads s after that."""
    axis = Axis(0, 40)
    i = counter(axis)
    s = load(Array("s", F32, 40), i)
    new = to_body(node(Op.WHERE, F32, equal(i, index(3)), value(i), s), (axis,))
    return assemble(
        [("new", new), ("output", to_body(binary(Op.ADD, s, load(Array("new", F32, 40), i)), (axis,)))],
        {"s": Buffer(Role.STATE, F32, (40,), "s")},
        {(Kind.OUTPUT, "output"): ("output", (40,)), (Kind.STATE, "s"): ("new", (40,))},
        max_repeat=8,
    )


def test_a_state_that_is_read_later_is_not_written_over(kernels: Cache) -> None:
    of = with_old(lambda i: const(F32, 0x3F800000))
    assert append(of.bodies[of.calls[0].body]) and not plan(of, over=True).later and plan(of, over=True).swapped
    agree(of, CompiledGraph(of, cache=kernels).run)


def test_a_value_that_needs_other_elements_of_the_old_tensor_is_no_append(kernels: Cache) -> None:
    k = Axis(1, 40, True)
    of = with_old(lambda i: reduction(Op.REDUCE_MAX, (k,), load(Array("s", F32, 40), counter(k))))
    assert append(of.bodies[of.calls[0].body]) is None
    agree(of, CompiledGraph(of, cache=kernels).run)


def test_an_append_whose_value_is_a_sum(kernels: Cache) -> None:
    """new[h, pos] = x · w[h]: the loop of the sum is inside of the box."""
    h, p, d, k = Axis(0, 3), Axis(1, 8), Axis(2, 24), Axis(3, 40, True)
    at = add(binary(Op.MUL, add(binary(Op.MUL, counter(h), index(8)), counter(p)), index(24)), counter(d))
    row = add(binary(Op.MUL, add(binary(Op.MUL, counter(h), index(24)), counter(d)), index(40)), counter(k))
    total = reduction(Op.REDUCE_MULACC, (k,), load(Array("x", F32, 40), counter(k)), load(Array("w", F32, 2880), row))
    new = node(Op.WHERE, F32, equal(counter(p), POS), total, load(Array("s", F32, 576), at))
    of = assemble(
        [("new", to_body(new, (h, p, d)))],
        {
            "s": Buffer(Role.STATE, F32, (3, 8, 24), "s"),
            "x": Buffer(Role.INPUT, F32, (40,), "x"),
            "w": Buffer(Role.WEIGHT, F32, (3, 24, 40), "w"),
        },
        {(Kind.STATE, "s"): ("new", (3, 8, 24))},
        [Variable("pos", 0, 7, 1)],
        max_repeat=8,
    )
    assert list(plan(of).later) == [0]
    agree(of, CompiledGraph(of, cache=kernels).run)


def test_two_states_that_change_places(kernels: Cache) -> None:
    """a becomes b, b becomes a + x: no value may be written over before the other has read it."""
    axis = Axis(0, 50)
    a, b, x = (load(Array(name, F32, 50), counter(axis)) for name in "abx")
    one = const(F32, 0x3F800000)
    of = assemble(
        [
            ("first", to_body(binary(Op.MUL, b, one), (axis,))),
            ("second", to_body(binary(Op.ADD, a, x), (axis,))),
        ],
        {name: Buffer(Role.INPUT if name == "x" else Role.STATE, F32, (50,), name) for name in "abx"},
        {(Kind.STATE, "a"): ("first", (50,)), (Kind.STATE, "b"): ("second", (50,))},
        max_repeat=8,
    )
    assert plan(of, over=True).swapped
    agree(of, CompiledGraph(of, cache=kernels).run)


def test_every_part_is_known_before_anything_is_compiled_on_any_device() -> None:
    """Of this generated program a device that overwrites nothing appends where a processor does not."""
    program = trial(1_000_061).program
    plans = {over: plan(program, over=over) for over in (True, False)}
    of = {over: {*p.appends.values(), *p.later.values()} for over, p in plans.items()}
    assert of[False] - of[True]
    assert {*parts(program)} == of[False] | of[True]
