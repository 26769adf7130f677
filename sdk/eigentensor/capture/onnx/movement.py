"""Operators that move elements: shapes, parts, indices."""

import math
from collections.abc import Sequence
from typing import Any

from tinygrad import Tensor, dtypes

from eigentensor.capture.onnx.arithmetic import number, place, places
from eigentensor.capture.onnx.file import Node
from eigentensor.capture.onnx.registry import element_name, of_tinygrad, operator, refuse

LISTED = 16  #: of more elements, taken at known places, each is no part of the graph of its own

of_tinygrad(
    "Identity", "Reshape", "Expand", "Transpose", "Slice", "CenterCropPad", "DepthToSpace", "GatherND",
    "AffineGrid",
)  # fmt: skip
of_tinygrad("Tile", since=6)


@operator("Constant")
def constant(
    value: Tensor | None = None, value_float: float | None = None, value_int: int | None = None,
    value_floats: Sequence[float] | None = None, value_ints: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """ONNX Constant, whichever attribute holds its value."""
    if value is not None:
        return value
    if value_float is not None:
        return Tensor(value_float, dtype=dtypes.float32)
    if value_int is not None:
        return Tensor(value_int, dtype=dtypes.int64)
    if value_floats is not None:
        return Tensor(list(value_floats), dtype=dtypes.float32)
    return Tensor(list(value_ints or ()), dtype=dtypes.int64)


@operator("ConstantOfShape", numbers=(0,))
def constant_of_shape(shape: Sequence[int], value: Tensor | None = None) -> Tensor:
    """ONNX ConstantOfShape: one value everywhere, float32 zeros by default."""
    value = Tensor(0.0, dtype=dtypes.float32) if value is None else value
    return value.reshape(()).expand(tuple(shape))


@operator("Cast", "CastLike", since=6)
def cast(x: Tensor, target: Tensor | None = None, to: Any = None, saturate: int = 1, *, node: Node) -> Tensor:
    """ONNX Cast, CastLike: as the format casts; `saturate` concerns types that it lacks."""
    if target is None and to is None:
        raise refuse(node, "it says no type", "check it with onnx.checker")
    return x.cast(to if target is None else target.dtype)


@operator("BitCast")
def bit_cast(x: Tensor, *, to: Any, node: Node) -> Tensor:
    """ONNX BitCast between types of one width."""
    if dtypes.bool in (x.dtype, to) or x.dtype.itemsize != to.itemsize:
        raise refuse(node, f"from {element_name(x.dtype)} to {element_name(to)}")
    return x.bitcast(to)


@operator("EyeLike")
def eye_like(x: Tensor, dtype: Any = None, k: int = 0) -> Tensor:
    """ONNX EyeLike: ones on the k-th diagonal."""
    rows, columns = x.shape
    k = max(-rows, min(k, columns))
    return (Tensor.arange(rows).reshape(rows, 1) + k == Tensor.arange(columns)).cast(dtype or x.dtype)


@operator("Shape")
def shape(x: Tensor, start: int = 0, end: int | None = None) -> Tensor:
    """ONNX Shape: a constant, since every shape is known."""
    return Tensor(list(x.shape[start:end]), dtype=dtypes.int64)


@operator("Size")
def size(x: Tensor) -> Tensor:
    """ONNX Size: a constant, since every shape is known."""
    return Tensor(x.numel(), dtype=dtypes.int64)


@operator("Flatten")
def flatten(x: Tensor, axis: int = 1, *, node: Node) -> Tensor:
    """ONNX Flatten: two axes, the product of those before `axis` and of the rest."""
    first = axis if axis == x.ndim else place(axis, max(x.ndim, 1), node)
    return x.reshape(math.prod(x.shape[:first]), math.prod(x.shape[first:]))


@operator("Squeeze", numbers=(1,))
def squeeze(x: Tensor, axes: Sequence[int] | None = None, *, node: Node) -> Tensor:
    """ONNX Squeeze: without these axes of extent 1; by default without all such."""
    gone = [i for i, n in enumerate(x.shape) if n == 1] if axes is None else places(_list(axes), x.ndim, node)
    if any(x.shape[i] != 1 for i in gone):
        raise refuse(node, f"axes {gone} of the shape {x.shape}", "check it with onnx.checker")
    return x.reshape(tuple(n for i, n in enumerate(x.shape) if i not in gone))


@operator("Unsqueeze", numbers=(1,))
def unsqueeze(x: Tensor, axes: Sequence[int], *, node: Node) -> Tensor:
    """ONNX Unsqueeze: new axes of extent 1, numbered as in the result."""
    new = places(_list(axes), x.ndim + len(_list(axes)), node)
    old = iter(x.shape)
    return x.reshape(tuple(1 if i in new else next(old) for i in range(x.ndim + len(new))))


def _list(axes: Any) -> list[int]:
    return [axes] if isinstance(axes, int) else list(axes)


@operator("Concat", since=4)
def concat(*parts: Tensor, axis: int, node: Node) -> Tensor:
    """ONNX Concat: parts one after the other along an axis."""
    return Tensor.cat(*parts, dim=place(axis, parts[0].ndim, node))


@operator("Split", numbers=(1,), since=2)
def split(
    x: Tensor, split: Sequence[int] | None = None, num_outputs: int | None = None, axis: int = 0, *, node: Node
) -> tuple[Tensor, ...]:
    """In parts of equal size, the last one being smaller."""
    axis = place(axis, x.ndim, node)
    extent, count = x.shape[axis], len(node.outputs)
    part = -(-extent // count)
    sizes = [part] * (count - 1) + [extent - part * (count - 1)] if split is None else list(split)
    if min(sizes) < 0 or sum(sizes) != extent or len(sizes) != count or num_outputs not in (None, count):
        raise refuse(node, f"{extent} elements into {count} parts", "check it with onnx.checker")
    return tuple(x.split(sizes, axis))


@operator("Pad", numbers=(1, 2, 3), since=2)
def pad(
    x: Tensor, pads: Sequence[int], constant_value: Any = None, axes: Sequence[int] | None = None,
    mode: str = "constant", value: float = 0.0, *, node: Node,
) -> Tensor:  # fmt: skip
    """ONNX Pad: a constant, the edge, a reflection or the other end around; only constant pads may be negative."""
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    over = [place(axis, x.ndim, node) for axis in (range(x.ndim) if axes is None else axes)]
    if mode not in modes or len(pads) != 2 * len(over) or (mode != "constant" and min(pads, default=0) < 0):
        raise refuse(node, f"the mode {mode!r} with {list(pads)}")
    amounts = [(0, 0)] * x.ndim
    for i, axis in enumerate(over):
        amounts[axis] = (pads[i], pads[len(over) + i])
    fill = value if constant_value is None else number(constant_value)
    if mode == "constant":
        return x.pad(tuple(amounts), value=fill)
    return x.pad(tuple(amounts), mode=modes[mode])


@operator("Trilu", numbers=(1,))
def trilu(x: Tensor, k: Any = 0, upper: int = 1) -> Tensor:
    """ONNX Trilu: zeros below (or above) the k-th diagonal."""
    diagonal = max(-x.shape[-2], min(number(k), x.shape[-1]))
    return x.triu(diagonal) if upper else x.tril(diagonal)


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """ONNX SpaceToDepth: squares of `blocksize` become channels."""
    order = "(h1 w1 c)" if mode == "DCR" else "(c h1 w1)"
    return x.rearrange(f"b c (h h1) (w w1) -> b {order} h w", h1=blocksize, w1=blocksize)


@operator("OneHot", numbers=(1,))
def one_hot(indices: Tensor, depth: Any, values: Tensor, axis: int = -1, *, node: Node) -> Tensor:
    """Indices beyond the depth give no hot one."""
    count, axis = int(number(depth)), place(axis, indices.ndim + 1, node)
    classes = indices.cast(dtypes.int64)
    classes = (classes < 0).where(classes + count, classes).unsqueeze(axis)
    places = Tensor.arange(count, dtype=dtypes.int64).reshape(*(count if i == axis else 1 for i in range(classes.ndim)))
    return (classes == places).where(values[1], values[0])


@operator("TopK", numbers=(1,), since=10)
def top_k(x: Tensor, k: Any, axis: int = -1, largest: int = 1, sorted: int = 1, *, node: Node) -> tuple[Tensor, Tensor]:  # noqa: A002
    """ONNX TopK: the k largest (or smallest) along an axis, always sorted, and their indices in int64."""
    values, indices = x.topk(number(k), place(axis, x.ndim, node), bool(largest))
    return values, indices.cast(dtypes.int64)


@operator("Compress", numbers=(1,))
def compress(x: Tensor, condition: Sequence[bool], axis: int | None = None, *, node: Node) -> Tensor:
    """ONNX Compress by a condition that the model fixes; without an axis over all elements."""
    x, over = (x.flatten(), 0) if axis is None else (x, place(axis, x.ndim, node))
    return _taken(x, [i for i, holds in enumerate(condition) if holds], over, node)


@operator("Gather")
def gather(x: Tensor, indices: Any, axis: int = 0, *, node: Node) -> Tensor:
    """ONNX Gather: indices of the model are slices, those of data read a table; negative ones count from the end."""
    over = place(axis, x.ndim, node)
    if isinstance(indices, Tensor):
        return x[(slice(None),) * over + (indices,)]
    taken = _taken(x, [indices] if isinstance(indices, int) else indices, over, node)
    return taken.squeeze(over) if isinstance(indices, int) else taken


def _taken(x: Tensor, indices: Sequence[int], axis: int, node: Node) -> Tensor:
    """The elements at known places of an axis."""
    extent = x.shape[axis]
    if any(not -extent <= i < extent for i in indices):
        raise refuse(node, f"indices {list(indices)[:8]} of {extent} elements", "check it with onnx.checker")
    if len(indices) > LISTED:
        return x[(slice(None),) * axis + (Tensor([i % extent for i in indices]),)]
    kept = [(0, n) for n in x.shape]
    ends = [(i % extent, i % extent + 1) for i in indices] or [(0, 0)]
    return Tensor.cat(*(x.shrink((*kept[:axis], end, *kept[axis + 1 :])) for end in ends), dim=axis)


@operator("ai.onnx.ml.ArrayFeatureExtractor")
def extract_features(x: Tensor, indices: Tensor) -> Tensor:
    """ONNX ML ArrayFeatureExtractor: columns by index."""
    return x[..., indices.flatten()]


@operator("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, axis: int = 0, *, node: Node) -> Tensor:
    """ONNX GatherElements: an element for each index, along one axis."""
    over = place(axis, x.ndim, node)
    return x.gather(over, _from_zero(indices, x.shape[over]))


@operator("Scatter", "ScatterElements")
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none", *, node: Node
) -> Tensor:
    """ONNX ScatterElements: updates put, added, multiplied or compared at indices along one axis."""
    over = place(axis, x.ndim, node)
    return _scattered(x, over, _from_zero(indices, x.shape[over]), updates, reduction, node)


@operator("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none", *, node: Node) -> Tensor:
    """As a scatter of slices: the first dimensions, those that an index names, are one."""
    depth = indices.shape[-1]
    slices, inner = math.prod(x.shape[:depth]), math.prod(x.shape[depth:])
    flat = Tensor.zeros(*indices.shape[:-1], dtype=dtypes.int64)
    for i, extent in enumerate(x.shape[:depth]):
        flat = flat * extent + _from_zero(indices[..., i], extent)
    rows = flat.reshape(-1, 1).expand(flat.numel(), inner)
    result = _scattered(x.reshape(slices, inner), 0, rows, updates.reshape(flat.numel(), inner), reduction, node)
    return result.reshape(x.shape)


@operator("TensorScatter")
def tensor_scatter(
    x: Tensor, updates: Tensor, first: Tensor | None = None, axis: int = -2, mode: str = "linear", *, node: Node
) -> Tensor:
    """Updates of a cache: along an axis, beginning at another place for each of the batch."""
    over = place(axis, x.ndim, node)
    if mode not in ("linear", "circular") or over == 0:
        raise refuse(node, f"the mode {mode!r} along axis {over}")
    along = [updates.shape[over] if i == over else 1 for i in range(x.ndim)]
    rows = Tensor.arange(updates.shape[over], dtype=dtypes.int64).reshape(along)
    if first is not None:
        rows = rows + first.cast(dtypes.int64).reshape(-1, *[1] * (x.ndim - 1))
    rows = rows % x.shape[over] if mode == "circular" else rows
    return _scattered(x, over, rows.expand(updates.shape), updates, "none", node)


def _scattered(x: Tensor, axis: int, indices: Tensor, updates: Tensor, reduction: str, node: Node) -> Tensor:
    kinds = {"none": None, "add": "sum", "mul": "prod", "min": "amin", "max": "amax"}
    if reduction not in kinds:
        raise refuse(node, f"the reduction {reduction!r}")
    if reduction == "none":
        return x.scatter(axis, indices, updates)
    return x.scatter_reduce(axis, indices, updates, kinds[reduction]).cast(x.dtype)


def _from_zero(indices: Tensor, extent: int) -> Tensor:
    return (indices < 0).where(indices + extent, indices)
