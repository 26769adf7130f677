"""Tensors with operators: what NumPy's arrays do, as far as a program can, written down instead of computed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

from eigentensor.graph import arithmetic as of
from eigentensor.graph import moves
from eigentensor.graph.node import Form, Node, Shape, counter, node
from eigentensor.graph.types import dtype_of, literal, name, number, refused
from eigentensor.program.ops import DType, Op

Operand: TypeAlias = "Tensor | float | NDArray[Any] | Sequence[Any]"
Axes: TypeAlias = int | Sequence[int] | None


def unwrapped(value: Any) -> Any:
    """The node of a tensor, NumPy's scalars as Python's; anything else as it is."""
    if isinstance(value, Tensor):
        return value.node
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def _operator(function: Callable[[Any, Any], Node]) -> Callable[["Tensor", Operand], "Tensor"]:
    return lambda self, other: Tensor(function(self.node, unwrapped(other)))


def _reflected(function: Callable[[Any, Any], Node]) -> Callable[["Tensor", Operand], "Tensor"]:
    return lambda self, other: Tensor(function(unwrapped(other), self.node))


def _both(op: Op) -> tuple[Callable[["Tensor", Operand], "Tensor"], Callable[["Tensor", Operand], "Tensor"]]:
    def function(a: Any, b: Any) -> Node:
        return of.binary(op, a, b)

    return _operator(function), _reflected(function)


def _function(name: str) -> Callable[["Tensor"], "Tensor"]:
    def function(self: "Tensor") -> "Tensor":
        return Tensor(of.function(name, self.node))

    function.__name__, function.__qualname__ = name, f"Tensor.{name}"
    function.__doc__ = f"{name} of each element, a float, as exact as the table of functions in sdk/README.md says."
    return function


class Tensor:
    """A tensor of a graph. Shapes broadcast; a Python number takes the tensor's type, int beside bool and float beside
    integers excepted; integers beside floats become floats. Raises CaptureError, with the line, for what does not fit.
    """

    __slots__ = ("node",)
    __array_ufunc__ = None  # NumPy leaves operators with arrays to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, of_node: Node) -> None:
        self.node = of_node

    @property
    def shape(self) -> Shape:
        """Extents of the axes; all are known when the graph is written."""
        return self.node.shape

    @property
    def dtype(self) -> DType:
        """The type of the elements, one of the format's."""
        return self.node.dtype

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self.node.elements

    @property
    def T(self) -> "Tensor":  # noqa: N802
        """The tensor with its axes in reverse order."""
        return self.transpose()

    def __repr__(self) -> str:
        return f"Tensor({name(self.dtype)}, {self.shape})"

    def __len__(self) -> int:
        if not self.shape:
            raise refused("a tensor of shape () has no length", "Reshape it first.")
        return self.shape[0]

    def __iter__(self) -> Iterator["Tensor"]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        raise refused("the value of a tensor is not known while the graph is written", "Choose with where instead.")

    __add__, __radd__ = _both(Op.ADD)
    __sub__, __rsub__ = _both(Op.SUB)
    __mul__, __rmul__ = _both(Op.MUL)
    __and__, __rand__ = _both(Op.AND)
    __or__, __ror__ = _both(Op.OR)
    __xor__, __rxor__ = _both(Op.XOR)
    __lshift__, __rlshift__ = _both(Op.SHL)
    __rshift__, __rrshift__ = _both(Op.SHR)
    __truediv__, __rtruediv__ = _operator(of.divide), _reflected(of.divide)
    __floordiv__, __rfloordiv__ = _operator(of.floor_divide), _reflected(of.floor_divide)
    __mod__, __rmod__ = _operator(of.remainder), _reflected(of.remainder)
    __pow__, __rpow__ = _operator(of.power), _reflected(of.power)
    __lt__, __gt__ = _both(Op.CMPLT)
    __le__, __ge__ = _operator(of.at_most), _reflected(of.at_most)
    __eq__ = _both(Op.CMPEQ)[0]  # type: ignore[assignment]
    __ne__ = _both(Op.CMPNE)[0]  # type: ignore[assignment]

    def __matmul__(self, other: Operand) -> "Tensor":
        return matmul(self, other)

    def __rmatmul__(self, other: Operand) -> "Tensor":
        return matmul(other, self)

    def __neg__(self) -> "Tensor":
        return Tensor(of.negative(self.node))

    def __pos__(self) -> "Tensor":
        return self

    def __abs__(self) -> "Tensor":
        return maximum(self, -self)

    def __invert__(self) -> "Tensor":
        if self.dtype is DType.BOOL:
            return Tensor(of.is_false(self.node))
        return self ^ (-1 if self.dtype.is_signed else (1 << 8 * self.dtype.size) - 1)

    def __getitem__(self, key: Any) -> "Tensor":
        parts = tuple(unwrapped(part) for part in key) if isinstance(key, tuple) else unwrapped(key)
        return Tensor(moves.indexed(self.node, parts))

    def take(self, indices: Operand, axis: int = 0) -> "Tensor":
        """The parts at these indices along an axis; zeros where an index is negative or too large."""
        return Tensor(moves.gather(self.node, node_of(indices), moves.axis_of(axis, self.ndim)))

    def reshape(self, *shape: int | Sequence[int]) -> "Tensor":
        """The same elements in row-major order in another shape; one extent may be -1."""
        return Tensor(moves.reshape(self.node, _spread(shape)))

    def transpose(self, *axes: int | Sequence[int]) -> "Tensor":
        """The axes in this order; reversed if none are named."""
        return Tensor(moves.permute(self.node, _spread(axes) or range(self.ndim)[::-1]))

    def swapaxes(self, a: int, b: int) -> "Tensor":
        """Two axes in each other's place."""
        order = list(range(self.ndim))
        a, b = moves.axis_of(a, self.ndim), moves.axis_of(b, self.ndim)
        order[a], order[b] = b, a
        return Tensor(moves.permute(self.node, order))

    def broadcast_to(self, shape: Sequence[int]) -> "Tensor":
        """The tensor repeated to a shape, by NumPy's rules."""
        return Tensor(moves.broadcast(self.node, tuple(shape)))

    def pad(self, widths: Sequence[tuple[int, int]], value: float = 0) -> "Tensor":
        """`(before, after)` elements of `value` for each axis."""
        padded = Tensor(moves.pad(self.node, widths))
        if not value:
            return padded
        inside = Tensor(moves.pad(number(True, DType.BOOL, self.shape), widths))
        return where(inside, padded, value)

    def repeat(self, count: int, axis: int | None = None) -> "Tensor":
        """Each element, or each part along an axis, so often in a row; without an axis of the flat tensor."""
        if axis is None:
            return self.reshape(-1).repeat(count, 0)
        return Tensor(moves.repeat(self.node, count, moves.axis_of(axis, self.ndim)))

    def tile(self, *counts: int | Sequence[int]) -> "Tensor":
        """The whole so often along each axis; the counts are those of the last axes, or new axes come first."""
        return Tensor(moves.tile(self.node, _spread(counts)))

    def tril(self, k: int = 0) -> "Tensor":
        """Zeros above the k-th diagonal of the last two axes."""
        return Tensor(of.triangle(self.node, None, k))

    def triu(self, k: int = 0) -> "Tensor":
        """Zeros below the k-th diagonal of the last two axes."""
        return Tensor(of.triangle(self.node, k, None))

    def fill(self, value: float) -> "Tensor":
        """The value in this shape and type. NumPy's array is changed; a tensor never is."""
        return Tensor(number(unwrapped(value), self.dtype, self.shape))

    def flip(self, axis: Axes = None) -> "Tensor":
        """The elements in reverse order along some axes; by default along all."""
        return Tensor(node(Form.FLIP, self.node, arg=moves.axes_of(axis, self.ndim)))

    def windows(self, size: int, stride: int = 1, axis: int = -1) -> "Tensor":
        """All spans of `size` along an axis, `stride` apart; the steps within a span become the last axis."""
        return Tensor(moves.windows(self.node, size, stride, moves.axis_of(axis, self.ndim)))

    def astype(self, dtype: Any) -> "Tensor":
        """Rounded to nearest even; floats to integers towards zero, saturating, NaN to 0."""
        return Tensor(of.cast(self.node, dtype_of(dtype)))

    def view(self, dtype: Any) -> "Tensor":
        """The same bits as another type of that width."""
        kind = dtype_of(dtype)
        if kind.size != self.dtype.size or DType.BOOL in (kind, self.dtype):
            raise refused(f"{name(self.dtype)} has not the bits of {name(kind)}", "Convert with astype.")
        return Tensor(node(Op.BITCAST, self.node, arg=kind) if kind is not self.dtype else self.node)

    def contiguous(self) -> "Tensor":
        """The same, computed once and stored: whoever uses it loads it."""
        return Tensor(node(Form.CONTIGUOUS, self.node))

    def sum(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Half types are summed in float32 and rounded once; narrow integers and bools in 32 bits."""
        return Tensor(of.total(Op.REDUCE_ADD, self.node, axis, keepdims))

    def prod(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """The product along axes, in row-major order; half types in float32, rounded once, and narrow integers in 32
        bits."""
        return Tensor(of.total(Op.REDUCE_MUL, self.node, axis, keepdims))

    def max(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """The largest element along axes; NaN where there is one, and −0 is below 0."""
        return Tensor(of.reduced(Op.REDUCE_MAX, self.node, axis, keepdims))

    def min(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """The smallest element along axes; NaN where there is one, and −0 is below 0."""
        return Tensor(of.reduced(Op.REDUCE_MIN, self.node, axis, keepdims))

    def any(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Whether an element along axes is not zero."""
        return self.astype(bool).max(axis, keepdims)

    def all(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """Whether no element along axes is zero."""
        return self.astype(bool).min(axis, keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """The sum along axes times 1/n, a float. Raises CaptureError for no elements."""
        return Tensor(of.mean(self.node, axis, keepdims))

    def var(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """The mean square of the distance from the mean along axes: divided by n, not by n − 1."""
        centred = self - self.mean(axis, keepdims=True)
        return (centred * centred).mean(axis, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> "Tensor":
        """The first place of the largest element, or of a NaN, as an int32."""
        return self._place(self.max(axis, keepdims=True), axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> "Tensor":
        """The first place of the smallest element, or of a NaN, as an int32."""
        return self._place(self.min(axis, keepdims=True), axis, keepdims)

    def _place(self, best: "Tensor", axis: int | None, keepdims: bool) -> "Tensor":
        if axis is None:
            place = self.reshape(-1)._place(best.reshape(1), 0, False)
            return place.reshape((1,) * self.ndim) if keepdims else place
        axis = moves.axis_of(axis, self.ndim)
        is_best = (self == best) | (self != self) if self.dtype.is_float else self == best
        extent = self.shape[axis]
        fromend = extent - Tensor(counter(self.shape, axis))
        return extent - where(is_best, fromend, 0).max(axis, keepdims)

    def sqrt(self) -> "Tensor":
        """The square root, correctly rounded; NaN of what is negative."""
        return Tensor(of.unary(Op.SQRT, self.node))

    def reciprocal(self) -> "Tensor":
        """One over each element, correctly rounded."""
        return Tensor(of.unary(Op.RECIPROCAL, self.node))

    def rsqrt(self) -> "Tensor":
        """1/√x, each rounded."""
        return self.sqrt().reciprocal()

    def floor(self) -> "Tensor":
        """The largest whole number that is not above each element, in the same type."""
        return Tensor(of.floor(self.node))

    def ceil(self) -> "Tensor":
        """The smallest whole number that is not below each element, in the same type."""
        return -Tensor(of.floor((-self).node)) if self.dtype.is_float else self

    def trunc(self) -> "Tensor":
        """Each element without its fraction, in the same type."""
        return Tensor(of.unary(Op.TRUNC, self.node)) if self.dtype.is_float else self

    exp, exp2, expm1 = _function("exp"), _function("exp2"), _function("expm1")
    log, log2, log10, log1p = _function("log"), _function("log2"), _function("log10"), _function("log1p")
    sin, cos, tan = _function("sin"), _function("cos"), _function("tan")
    asin, acos, atan = _function("asin"), _function("acos"), _function("atan")
    sinh, cosh, tanh = _function("sinh"), _function("cosh"), _function("tanh")
    asinh, acosh, atanh = _function("asinh"), _function("acosh"), _function("atanh")
    erf, sigmoid, softplus = _function("erf"), _function("sigmoid"), _function("softplus")
    silu, mish, gelu, gelu_tanh = _function("silu"), _function("mish"), _function("gelu"), _function("gelu_tanh")

    def relu(self) -> "Tensor":
        """Each element, or 0 where it is negative; NaN stays."""
        return maximum(self, 0)

    def clip(self, low: Operand, high: Operand) -> "Tensor":
        """Each element moved into low…high; `high` where low is above it."""
        return minimum(maximum(self, low), high)

    def softmax(self, axis: int = -1) -> "Tensor":
        """Powers of e that add up to 1 along an axis; the maximum is subtracted first, so that none overflows."""
        power = (self - self.max(axis, keepdims=True)).exp()
        return power / power.sum(axis, keepdims=True)

    def log_softmax(self, axis: int = -1) -> "Tensor":
        """The logarithm of `softmax`, from the sum of powers: it does not go through numbers that underflow."""
        below = self - self.max(axis, keepdims=True)
        return below - below.exp().sum(axis, keepdims=True).log()

    def layernorm(self, axis: Axes = -1, eps: float = 1e-5) -> "Tensor":
        """Each element less the mean, over √(variance + eps), along axes; without scale and bias."""
        centred = self - self.mean(axis, keepdims=True)
        return centred / ((centred * centred).mean(axis, keepdims=True) + eps).sqrt()


def _spread(values: tuple[Any, ...]) -> Sequence[int]:
    return values[0] if len(values) == 1 and not isinstance(values[0], int) else values


def node_of(value: Operand) -> Node:
    """The node of an operand; arrays and numbers stand in the program."""
    operand = unwrapped(value)
    return operand if isinstance(operand, Node) else literal(operand)


def matmul(a: Operand, b: Operand) -> Tensor:
    """NumPy's `a @ b`: rows times columns over the last two axes, broadcast over those before."""
    return Tensor(of.matmul(node_of(a), node_of(b)))


def maximum(a: Operand, b: Operand) -> Tensor:
    """The larger one; NaN where one is NaN."""
    return Tensor(of.binary(Op.MAX, *_two(a, b)))


def minimum(a: Operand, b: Operand) -> Tensor:
    """The smaller one; NaN where one is NaN."""
    return Tensor(of.binary(Op.MIN, *_two(a, b)))


def where(condition: Operand, a: Operand, b: Operand) -> Tensor:
    """`a` where the condition holds, else `b`, broadcast to one shape."""
    return Tensor(of.choice(node_of(condition), *_two(a, b)))


def _two(a: Operand, b: Operand) -> tuple[Any, Any]:
    first, second = unwrapped(a), unwrapped(b)
    return (first, second) if isinstance(first, Node) or isinstance(second, Node) else (literal(first), second)
