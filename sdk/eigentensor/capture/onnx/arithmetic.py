"""Operators that compute each element by itself, and reductions."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.uop.ops import Ops

from eigentensor.capture.onnx.file import Node
from eigentensor.capture.onnx.registry import of_tinygrad, operator, refuse

of_tinygrad(
    "Neg", "Reciprocal", "Sqrt", "Abs", "Exp", "Log", "Mish", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan",
    "Relu", "Sigmoid", "Floor", "Ceil", "IsNaN", "Softplus", "HardSwish", "Where", "Sinh", "Cosh", "Tanh", "Softsign",
    "Asinh", "Acosh", "Atanh", "Elu", "Celu", "Selu", "Round", "Erf", "LessOrEqual", "GreaterOrEqual", "BitwiseAnd",
    "BitwiseOr", "BitwiseXor", "BitwiseNot", "Not", "IsInf", "HardSigmoid", "Gelu", "LeakyRelu", "ThresholdedRelu",
    "Swish", "Max", "Min", "Sum", "Mean", "Einsum", "LRN", "InstanceNormalization", "NegativeLogLikelihoodLoss",
    "SoftmaxCrossEntropyLoss", "RotaryEmbedding", "GlobalAveragePool", "GlobalMaxPool",
)  # fmt: skip
of_tinygrad("Add", "Sub", "Mul", "Less", "Greater", "Equal", "And", "Or", "Xor", "PRelu", since=7)


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a/b of floats, rounded once."""
    return a.alu(Ops.FDIV, b.cast(a.dtype))


def spread(tensor: Tensor, ndim: int, axis: int) -> Tensor:
    """A list as a tensor of `ndim` dimensions that varies along an axis; a single number as it is."""
    if tensor.numel() == 1:
        return tensor.reshape(())
    return tensor.reshape(*(tensor.shape[0] if i == axis % ndim else 1 for i in range(ndim)))


@operator("Div", since=7)
def div(x: Tensor, y: Tensor) -> Tensor:
    """ONNX Div: floats divided as the format does; integers towards zero."""
    return quotient(x, y) if dtypes.is_float(x.dtype) else x.div(y, rounding_mode="trunc")


@operator("Pow", since=7)
def power(x: Tensor, y: Tensor, *, node: Node) -> Tensor:
    """An integer to the power of an integer is exact, by squaring; what its type cannot hold is 0."""
    if dtypes.is_float(x.dtype):
        return x.pow(y.cast(dtypes.float32)).cast(x.dtype)
    if dtypes.is_float(y.dtype):
        raise refuse(node, "an integer to the power of a float", "cast the base to float32")
    x, y = broadcast(x, y)
    result, factor = x.const_like(1), x
    for bit in range(6):
        result = ((y >> bit) & 1 == 1).where(result * factor, result)
        factor = factor * factor
    # Of powers below 0 and from 64 on only those of 0, 1 and -1 are numbers of an integer type.
    return (((y < 0) | (y > 63)) & (x * x != 1)).where(0, result)


@operator("Mod")
def mod(x: Tensor, y: Tensor, fmod: int = 0) -> Tensor:
    """ONNX Mod: with `fmod` the remainder has the dividend's sign, else the divisor's; of floats it is exact."""
    if not dtypes.is_float(x.dtype):
        return x.fmod(y) if fmod else x % y
    a, b = broadcast(x.cast(dtypes.float32), y.cast(dtypes.float32))
    rest = _remainder(a, b)
    if not fmod:  # the divisor's sign
        other = ((rest < 0) != (b < 0)).where(rest + b, rest)
        rest = (rest == 0).where(_with_sign(b.const_like(0), b), other)
    return rest.cast(x.dtype)


