"""Operators that slide a window: convolutions and pools."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tinygrad import Tensor, dtypes

from eigentensor.capture.onnx.arithmetic import quotient, spread
from eigentensor.capture.onnx.file import Node
from eigentensor.capture.onnx.registry import operator, refuse


class Slide(NamedTuple):
    """How a window of `kernel` elements, `dilation` apart, moves along a dimension that is padded on both sides."""

    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    places: int

    @property
    def span(self) -> int:
        """How many elements a window covers, from its first to its last."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def needed(self) -> int:
        """What is to be added after the last element, or taken away if negative, so that the windows fit exactly."""
        return (self.places - 1) * self.stride + self.span - self.extent - self.before


def slides(
    x: Tensor, kernel: Sequence[int], strides: Any, dilations: Any, pads: Any, auto_pad: str, ceil_mode: int, node: Node
) -> list[Slide]:
    """One for each dimension but the first two."""
    extents, n = x.shape[2:], x.ndim - 2
    strides, dilations = (tuple(v or (1,) * n) for v in (strides, dilations))
    pads = tuple(pads or (0,) * (2 * n))
    if (
        n < 1
        or any(len(v) != n for v in (kernel, strides, dilations))
        or len(pads) != 2 * n
        or min((*kernel, *strides, *dilations)) < 1
        or min(pads) < 0
        or auto_pad not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    ):
        raise refuse(node, f"a window of {tuple(kernel)} over the shape {x.shape}", "check it with onnx.checker")
    dimensions = []
    for i, (extent, size, stride, dilation) in enumerate(zip(extents, kernel, strides, dilations, strict=True)):
        span = (size - 1) * dilation + 1
        before, after = (pads[i], pads[i + n]) if auto_pad == "NOTSET" else (0, 0)
        if auto_pad.startswith("SAME"):
            count = -(-extent // stride)
            before, after = halves(max((count - 1) * stride + span - extent, 0), auto_pad)
        else:
            room = extent + before + after - span
            count = (-(-room // stride) if ceil_mode else room // stride) + 1
            if ceil_mode and (count - 1) * stride >= extent + before:
                count -= 1  # it would begin in the padding
        if count < 1:
            raise refuse(node, f"a window of {tuple(kernel)} over the shape {x.shape}", "check it with onnx.checker")
        dimensions.append(Slide(extent, size, stride, dilation, before, after, count))
    return dimensions


def halves(total: int, auto_pad: str) -> tuple[int, int]:
    """What is odd lies after the last element if it is to be upper, else before the first."""
    return (total // 2, total - total // 2) if auto_pad == "SAME_UPPER" else (total - total // 2, total // 2)


def windows(x: Tensor, along: Sequence[Slide], fill: Any) -> Tensor:
    """The elements below each place of the window, in dimensions behind those of the places."""
    x = x.pad(((0, 0), (0, 0), *((s.before, s.needed) for s in along)), value=fill)
    for i, slide in enumerate(along):
        x = x.unfold(2 + i, slide.span, slide.stride)[..., :: slide.dilation]
    return x


@operator("AveragePool")
def average_pool(
    x: Tensor, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Any = None, pads: Any = None, strides: Any = None, node: Node,
) -> Tensor:  # fmt: skip
    """ONNX AveragePool: sums of windows over how many elements they have, with or without the padding."""
    along = slides(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, node)
    total = windows(x, along, 0).sum(tuple(range(-len(along), 0)))
    for i, slide in enumerate(along):
        total = quotient(total, _members(slide, count_include_pad).reshape(-1, *[1] * (len(along) - 1 - i)))
    return total.cast(x.dtype)


def _members(slide: Slide, count_include_pad: int) -> Tensor:
    """How many elements lie below each place of a window; what a rounded count adds is no padding."""
    first = Tensor.arange(slide.places) * slide.stride - (0 if count_include_pad else slide.before)
    end = slide.extent + (slide.before + slide.after if count_include_pad else 0)
    low = (-first + slide.dilation - 1) // slide.dilation
    high = (-first + end + slide.dilation - 1) // slide.dilation
    return (high.minimum(slide.kernel) - low.maximum(0)).cast(dtypes.float32)


@operator("LpPool")
def lp_pool(
    x: Tensor, *, kernel_shape: Sequence[int], p: float = 2, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: Any = None, pads: Any = None, strides: Any = None, node: Node,
) -> Tensor:  # fmt: skip
    """ONNX LpPool: the p-norm of each window. Raises CaptureError for p below 1."""
    along = slides(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, node)
    if p < 1:
        raise refuse(node, f"p = {p}")
    below, axes = windows(x, along, 0).abs(), tuple(range(-len(along), 0))
    if p == 1:
        return below.sum(axes)
    return below.square().sum(axes).sqrt() if p == 2 else below.pow(p).sum(axes).pow(1 / p)


@operator("MaxPool")
def max_pool(
    x: Tensor, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", ceil_mode: int = 0, storage_order: int = 0,
    dilations: Any = None, pads: Any = None, strides: Any = None, node: Node,
) -> Any:  # fmt: skip
    """ONNX MaxPool, with the flat indices of the maxima if they are asked for."""
    along = slides(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, node)
    below = windows(x, along, x.dtype.min).flatten(-len(along))
    largest = below.max(-1)
    if len(node.outputs) < 2:
        return largest
    at, inner = below.argmax(-1).cast(dtypes.int64), math.prod(s.kernel for s in along)
    order = list(enumerate(along))[:: 1 if storage_order == 0 else -1]
    strides_of = {i: math.prod(s.extent for _, s in order[j + 1 :]) for j, (i, _) in enumerate(order)}
    flat = Tensor.arange(x.shape[0] * x.shape[1], dtype=dtypes.int64) * math.prod(s.extent for s in along)
    flat = flat.reshape(x.shape[0], x.shape[1], *[1] * len(along))
    for i, slide in enumerate(along):
        inner //= slide.kernel
        first = Tensor.arange(slide.places, dtype=dtypes.int64) * slide.stride - slide.before
        element = first.reshape(-1, *[1] * (len(along) - 1 - i)) + at // inner % slide.kernel * slide.dilation
        flat = flat + element * strides_of[i]
    return largest, flat


@operator("MaxUnpool", numbers=(2,))
def max_unpool(
    x: Tensor, indices: Tensor, output_shape: Sequence[int] | None = None, *, kernel_shape: Sequence[int],
    pads: Any = None, strides: Any = None, node: Node,
) -> Tensor:  # fmt: skip
    """Indices are places in the shape that window and strides imply, which is then a corner of `output_shape`."""
    n = x.ndim - 2
    pads, strides = tuple(pads or (0,) * (2 * n)), tuple(strides or (1,) * n)
    if len(kernel_shape) != n or len(pads) != 2 * n or len(strides) != n:
        raise refuse(node, f"a window of {tuple(kernel_shape)} over the shape {x.shape}", "check it with onnx.checker")
    implied = [
        (extent - 1) * strides[i] - pads[i] - pads[n + i] + kernel_shape[i] for i, extent in enumerate(x.shape[2:])
    ]
    shape = (*x.shape[:2], *implied)
    wanted = shape if output_shape is None else tuple(output_shape)
    if min(shape) < 1 or len(wanted) != len(shape) or any(a < b for a, b in zip(wanted, shape, strict=True)):
        raise refuse(node, f"{wanted} out of {shape}", "check it with onnx.checker")
    flat = Tensor.zeros(math.prod(shape), dtype=x.dtype).scatter(0, indices.flatten(), x.flatten())
    return flat.reshape(shape).pad(tuple((0, b - a) for a, b in zip(shape, wanted, strict=True)))


def _widened(x: Tensor) -> Tensor:
    return x.cast(dtypes.float32) if dtypes.is_float(x.dtype) else x


@operator("Conv")
def conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET", dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None, node: Node,
) -> Tensor:  # fmt: skip
    """ONNX Conv over any number of axes, in groups; half types are summed in float32."""
    kernel = weight.shape[2:]
    if kernel_shape is not None and tuple(kernel_shape) != kernel:
        raise refuse(node, f"a kernel of {tuple(kernel_shape)} with the weight {weight.shape}", "check the model")
    along = slides(x, kernel, strides, dilations, pads, auto_pad, 0, node)
    if group < 1 or x.shape[1] != weight.shape[1] * group or weight.shape[0] % group:
        raise refuse(node, f"{x.shape[1]} channels in {group} groups with the weight {weight.shape}", "check the model")
    padded = _widened(x).pad(((0, 0), (0, 0), *((s.before, s.after) for s in along)))
    weight, bias = _widened(weight), None if bias is None else _widened(bias)
    stride, dilation = tuple(s.stride for s in along), tuple(s.dilation for s in along)
    return padded.conv2d(weight, bias, groups=group, stride=stride, dilation=dilation).cast(x.dtype)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET", dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, pads: Any = None, output_shape: Any = None, output_padding: Any = None,
    strides: Any = None, node: Node,
) -> Tensor:  # fmt: skip
    """ONNX ConvTranspose: each element spread over a window of the result; `output_shape` sets the padding."""
    n, kernel = x.ndim - 2, weight.shape[2:]
    strides, dilations = (tuple(v or (1,) * n) for v in (strides, dilations))
    added, pads = tuple(output_padding or (0,) * n), tuple(pads or (0,) * (2 * n))
    lengths = [len(v) for v in (kernel, strides, dilations, added)]
    if n < 1 or any(length != n for length in lengths) or len(pads) != 2 * n or min((*strides, *dilations)) < 1:
        raise refuse(node, f"a window of {kernel} over the shape {x.shape}", "check it with onnx.checker")
    if group < 1 or x.shape[1] != weight.shape[0] or x.shape[1] % group or min((*pads, *added)) < 0:
        raise refuse(node, f"{x.shape[1]} channels in {group} groups with the weight {weight.shape}", "check the model")
    whole = [strides[i] * (x.shape[2 + i] - 1) + added[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(n)]
    wanted: list[int] | None
    if output_shape is not None:
        wanted = list(output_shape)[-n:]
    elif auto_pad.startswith("SAME"):
        wanted = [min(x.shape[2 + i] * strides[i], whole[i]) for i in range(n)]
    else:
        wanted = None if auto_pad == "NOTSET" else whole
    around = [(pads[i], pads[n + i]) for i in range(n)]
    if wanted is not None:
        if any(a + 1 < b for a, b in zip(whole, wanted, strict=True)):
            raise refuse(node, f"an output of {wanted} where {whole} are computed")
        around = [halves(max(a - b, 0), auto_pad) for a, b in zip(whole, wanted, strict=True)]
        added = tuple(more + max(b - a, 0) for more, a, b in zip(added, whole, wanted, strict=True))
    padding = [amount for pair in reversed(around) for amount in pair]
    return x.conv_transpose2d(weight, bias, group, strides, dilations, padding, added)


def centred(x: Tensor, zero_point: Tensor | None, axis: int = 0) -> Tensor:
    """Quantised elements less their zero point, as int32."""
    wide = x.cast(dtypes.int32)
    return wide if zero_point is None else wide - spread(zero_point.cast(dtypes.int32), x.ndim, axis)


@operator("ConvInteger")
def conv_integer(
    x: Tensor, weight: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None, node: Node,
) -> Tensor:  # fmt: skip
    """Padding stands for the real number 0: it is the zero point of what is padded."""
    return conv(
        centred(x, x_zero), centred(weight, w_zero), auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides, node=node,
    )  # fmt: skip


@operator("QLinearConv")
def quantised_conv(
    x: Tensor, x_scale: Tensor, x_zero: Tensor, weight: Tensor, w_scale: Tensor, w_zero: Tensor, y_scale: Tensor,
    y_zero: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None, node: Node,
) -> Tensor:  # fmt: skip
    """ONNX QLinearConv: exact integer sums, scaled in float32, rounded to even and saturated."""
    total = conv(
        centred(x, x_zero), centred(weight, w_zero), bias, auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides, node=node,
    )  # fmt: skip
    scale = quotient(x_scale.reshape(()) * spread(w_scale, x.ndim, 1), y_scale.reshape(()))
    return saturated((total.cast(dtypes.float32) * scale).round(), y_zero.reshape(()))


def saturated(rounded: Tensor, zero_point: Tensor) -> Tensor:
    """Whole numbers and a zero point together, within the zero point's type."""
    least, most = zero_point.dtype.min, zero_point.dtype.max
    held = rounded.maximum(-(1 << 24)).minimum(1 << 24).cast(dtypes.int32) + zero_point.cast(dtypes.int32)
    return held.maximum(least).minimum(most).cast(zero_point.dtype)


@operator("MatMulInteger")
def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """ONNX MatMulInteger: int32 sums of products less the zero points, exact while they do not wrap."""
    return _of_rows(a, a_zero) @ centred(b, b_zero, -1)


def _of_rows(a: Tensor, zero_point: Tensor | None) -> Tensor:
    return centred(a, zero_point, -2) if a.ndim > 1 else centred(a, zero_point)


@operator("QLinearMatMul")
def quantised_matmul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor,
    y_zero: Tensor, *, node: Node,
) -> Tensor:  # fmt: skip
    """ONNX QLinearMatMul: exact integer sums, scaled in float32, rounded to even and saturated."""
    if y_zero.numel() != 1 or y_scale.numel() != 1:
        raise refuse(node, "an output of several scales")
    total = (_of_rows(a, a_zero) @ centred(b, b_zero, -1)).cast(dtypes.float32)
    a_scale, b_scale, y_scale = (s.cast(dtypes.float32) for s in (a_scale, b_scale, y_scale))
    scale = quotient(spread(a_scale, a.ndim, -2) * spread(b_scale, b.ndim, -1), y_scale.reshape(()))
    return saturated((total * scale).round(), y_zero.reshape(()))


@operator("QuantizeLinear")
def quantize(
    x: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: int = 1, block_size: int = 0,
    output_dtype: Any = None, saturate: int = 1, precision: Any = None, *, node: Node,
) -> Tensor:  # fmt: skip
    """ONNX QuantizeLinear: x over its scale, rounded to even, plus the zero point, saturated; by tensor, axis or
    block."""
    target = (output_dtype or dtypes.uint8) if zero_point is None else zero_point.dtype
    zero_point = Tensor(0, dtype=target) if zero_point is None else zero_point
    wide = (x.cast(dtypes.float32), scale.cast(dtypes.float32))
    if x.dtype in (dtypes.float16, dtypes.bfloat16) and scale.dtype is x.dtype and precision is None:
        steps = quotient(*wide).cast(x.dtype).cast(dtypes.float32) if scale.numel() == 1 else None
    else:
        steps = None
    if steps is None:
        steps = quotient(wide[0], _of_blocks(wide[1], x, axis, block_size, node))
    return saturated(steps.round(), _of_blocks(zero_point, x, axis, block_size, node))


@operator("DequantizeLinear")
def dequantize(
    x: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: int = 1, block_size: int = 0,
    output_dtype: Any = None, *, node: Node,
) -> Tensor:  # fmt: skip
    """ONNX DequantizeLinear: (x − zero point)·scale, by tensor, axis or block."""
    steps = x.cast(dtypes.int32)
    if zero_point is not None:
        steps = steps - _of_blocks(zero_point.cast(dtypes.int32), x, axis, block_size, node)
    values = steps.cast(dtypes.float32) * _of_blocks(scale.cast(dtypes.float32), x, axis, block_size, node)
    return values.cast(output_dtype or scale.dtype)


def _of_blocks(values: Tensor, x: Tensor, axis: int, block_size: int, node: Node) -> Tensor:
    """Scales or zero points for each element: one for all, one for each place of an axis, or one for each block."""
    if values.numel() == 1:
        return values.reshape(())
    if block_size == 0 and values.ndim == 1:
        return spread(values, x.ndim, axis)
    if block_size < 1 or values.ndim != x.ndim:
        raise refuse(node, f"blocks of {block_size} with the scale {values.shape}", "check it with onnx.checker")
    extent = x.shape[axis % x.ndim]
    kept = tuple((0, extent) if i == axis % x.ndim else (0, n) for i, n in enumerate(values.shape))
    return values.repeat_interleave(block_size, axis).shrink(kept)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """ONNX DynamicQuantizeLinear to uint8: the result, its scale and its zero point; 0 is always exact."""
    low, high = x.min().minimum(0), x.max().maximum(0)
    scale = quotient((low == high).where(1.0, high - low), Tensor(255.0, dtype=x.dtype))
    zero_point = quotient(-low, scale).maximum(0).minimum(255).round().cast(dtypes.uint8)
    return saturated(quotient(x, scale).round(), zero_point), scale, zero_point
