"""Kernels of shapes that no tile divides: products, a convolution and its gradient, a transposition, deviations."""

from collections.abc import Callable
from functools import partial

import numpy as np

from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import (
    Array,
    Axis,
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
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op

F32, INDEX = DType.FLOAT32, DType.INDEX
M, N, K = 53, 70, 19


def index(*terms: tuple[Node, int]) -> Node:
    total = const(INDEX, 0)
    for term, stride in terms:
        total = binary(Op.ADD, total, binary(Op.MUL, term, const(INDEX, stride)))
    return total


def program(value: Node, axes: tuple[Axis, ...], **inputs: tuple[DType, int]) -> Program:
    buffers = {name: Buffer(Role.INPUT, dtype, (size,), name) for name, (dtype, size) in inputs.items()}
    shape = tuple(axis.extent for axis in axes)
    return assemble([("result", to_body(value, axes))], buffers, {(Kind.OUTPUT, "output"): ("result", shape)})


def product(dtype: DType, left_turned: bool, right_turned: bool, sizes: tuple[int, int, int] = (M, N, K)) -> Program:
    """Of rows, columns and terms."""
    m, n, inner = sizes
    axes = (Axis(0, m), Axis(1, n), Axis(2, inner, True))
    i, j, k = map(counter, axes)
    a = load(Array("a", dtype, m * inner), index((k, m), (i, 1)) if left_turned else index((i, inner), (k, 1)))
    b = load(Array("b", dtype, inner * n), index((j, inner), (k, 1)) if right_turned else index((k, n), (j, 1)))
    if dtype is F32:
        total = reduction(Op.REDUCE_MULACC, axes[2:], a, b)
    else:
        total = reduction(Op.REDUCE_ADD, axes[2:], binary(Op.MUL, a, b))
    return program(total, axes[:2], a=(dtype, m * inner), b=(dtype, inner * n))


def dots(m: int, n: int, inner: int) -> Program:
    """Rows of bytes times rows of bytes, summed as int32."""
    axes = (Axis(0, m), Axis(1, n), Axis(2, inner, True))
    i, j, k = map(counter, axes)
    a, b = (
        node(Op.CAST, DType.INT32, load(Array(name, DType.INT8, size * inner), index((row, inner), (k, 1))))
        for name, size, row in (("a", m, i), ("b", n, j))
    )
    total = reduction(Op.REDUCE_ADD, axes[2:], binary(Op.MUL, a, b))
    return program(total, axes[:2], a=(DType.INT8, m * inner), b=(DType.INT8, n * inner))


def widened(m: int, n: int, inner: int) -> Program:
    """Rows of float16 times rows of float16: products and sums are float32."""
    axes = (Axis(0, m), Axis(1, n), Axis(2, inner, True))
    i, j, k = map(counter, axes)
    a, b = (
        node(Op.CAST, F32, load(Array(name, DType.FLOAT16, size * inner), index((row, inner), (k, 1))))
        for name, size, row in (("a", m, i), ("b", n, j))
    )
    total = reduction(Op.REDUCE_MULACC, axes[2:], a, b)
    return program(total, axes[:2], a=(DType.FLOAT16, m * inner), b=(DType.FLOAT16, n * inner))


def convolution() -> Program:
    """3 × 3 with a border of zeros: 5 images of 2 × 9 × 21 to 13 channels."""
    images, channels, inner, height, width = 5, 13, 2, 9, 21
    out = Axis(0, images), Axis(1, channels), Axis(2, height), Axis(3, width)
    summed = Axis(4, inner, True), Axis(5, 3, True), Axis(6, 3, True)
    n, o, y, x, c, dy, dx = (counter(a) for a in (*out, *summed))
    row, column = (binary(Op.SUB, binary(Op.ADD, p, d), const(INDEX, 1)) for p, d in ((y, dy), (x, dx)))
    inside = conjunction(
        *(
            test
            for p, extent in ((row, height), (column, width))
            for test in (binary(Op.CMPLT, const(INDEX, -1), p), binary(Op.CMPLT, p, const(INDEX, extent)))
        )
    )
    size = images * inner * height * width
    place = index((n, inner * height * width), (c, height * width), (row, width), (column, 1))
    image = load(Array("image", F32, size), place, inside)
    weight = load(Array("weight", F32, channels * inner * 9), index((o, inner * 9), (c, 9), (dy, 3), (dx, 1)))
    total = reduction(Op.REDUCE_MULACC, summed, image, weight)
    return program(total, out, image=(F32, size), weight=(F32, channels * inner * 9))


def turned() -> Program:
    axes = (Axis(0, M), Axis(1, N))
    i, j = map(counter, axes)
    x = load(Array("x", F32, M * N), index((j, M), (i, 1)))
    y = load(Array("y", DType.BOOL, N), j)
    return program(node(Op.WHERE, F32, y, binary(Op.MUL, x, x), x), axes, x=(F32, M * N), y=(DType.BOOL, N))


def gradient() -> Program:
    """Of a convolution's weights: sums over images, rows and columns, of which only the last two lie side by side."""
    outs = Axis(0, 18), Axis(1, 8), Axis(2, 3), Axis(3, 3)
    summed = Axis(4, 5, True), Axis(5, 4, True), Axis(6, 4, True)
    o, c, dy, dx, n, y, x = (counter(axis) for axis in (*outs, *summed))
    row, column = binary(Op.ADD, dy, y), binary(Op.ADD, dx, x)
    image = load(Array("image", F32, 5 * 8 * 36), index((n, 8 * 36), (c, 36), (row, 6), (column, 1)))
    error = load(Array("error", F32, 5 * 18 * 16), index((n, 18 * 16), (o, 16), (y, 4), (x, 1)))
    total = reduction(Op.REDUCE_MULACC, summed, image, error)
    return program(total, outs, image=(F32, 5 * 8 * 36), error=(F32, 5 * 18 * 16))


def means_and_deviations() -> Program:
    """Two reductions one after the other: the second needs the first."""
    axes = (Axis(0, M), Axis(1, K, True), Axis(2, K, True))
    i, j, k = map(counter, axes)
    x = Array("x", F32, M * K)
    total = reduction(Op.REDUCE_ADD, axes[1:2], load(x, index((i, K), (j, 1))))
    away = binary(Op.SUB, load(x, index((i, K), (k, 1))), total)
    return program(reduction(Op.REDUCE_ADD, axes[2:], binary(Op.MUL, away, away)), axes[:1], x=(F32, M * K))


CASES: dict[str, Callable[[], Program]] = {
    **{
        f"product_{dtype.name.lower()}_{'t' if left else 'n'}{'t' if right else 'n'}": (
            partial(product, dtype, left, right)
        )
        for dtype, left, right in (
            (F32, False, False), (F32, False, True), (F32, True, False), (DType.FLOAT16, False, True),
            (DType.INT8, False, False), (DType.UINT64, True, True),
        )
    },
    **{
        f"thin_{dtype.name.lower()}_{m}_{n}_{inner}_{'t' if right else 'n'}": (
            partial(product, dtype, False, right, (m, n, inner))
        )
        for dtype, m, n, inner, right in (
            (F32, 1, 96, 256, False), (F32, 1, 75, 192, True), (F32, 5, 33, 48, True),
            (DType.FLOAT16, 3, 64, 192, True), (DType.FLOAT16, 1, 48, 128, False),
            (DType.INT8, 8, 64, 192, True), (DType.UINT64, 2, 40, 96, False),
        )
    },
    **{f"dots_{'_'.join(map(str, s))}": partial(dots, *s) for s in ((1, 64, 128), (6, 37, 192), (64, 64, 64))},
    **{f"widened_{'_'.join(map(str, s))}": partial(widened, *s) for s in ((1, 64, 128), (6, 37, 192))},
    "convolution": convolution, "gradient": gradient, "turned": turned, "means_and_deviations": means_and_deviations,
}  # fmt: skip

#: What begins so takes long: only slow tests try all of it.
LONG = ("thin", "dots", "widened")


def tensors(of: Program) -> dict[str, np.ndarray]:
    random, arrays = np.random.default_rng(3), {}
    for b in of.buffers:
        if b.dtype.is_float:
            values = random.standard_normal(b.shape).astype(np.float16 if b.dtype is DType.FLOAT16 else np.float32)
        else:
            values = random.integers(0, 2 if b.dtype is DType.BOOL else 100, b.shape).astype(b.dtype.name.lower())
        arrays[b.name] = values
    return arrays