def _remainder(a: Tensor, b: Tensor) -> Tensor:
    """a minus the multiple of b towards zero, exactly: long division of the significands, 40 bits at a time."""
    (rest, above), (divisor, place) = map(_significand, (a, b))
    left = (above - place).maximum(0)
    for _ in range(7):
        step = left.minimum(40)
        rest, left = (rest << step.cast(dtypes.uint64)) % divisor, left - step
    small = (place - 24).minimum(0)
    exact = rest.cast(dtypes.float32) * _power_of_two(small) * _power_of_two(place - 24 - small - 126)
    result = (a.abs() < b.abs()).where(a, _with_sign(exact, a))
    return (a.isinf() | (b == 0) | a.isnan() | b.isnan()).where(math.nan, result)


def _significand(x: Tensor) -> tuple[Tensor, Tensor]:
    """An integer m and a biased exponent e of |x| = m·2^(e − 150)."""
    bits = x.bitcast(dtypes.int32) & 0x7FFFFFFF
    exponent = bits >> 23
    significand = (bits & 0x7FFFFF) + (exponent > 0).where(1 << 23, 0)
    return significand.cast(dtypes.uint64), exponent.maximum(1)


def _power_of_two(exponent: Tensor) -> Tensor:
    return ((exponent + 127) << 23).cast(dtypes.int32).bitcast(dtypes.float32)


def _with_sign(magnitude: Tensor, x: Tensor) -> Tensor:
    return (x.bitcast(dtypes.int32) < 0).where(-magnitude, magnitude)


@operator("Sign")
def sign(x: Tensor) -> Tensor:
    """Of NaN it is NaN."""
    return x.isnan().where(x, x.sign()) if dtypes.is_float(x.dtype) else x.sign()


@operator("BitShift")
def bit_shift(x: Tensor, y: Tensor, *, direction: str, node: Node) -> Tensor:
    """ONNX BitShift of unsigned integers."""
    if direction not in ("LEFT", "RIGHT"):
        raise refuse(node, f"the direction {direction!r}")
    return x << y if direction == "LEFT" else x >> y


@operator("Clip")
def clip(x: Tensor, min: Any = None, max: Any = None) -> Tensor:  # noqa: A002
    """The maximum holds where it is below the minimum; NaN stays."""
    if min is not None:
        x = (x < min).where(min, x).cast(x.dtype)
    return x if max is None else (x > max).where(max, x).cast(x.dtype)


@operator("ai.onnx.ml.Binarizer")
def binarizer(x: Tensor, threshold: float = 0.0) -> Tensor:
    """ONNX ML Binarizer: 1 above the threshold, else 0."""
    return (x > threshold).cast(x.dtype)


