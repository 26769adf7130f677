"""Programs whose values lie where stock arithmetic is undefined, or differs from device to device; all are valid."""

from collections.abc import Callable, Iterator, Mapping
from random import Random

import numpy as np

from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, binary, conjunction, const, counter, load, node, reduction
from eigentensor.program.expression import to_body as lowered
from eigentensor.program.model import Buffer, Kind, Role
from eigentensor.program.ops import Op
from support.generated.edges import edges, held
from support.generated.programs import Example

F32, I32, U32, I64, INDEX = DType.FLOAT32, DType.INT32, DType.UINT32, DType.INT64, DType.INDEX
PAIRS = 72  #: elements of each output
LANES = Axis(0, PAIRS)
Values = Mapping[str, np.ndarray[tuple[int], np.dtype[np.generic]]]


def hostile() -> Iterator[tuple[str, Example]]:
    """Each with its name."""
    for name, make in PROGRAMS.items():
        yield name, make()


def _pairs(dtype: DType, chosen: list[int] | None = None) -> Values:
    random, values = Random(dtype), chosen or edges(dtype)
    return {key: held(dtype, [random.choice(values) for _ in range(PAIRS)]) for key in "xy"}


def _example(dtypes: Mapping[str, DType], tensors: Values, outputs: Mapping[str, Node]) -> Example:
    inputs = {name: Buffer(Role.INPUT, dtypes[name], tensor.shape, name) for name, tensor in tensors.items()}
    calls = [(name, lowered(value, (LANES,))) for name, value in outputs.items()]
    program = assemble(calls, inputs, {(Kind.OUTPUT, name): (name, (PAIRS,)) for name in outputs})
    return Example(program, dict(tensors), {}, 1)


def _elementwise(dtype: DType, tensors: Values, outputs: Callable[[Node, Node], dict[str, Node]]) -> Example:
    x, y = (load(Array(key, dtype, PAIRS), counter(LANES)) for key in "xy")
    return _example({"x": dtype, "y": dtype}, tensors, outputs(x, y))


def _bits(value: Node) -> Node:
    return node(Op.BITCAST, U32, value)


def _total(op: Op, value: Callable[[Node], Node], *others: Callable[[Node], Node]) -> Node:
    """A reduction over all lanes, the same for each element."""
    lane = Axis(1, PAIRS, is_reduce=True)
    return reduction(op, (lane,), *(term(counter(lane)) for term in (value, *others)))


def nan_payloads() -> Example:
    """Quiet and signalling NaNs of both signs, through arithmetic, order and bit casts."""
    nans = [sign | 0x7F800000 | payload for sign in (0, 1 << 31) for payload in (1, 0x400000, 0x3FFFFF, 0x7FFFFF)]

    def outputs(x: Node, y: Node) -> dict[str, Node]:
        return {
            "added": _bits(binary(Op.ADD, x, y)), "fused": _bits(node(Op.MULACC, F32, x, y, x)),
            "largest": _bits(binary(Op.MAX, x, y)), "least": _bits(binary(Op.MIN, x, y)), "stored": x,
            "bits": _bits(x), "root": _bits(node(Op.SQRT, F32, y)), "differs": binary(Op.CMPNE, x, x),
            "most": _total(Op.REDUCE_MAX, lambda i: load(Array("x", F32, PAIRS), i)),
        }  # fmt: skip

    return _elementwise(F32, _pairs(F32, [*nans, 0, 1 << 31, 0x3F800000, 0x7F800000]), outputs)


