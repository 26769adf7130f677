"""Operators that read between elements: Resize and GridSample."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinygrad import Tensor, dtypes

from eigentensor.capture.onnx.arithmetic import place
from eigentensor.capture.onnx.file import Node
from eigentensor.capture.onnx.registry import operator, refuse

Floats = NDArray[np.float64]
REACH = 32  #: elements on each side that a new one is made of
MOST = 1 << 16  #: extents of what is resized


@operator("Upsample", numbers=(1,), since=7)
def upsample(x: Tensor, scales: Sequence[float], mode: str = "nearest", *, node: Node) -> Tensor:
    """ONNX Upsample, which Resize took the place of: the same with scales."""
    return resize(x, None, scales, mode=mode, node=node)


@operator("Resize", numbers=(1, 2, 3), since=10)
def resize(
    x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None, antialias: int = 0, axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
    extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor", *, node: Node,
) -> Tensor:  # fmt: skip
    """One axis after the other: where each new element lies among the old is known while the program is made."""
    transform = coordinate_transformation_mode
    if node.opset < 11 and node.operator == "Resize":
        roi, scales = None, roi
    if node.opset < 11 or node.operator == "Upsample":
        transform, nearest_mode = "asymmetric", "floor"
    over = [place(axis, x.ndim, node) for axis in (range(x.ndim) if axes is None else axes)]
    wanted = sizes or scales
    if bool(sizes) == bool(scales) or len(wanted) != len(over) or min(wanted) <= 0:
        raise refuse(node, "it needs sizes or scales, one for each axis", "check it with onnx.checker")
    extents = [x.shape[axis] for axis in over]
    if sizes:
        scales = [size / extent for size, extent in zip(sizes, extents, strict=True)]
        if keep_aspect_ratio_policy in ("not_larger", "not_smaller"):
            scale = min(scales) if keep_aspect_ratio_policy == "not_larger" else max(scales)
            scales, sizes = [scale] * len(over), [int(scale * extent + 0.5) for extent in extents]
        elif keep_aspect_ratio_policy != "stretch":
            raise refuse(node, f"keep_aspect_ratio_policy = {keep_aspect_ratio_policy!r}")
    else:
        sizes = [math.floor(extent * scale) for extent, scale in zip(extents, scales, strict=True)]
    if max(*sizes, *extents) > MOST or min(extents) < 1 or math.prod(sizes) > 1 << 32:
        raise refuse(node, f"{extents} to {sizes}")
    result = x
    for i, (axis, scale, size) in enumerate(zip(over, scales, sizes, strict=True)):
        if scale == 1 and transform != "tf_crop_and_resize":
            continue
        region = (roi[i], roi[len(over) + i]) if transform == "tf_crop_and_resize" and roi else (0.0, 1.0)
        where, outside = _coordinates(transform, size, scale, x.shape[axis], region, node)
        taken, weights = _neighbours(where, scale, mode, nearest_mode, cubic_coeff_a, antialias, node)
        if exclude_outside:
            weights = np.where((taken < 0) | (taken >= x.shape[axis]), 0.0, weights)
            weights = weights / np.where(weights.sum(1, keepdims=True) == 0, 1.0, weights.sum(1, keepdims=True))
        result = _weighted(result, axis, taken.clip(0, x.shape[axis] - 1), weights)
        if outside.any():
            shape = [size if d == axis else 1 for d in range(x.ndim)]
            result = Tensor(outside.tolist()).reshape(shape).where(extrapolation_value, result)
    return result.cast(x.dtype)


def _coordinates(
    mode: str, size: int, scale: float, extent: int, region: tuple[float, float], node: Node
) -> tuple[Floats, NDArray[np.bool_]]:
    """Where each of `size` new elements lies among the old, and which lie outside of the region."""
    at, inside = np.arange(size, dtype=np.float64), np.zeros(size, np.bool_)
    whole = scale * extent
    if mode == "align_corners":
        return (at * 0 if whole == 1 else at * (extent - 1) / (whole - 1)), inside
    if mode == "asymmetric":
        return at / scale, inside
    if mode == "tf_crop_and_resize":
        first, last = region
        steps = at * 0 + (extent - 1) / 2 if whole == 1 else at * (extent - 1) / (whole - 1)
        coordinates = steps * (last - first) + first * (extent - 1)
        return coordinates, (coordinates < 0) | (coordinates > extent - 1)
    if mode == "pytorch_half_pixel" and whole == 1:
        return at * 0 - 0.5, inside
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (at + 0.5) / scale - 0.5, inside
    if mode == "half_pixel_symmetric":
        return extent / 2 * (1 - size / whole) + (at + 0.5) / scale - 0.5, inside
    raise refuse(node, f"coordinate_transformation_mode = {mode!r}")


def _neighbours(
    where: Floats, scale: float, mode: str, nearest_mode: str, cubic: float, antialias: int, node: Node
) -> tuple[NDArray[np.int64], Floats]:
    """The old elements that make each new one, and their weights."""
    first = np.floor(where).astype(np.int64)
    if mode == "nearest":
        rounded = {
            "round_prefer_floor": np.ceil(where - 0.5), "round_prefer_ceil": np.floor(where + 0.5),
            "floor": np.floor(where), "ceil": np.ceil(where),
        }  # fmt: skip
        if nearest_mode not in rounded:
            raise refuse(node, f"nearest_mode = {nearest_mode!r}")
        return rounded[nearest_mode].astype(np.int64)[:, None], np.ones((len(where), 1))
    if mode not in ("linear", "cubic"):
        raise refuse(node, f"mode = {mode!r}")
    reach, shrinking = (1 if mode == "linear" else 2), min(scale, 1.0) if antialias else 1.0
    count = math.ceil(reach / shrinking)
    if count > REACH:
        raise refuse(node, f"{2 * count} elements for each new one")
    taken = first[:, None] + np.arange(1 - count, count + 1)
    distance = np.abs(taken - where[:, None]) * shrinking
    weights = np.maximum(1 - distance, 0) if mode == "linear" else _cubic(distance, cubic)
    return taken, weights / weights.sum(1, keepdims=True) if antialias else weights


def _cubic(distance: Any, a: float) -> Any:
    """Keys' weights of four neighbours."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    if isinstance(distance, Tensor):
        return (distance <= 1).where(near, (distance < 2).where(far, 0))
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _weighted(x: Tensor, axis: int, taken: NDArray[np.int64], weights: Floats) -> Tensor:
    """New elements along an axis; where they are repetitions no index is kept."""
    if taken.shape[1] == 1:
        times = len(taken) // x.shape[axis]
        if times and np.array_equal(taken[:, 0], np.arange(len(taken)) // times) and len(taken) % x.shape[axis] == 0:
            return x.repeat_interleave(times, axis)
    shape = [len(taken) if d == axis else 1 for d in range(x.ndim)]
    total = None
    for column in range(taken.shape[1]):
        if not weights[:, column].any():
            continue
        part = x[(slice(None),) * axis + (Tensor(taken[:, column].astype(np.int32)),)]
        if taken.shape[1] > 1:
            part = part * Tensor(weights[:, column].astype(np.float32)).reshape(shape)
        total = part if total is None else total + part
    return x if total is None else total


@operator("GridSample", since=16)
def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0, *, node: Node
) -> Tensor:
    """x between its elements, at places from −1 to 1 in each dimension, the last one first."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    extents, n = x.shape[2:], x.ndim - 2
    if mode not in ("nearest", "linear", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise refuse(node, f"the mode {mode!r} with {padding_mode!r}")
    if mode == "cubic" and padding_mode == "border":
        raise refuse(node, "cubic with a border, which PyTorch and onnx understand differently")
    if grid.shape[-1] != n or grid.ndim != n + 2 or grid.shape[0] != x.shape[0] or (mode == "cubic" and n != 2):
        raise refuse(node, f"a grid of {grid.shape} over the shape {x.shape}", "check it with onnx.checker")
    choices: list[list[tuple[Tensor, Tensor]]] = []
    for i, extent in enumerate(extents):
        at = grid[..., n - 1 - i].cast(dtypes.float32)
        at = (at + 1) / 2 * (extent - 1) if align_corners else ((at + 1) * extent - 1) / 2
        at = at.round() if mode == "nearest" else at
        at = _within(at, extent, padding_mode, align_corners)
        first = at.floor()
        if mode == "nearest":
            choices.append([(at, at.const_like(1.0))])
        elif mode == "linear":
            choices.append([(first, 1 - (at - first)), (first + 1, at - first)])
        else:
            choices.append([(first + step, _cubic((at - first - step).abs(), -0.75)) for step in (-1, 0, 1, 2)])
    planes = x.reshape(x.shape[0], x.shape[1], math.prod(extents))
    total = None
    for corner in product(*choices):
        part = _read(planes, corner, extents, padding_mode, align_corners)
        total = part if total is None else total + part
    assert total is not None
    return total.cast(x.dtype)


def _within(at: Tensor, extent: int, padding_mode: str, align_corners: int) -> Tensor:
    """A place, moved into the tensor as the padding says."""
    if padding_mode == "border":
        return at.maximum(0).minimum(extent - 1)
    if padding_mode == "zeros":
        return at
    low, high = (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)
    length = high - low
    if length == 0:
        return at.const_like(low)
    distance = (at - low).abs()
    turns = (distance / length).floor()
    rest = distance - turns * length
    return (turns - 2 * (turns / 2).floor() == 0).where(rest + low, high - rest)


def _read(
    planes: Tensor,
    corner: Sequence[tuple[Tensor, Tensor]],
    extents: Sequence[int],
    padding_mode: str,
    align_corners: int,
) -> Tensor:
    """The elements at whole places, times the product of their weights."""
    flat, weight, inside = None, None, None
    for (at, part), extent in zip(corner, extents, strict=True):
        at = _within(at, extent, padding_mode, align_corners).round()
        holds = (at >= 0) & (at < extent)
        index = at.maximum(0).minimum(extent - 1).cast(dtypes.int32)
        flat = index if flat is None else flat * extent + index
        weight = part if weight is None else weight * part
        inside = holds if inside is None else inside & holds
    assert flat is not None and weight is not None and inside is not None
    shape = (planes.shape[0], 1, *flat.shape[1:])
    rows = flat.reshape(planes.shape[0], 1, -1).expand(planes.shape[0], planes.shape[1], flat[0].numel())
    elements = planes.gather(2, rows).reshape(planes.shape[0], planes.shape[1], *flat.shape[1:])
    return inside.reshape(shape).where(elements * weight.reshape(shape), 0)