@operator("Shrink")
def shrink(x: Tensor, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """ONNX Shrink: 0 within ±`lambd`, else moved towards 0 by `bias`; in float32."""
    wide = x.cast(dtypes.float32)
    return (wide < -lambd).where(wide + bias, (wide > lambd).where(wide - bias, 0)).cast(x.dtype)


@operator("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Of half types the products are exact, and rounded once when they are added."""
    if a.dtype in (dtypes.float16, dtypes.bfloat16):
        return (a.cast(dtypes.float32) @ b.cast(dtypes.float32)).cast(a.dtype)
    return a @ b


@operator("Gemm", since=7)
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,  # noqa: N803
) -> Tensor:  # fmt: skip
    """ONNX Gemm: α·A·B + β·C, either transposed first; each scaled product is in A's type."""
    product = matmul(a.T if transA else a, b.T if transB else b)
    product = product if alpha == 1 else (product * alpha).cast(a.dtype)
    return product if c is None else product + (c if beta == 1 else (c * beta).cast(a.dtype))


def _along(name: str) -> Callable[..., Any]:
    """Softmax and the like: before opset 13 all dimensions from the axis on are one."""
    one = {"Softmax": Tensor.softmax, "LogSoftmax": Tensor.log_softmax, "Hardmax": _hardmax}[name]

    def compute(x: Tensor, axis: int | None = None, *, node: Node) -> Tensor:
        if node.opset >= 13:
            return one(x, place(-1 if axis is None else axis, x.ndim, node))
        first = place(1 if axis is None else axis, x.ndim, node)
        return one(x.reshape(math.prod(x.shape[:first]), math.prod(x.shape[first:])), -1).reshape(x.shape)

    return compute


def _hardmax(x: Tensor, axis: int) -> Tensor:
    largest = x.argmax(axis, keepdim=True)
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return (Tensor.arange(x.shape[axis]).reshape(shape) == largest).cast(x.dtype)


for _name in ("Softmax", "LogSoftmax", "Hardmax"):
    operator(_name)(_along(_name))


def place(axis: int, ndim: int, node: Node) -> int:
    """An axis of a tensor of so many dimensions, from 0 on."""
    if not -ndim <= axis < ndim:
        raise refuse(node, f"axis {axis} of {ndim} dimensions", "check it with onnx.checker")
    return axis % ndim


def places(axes: Sequence[int], ndim: int, node: Node) -> list[int]:
    """Axes, each once, in ascending order."""
    positions = sorted(place(axis, ndim, node) for axis in axes)
    if len(set(positions)) != len(positions):
        raise refuse(node, f"the axes {list(axes)} name one twice", "check it with onnx.checker")
    return positions


def broadcast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in one shape."""
    shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(tensor.expand(shape) for tensor in tensors)


def _mean(x: Tensor, axes: list[int]) -> Tensor:
    if dtypes.is_float(x.dtype):
        return x.mean(axes, keepdim=True)
    return x.sum(axes, keepdim=True).div(math.prod(x.shape[i] for i in axes), rounding_mode="trunc")


def _log_sum_exp(x: Tensor, axes: list[int]) -> Tensor:
    wide = x.cast(dtypes.float32)
    largest = wide.max(axes, keepdim=True).detach()
    largest = largest.isinf().where(0, largest)
    return (wide - largest).exp().sum(axes, keepdim=True).log() + largest


#: What a reduction computes, its axes being kept.
REDUCTIONS: dict[str, Callable[[Tensor, list[int]], Tensor]] = {
    "ReduceMax": lambda x, axes: x.max(axes, keepdim=True),
    "ReduceMin": lambda x, axes: x.min(axes, keepdim=True),
    "ReduceSum": lambda x, axes: x.sum(axes, keepdim=True),
    "ReduceMean": _mean,
    "ReduceProd": lambda x, axes: x.prod(axes, keepdim=True),
    "ReduceSumSquare": lambda x, axes: x.square().sum(axes, keepdim=True),
    "ReduceL1": lambda x, axes: x.abs().sum(axes, keepdim=True),
    "ReduceL2": lambda x, axes: _wide(x).square().sum(axes, keepdim=True).sqrt(),
    "ReduceLogSum": lambda x, axes: _wide(x).sum(axes, keepdim=True).log(),
    "ReduceLogSumExp": _log_sum_exp,
}


def _wide(x: Tensor) -> Tensor:
    return x.cast(dtypes.float32) if x.dtype in (dtypes.float16, dtypes.bfloat16) else x


def _reduction(name: str) -> Callable[..., Any]:
    def compute(
        x: Tensor, axes: Sequence[int] | None = None, keepdims: int = 1, noop_with_empty_axes: int = 0, *, node: Node
    ) -> Tensor:
        if not axes and noop_with_empty_axes:
            over: list[int] = []
        else:
            over = places(axes or range(x.ndim), x.ndim, node)
        result = REDUCTIONS[name](x, over) if over or name not in PLAIN else x
        result = result.cast(x.dtype)
        return result if keepdims else result.reshape(tuple(n for i, n in enumerate(x.shape) if i not in over))

    return compute


PLAIN = ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceProd")  #: of one element, the element
for _name in REDUCTIONS:
    operator(_name, numbers=(1,))(_reduction(_name))


def _extreme(find: Callable[..., Tensor]) -> Callable[..., Any]:
    def compute(x: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0, *, node: Node) -> Tensor:
        axis = place(axis, x.ndim, node)
        if select_last_index:
            indices = x.shape[axis] - 1 - find(x.flip(axis), axis, keepdim=bool(keepdims))
        else:
            indices = find(x, axis, keepdim=bool(keepdims))
        return indices.cast(dtypes.int64)

    return compute


operator("ArgMax")(_extreme(Tensor.argmax))
operator("ArgMin")(_extreme(Tensor.argmin))


def _cumulative(total: Callable[[Tensor, int], Tensor], nothing: int) -> Callable[..., Any]:
    def compute(x: Tensor, axis: Any, exclusive: int = 0, reverse: int = 0, *, node: Node) -> Tensor:
        over = place(number(axis), x.ndim, node)
        if reverse:
            x = x.flip(over)
        if exclusive:
            kept = tuple((0, n - 1) if i == over else (0, n) for i, n in enumerate(x.shape))
            x = x.shrink(kept).pad(tuple((1, 0) if i == over else (0, 0) for i in range(x.ndim)), value=nothing)
        result = total(x, over).cast(x.dtype)
        return result.flip(over) if reverse else result

    return compute


operator("CumSum", numbers=(1,))(_cumulative(Tensor.cumsum, 0))
operator("CumProd", numbers=(1,))(_cumulative(Tensor.cumprod, 1))


def number(value: Any) -> Any:
    """The one number of a list, or the number."""
    (element,) = value if isinstance(value, Sequence) else (value,)
    return element


def _normalised(x: Tensor, axes: list[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """x less its mean by its deviation, the mean, and what it is multiplied with, in float32."""
    x = x.cast(dtypes.float32)
    mean = x.mean(axes, keepdim=True)
    scale = ((x - mean).square().mean(axes, keepdim=True) + epsilon).rsqrt()
    return (x - mean) * scale, mean, scale


@operator("LayerNormalization")
def layer_normalization(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, axis: int = -1, epsilon: float = 1e-5, stash_type: Any = None,
    *, node: Node,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """ONNX LayerNormalization over the axes from `axis` on: the result, mean and 1/√(variance + ε), in float32
    inside."""
    normal, mean, factor = _normalised(x, list(range(place(axis, x.ndim, node), x.ndim)), epsilon)
    result = normal.cast(x.dtype) * scale
    return (result if bias is None else result + bias).cast(x.dtype), mean, factor


@operator("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, axis: int = -1, epsilon: float = 1e-5, stash_type: Any = None, *, node: Node
) -> Tensor:
    """ONNX RMSNormalization: x/√(mean x² + ε) over the axes from `axis` on, times the scale; in float32 inside."""
    wide, axes = x.cast(dtypes.float32), list(range(place(axis, x.ndim, node), x.ndim))
    factor = (wide.square().mean(axes, keepdim=True) + epsilon).rsqrt()
    return ((wide * factor).cast(x.dtype) * scale).cast(x.dtype)


@operator("GroupNormalization")
def group_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: Any = None,
    node: Node,
) -> Tensor:
    """Before opset 21 scale and bias are those of groups, from then on of channels."""
    if num_groups < 1 or x.shape[1] % num_groups:
        raise refuse(node, f"{x.shape[1]} channels in {num_groups} groups", "check it with onnx.checker")
    normal, _, _ = _normalised(x.reshape(x.shape[0], num_groups, -1), [2], epsilon)
    scale, bias = (t.repeat_interleave(x.shape[1] // num_groups) if node.opset < 21 else t for t in (scale, bias))
    return normal.reshape(x.shape).cast(x.dtype) * spread(scale, x.ndim, 1) + spread(bias, x.ndim, 1)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, axes: Sequence[int] = (0, 2, 3), *, node: Node) -> Tensor:
    """ONNX MeanVarianceNormalization: (x − mean)/(√variance + 1e-9) over these axes."""
    over = places(axes, x.ndim, node)
    mean = x.mean(over, keepdim=True)
    return (x - mean) / ((x - mean).square().mean(over, keepdim=True).sqrt() + 1e-9)


@operator("LpNormalization")
def lp_normalization(x: Tensor, axis: int = -1, p: int = 2, *, node: Node) -> Tensor:
    """ONNX LpNormalization: x over its 1- or 2-norm along an axis; 0 where the norm is 0."""
    over = place(axis, x.ndim, node)
    if p not in (1, 2):
        raise refuse(node, f"p = {p}")
    size = x.abs().sum(over, keepdim=True) if p == 1 else x.square().sum(over, keepdim=True).sqrt()
    return (size == 0).where(0, quotient(x, (size == 0).where(1, size)))


@operator("BatchNormalization", since=7)
def batch_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0, spatial: int = 1, *, node: Node,
) -> Any:  # fmt: skip
    """ONNX BatchNormalization along axis 1; in training with the batch's statistics, and the running ones after it."""
    if not spatial or (node.opset < 14 and sum(map(bool, node.outputs)) > 1):
        raise refuse(node, "statistics of other places or in training", "export it with opset 14 or newer")
    axes = [i for i in range(x.ndim) if i != 1]

    def normal(mean: Tensor, variance: Tensor) -> Tensor:
        factor = (variance.cast(dtypes.float32) + epsilon).rsqrt() * scale
        return ((x - spread(mean, x.ndim, 1)) * spread(factor, x.ndim, 1) + spread(bias, x.ndim, 1)).cast(x.dtype)

    if not training_mode:
        return normal(mean, variance)
    wide = x.cast(dtypes.float32)
    now = wide.mean(axes)
    spreading = (wide - spread(now, x.ndim, 1)).square().mean(axes)
    after = (old * momentum + new * (1 - momentum) for old, new in ((mean, now), (variance, spreading)))
    return normal(now, spreading), *(new.cast(mean.dtype) for new in after)


@operator("Dropout", numbers=(1, 2), since=7)
def dropout(x: Tensor, ratio: Any = None, training_mode: Any = False, seed: int | None = None, *, node: Node) -> Any:
    """The tensor itself: what is drawn at random would be another program each time."""
    drawn = 0.5 if ratio is None else number(ratio)
    if number(training_mode) and drawn != 0 and node.opset >= 12:
        raise refuse(node, "in training it is random", "export the model for inference")
    return x, x.const_like(True, dtypes.bool) if node.opset >= 10 else x.const_like(1)


@operator("HannWindow", "HammingWindow", "BlackmanWindow", numbers=(0,))
def window(size: Any, output_datatype: Any = dtypes.float32, periodic: int = 1, *, node: Node) -> Tensor:
    """ONNX HannWindow, HammingWindow, BlackmanWindow: a₀ − a₁·cos + a₂·cos of the double angle."""
    a = {"HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 21 / 46, 0.0), "BlackmanWindow": (0.42, 0.5, 0.08)}
    first, second, third = a[node.operator]
    steps = number(size) if periodic else number(size) - 1
    if steps < 1:
        raise refuse(node, f"a window of {number(size)}")
    angle = Tensor.arange(number(size), dtype=dtypes.float32) * (2 * math.pi / steps)
    return (first - second * angle.cos() + third * (angle * 2).cos()).cast(output_datatype or dtypes.float32)


@operator("Range", numbers=(0, 1, 2), since=11)
def range_(start: Any, limit: Any, delta: Any, *, stash_type: Any = None, node: Node, types: list[Any]) -> Tensor:
    """ONNX Range of numbers that the model fixes: start + n·delta, computed in float32 or int64 and cast."""
    first, last, step = map(number, (start, limit, delta))
    if step == 0:
        raise refuse(node, "a step of 0", "check it with onnx.checker")
    count = max(math.ceil((last - first) / step), 0)
    steps = Tensor.arange(count, dtype=dtypes.int64).cast(dtypes.float32 if dtypes.is_float(types[0]) else dtypes.int64)
    return (steps * step + first).cast(types[0])