def small_numbers() -> Example:
    """Signed zeros and subnormals, as operands, as results, and summed up."""
    small = [sign | size for sign in (0, 1 << 31) for size in (0, 1, 2, 0x7FFFFF, 0x800000, 0x1F800000, 0x3F000000)]

    def outputs(x: Node, y: Node) -> dict[str, Node]:
        every = [lambda i, key=key: load(Array(key, F32, PAIRS), i) for key in "xy"]
        return {
            "product": binary(Op.MUL, x, y), "quotient": binary(Op.DIV, x, y), "inverse": node(Op.RECIPROCAL, F32, x),
            "largest": binary(Op.MAX, x, y), "least": binary(Op.MIN, x, y), "less": binary(Op.CMPLT, x, y),
            "half": node(Op.CAST, DType.FLOAT16, x), "sum": _total(Op.REDUCE_ADD, every[0]),
            "dot": _total(Op.REDUCE_MULACC, *every), "least of all": _total(Op.REDUCE_MIN, every[0]),
        }  # fmt: skip

    return _elementwise(F32, _pairs(F32, small), outputs)


def wide_shifts(dtype: DType) -> Example:
    def outputs(x: Node, y: Node) -> dict[str, Node]:
        beyond = const(dtype, 8 * dtype.size)
        return {
            "left": binary(Op.SHL, x, y), "right": binary(Op.SHR, x, y),
            "left out": binary(Op.SHL, x, beyond), "right out": binary(Op.SHR, x, beyond),
        }  # fmt: skip

    return _elementwise(dtype, _pairs(dtype), outputs)


def zero_divisors(dtype: DType) -> Example:
    """Also the least number by -1."""
    least = 1 << 8 * dtype.size - 1
    numbers = [0, 1, 7, least, least + 1, 2 * least - 1, least - 1]

    def outputs(x: Node, y: Node) -> dict[str, Node]:
        return {op.name.lower(): binary(op, x, y) for op in (Op.CDIV, Op.CMOD, Op.FLOORDIV, Op.FLOORMOD)}

    return _elementwise(dtype, _pairs(dtype, numbers), outputs)


def overflowing_casts() -> Example:
    """Infinities, NaNs and numbers beyond every integer type."""
    integers = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, I32, U32, I64, DType.UINT64)
    sizes = (0x4F000000, 0x5F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00001, 0x437F8000, 0x3F7FFFFF, 0x4EFFFFFF)
    casts = (*integers, DType.FLOAT16, DType.BFLOAT16)

    def outputs(x: Node, y: Node) -> dict[str, Node]:
        return {f"as {dtype.name.lower()}": node(Op.CAST, dtype, binary(Op.MAX, x, y)) for dtype in casts}

    return _elementwise(F32, _pairs(F32, [sign | size for sign in (0, 1 << 31) for size in sizes]), outputs)


def far_gathers() -> Example:
    """Indices from the client, of all int32; the guard lets through what lies inside."""
    random = Random(1)
    places = [*edges(I32), PAIRS - 1, PAIRS, *range(5, PAIRS, 5)]
    indices = held(I32, [random.choice(places) for _ in range(PAIRS)])
    table = np.arange(1, PAIRS + 1, dtype=np.float32)
    place = node(Op.CAST, INDEX, load(Array("at", I32, PAIRS), counter(LANES)))
    inside = conjunction(
        binary(Op.CMPLT, const(INDEX, -1), place),
        binary(Op.CMPLT, place, const(INDEX, PAIRS)),
    )
    gathered = load(Array("table", F32, PAIRS), place, inside)
    tensors = {"at": indices, "table": table}
    return _example(
        {"at": I32, "table": F32}, tensors, {"gathered": gathered, "twice": binary(Op.ADD, gathered, gathered)}
    )


PROGRAMS: dict[str, Callable[[], Example]] = {
    "NaN payloads": nan_payloads,
    "signed zeros and subnormals": small_numbers,
    "shifts by more than the width": lambda: wide_shifts(U32),
    "arithmetic shifts by more than the width": lambda: wide_shifts(I64),
    "division by zero": lambda: zero_divisors(I32),
    "division by zero of wide integers": lambda: zero_divisors(I64),
    "casts of what does not fit": overflowing_casts,
    "indices far outside": far_gathers,
}
