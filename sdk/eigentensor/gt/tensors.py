"""Tensors that work like PyTorch's: operators are recorded, and computed when somebody looks at a result."""

import operator
from collections.abc import Callable, Iterator, Sequence
from math import prod
from threading import local
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import BindingError, CaptureError
from eigentensor.gt.connection import recorder
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.stream.gradients import RULES, Leaf, Origin, Step, differentiate
from eigentensor.stream.operations import encoded, subscript, user_line
from eigentensor.stream.recorder import Recorder, Value

Operand: TypeAlias = "Tensor | float | NDArray[Any] | Sequence[Any]"
Axes: TypeAlias = int | Sequence[int] | None
#: GT's names of types.
DTYPES = {
    "float32": DType.FLOAT32, "float16": DType.FLOAT16, "int32": DType.INT32, "int64": DType.INT64, "bool": DType.BOOL,
    "uint8": DType.UINT8, "int8": DType.INT8, "uint32": DType.UINT32,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class _Taping(local):
    """Whether what a thread does is remembered for gradients."""

    on = True


taping = _Taping()


class no_grad:  # noqa: N801 - PyTorch's name
    """What is done within, in this thread, leads to no gradient."""

    def __enter__(self) -> None:
        self._before, taping.on = taping.on, False

    def __exit__(self, *_: object) -> None:
        taping.on = self._before


def type_named(dtype: Any) -> DType:
    """The type by GT's or NumPy's name of it. Raises CaptureError for what programs do not have, float64 say."""
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    if name not in DTYPES:
        fix = "Use float32." if name == "float64" else f"Use one of {', '.join(DTYPES)}."
        raise CaptureError(f"{name} is no type of these tensors", fix=fix, line=user_line())
    return DTYPES[name]


def _elementwise(op: str, meaning: str) -> Callable[["Tensor"], "Tensor"]:
    def function(self: "Tensor") -> "Tensor":
        return record(op, None, self)

    function.__name__, function.__qualname__, function.__doc__ = op, f"Tensor.{op}", meaning
    return function


class Data:
    """The elements of a tensor, apart from its gradient."""

    def __init__(self, of: "Tensor") -> None:
        self._of = of
        self.shape, self.dtype = of.shape, of.dtype

    def numpy(self) -> NDArray[Any]:
        """A copy as an array."""
        return self._of.numpy()

    def __repr__(self) -> str:
        return repr(self.numpy())


class Tensor:
    """A tensor of the session. Operators broadcast and promote as those of `eigentensor.graph.Tensor`; gradients are
    PyTorch's. Mistakes are CaptureErrors with the line; what fails later raises where a result is looked at."""

    __slots__ = ("__weakref__", "_origin", "_value")
    __array_ufunc__ = None  # NumPy leaves operators with arrays to this class

    def __init__(self, value: Value, origin: Origin = None) -> None:
        self._value = value
        self._origin = origin

    @property
    def id(self) -> int:
        """A number that no other tensor has as long as this one lives."""
        return id(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the axes."""
        return self._value.kind.shape

    @property
    def dtype(self) -> str:
        """The name of the type of the elements, "float32" say."""
        return _NAMES[self._value.kind.dtype]

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return prod(self.shape)

    @property
    def data(self) -> Data:
        """The elements, to look at."""
        return Data(self)

    @property
    def T(self) -> "Tensor":  # noqa: N802
        """The tensor with its axes in reverse order."""
        return self.permute(*range(self.ndim)[::-1])

    @property
    def requires_grad(self) -> bool:
        """Whether gradients of what is computed from this tensor are wanted."""
        return self._origin is not None

    @property
    def grad(self) -> "Tensor | None":
        """What `backward` has added up so far, for a tensor that was made with `requires_grad`; else None."""
        leaf = self._origin
        if not isinstance(leaf, Leaf) or leaf.gradient is None:
            return None
        return _Gradient(leaf)

    @grad.setter
    def grad(self, gradient: "Tensor | None") -> None:
        if not isinstance(self._origin, Leaf):
            raise _refused("only a tensor made with requires_grad keeps a gradient", "Look at the leaves.")
        self._origin.gradient = None if gradient is None else gradient._value

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Asks for the gradient of this tensor, or no longer; gives the tensor itself."""
        if requires_grad and self._origin is None:
            if not self._value.kind.dtype.is_float:
                raise _refused(f"a tensor of {self.dtype} has no gradient", "Make it float32.")
            self._origin = Leaf()
        if not requires_grad:
            self._origin = None
        return self

    def detach(self) -> "Tensor":
        """The same elements, without gradients."""
        return Tensor(self._value)

    def clone(self) -> "Tensor":
        """The same elements, and gradients through them; what is changed in place later leaves it as it is."""
        return repeated(self)

    def numpy(self) -> NDArray[Any]:
        """The elements as an array of the caller's own; what is missing is computed first."""
        return np.array(recorder().read(self._value))

    def tolist(self) -> Any:
        """The elements as nested lists of Python's numbers."""
        return self.numpy().tolist()

    def item(self) -> Any:
        """The only element as a Python number."""
        if self.size != 1:
            raise _refused(f"a tensor of shape {self.shape} is not one number", "Reduce it first, or use numpy().")
        return recorder().read(self._value).reshape(-1)[0].item()

    def backward(self, gradient: "Tensor | None" = None) -> None:
        """Adds the gradient of this tensor to that of each tensor with `requires_grad` it was computed from.

        Without `gradient` it must be one number. Raises CaptureError otherwise, and where there is nothing to derive;
        ExecutionError if its gradient was taken before.
        """
        if self._origin is None:
            raise _refused("this tensor was computed from none with requires_grad", "Make one with requires_grad=True.")
        if gradient is None and self.size != 1:
            raise _refused(
                f"the gradient of a tensor of shape {self.shape} is no number", "Sum it, or give a gradient."
            )
        if gradient is not None and gradient.shape != self.shape:
            raise _refused(f"a gradient of shape {gradient.shape} for {self.shape}", "Give one of the tensor's shape.")
        own = recorder()
        kind = self._value.kind
        seed = own.emit("full", (kind.shape, kind.dtype, encoded(1.0))) if gradient is None else gradient._value
        differentiate(own, self._origin, seed)

    def __repr__(self) -> str:
        text = np.array2string(self.numpy(), separator=", ", prefix="Tensor(")
        return f"Tensor({text}, dtype={self.dtype}{', requires_grad=True' if self.requires_grad else ''})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor of shape () has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator["Tensor"]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __hash__(self) -> int:
        return id(self)

    def __add__(self, other: Operand) -> "Tensor":
        return between("add", self, other)

    def __radd__(self, other: Operand) -> "Tensor":
        return between("add", other, self)

    def __sub__(self, other: Operand) -> "Tensor":
        return between("sub", self, other)

    def __rsub__(self, other: Operand) -> "Tensor":
        return between("sub", other, self)

    def __mul__(self, other: Operand) -> "Tensor":
        return between("mul", self, other)

    def __rmul__(self, other: Operand) -> "Tensor":
        return between("mul", other, self)

    def __truediv__(self, other: Operand) -> "Tensor":
        return between("div", self, other)

    def __rtruediv__(self, other: Operand) -> "Tensor":
        return between("div", other, self)

    def __floordiv__(self, other: Operand) -> "Tensor":
        return between("floordiv", self, other)

    def __rfloordiv__(self, other: Operand) -> "Tensor":
        return between("floordiv", other, self)

    def __mod__(self, other: Operand) -> "Tensor":
        return between("mod", self, other)

    def __rmod__(self, other: Operand) -> "Tensor":
        return between("mod", other, self)

    def __pow__(self, other: Operand) -> "Tensor":
        return between("pow", self, other)

    def __rpow__(self, other: Operand) -> "Tensor":
        return between("pow", other, self)

    def __matmul__(self, other: Operand) -> "Tensor":
        return record("matmul", None, self, tensor_of(other))

    def __rmatmul__(self, other: Operand) -> "Tensor":
        return record("matmul", None, tensor_of(other), self)

    def __and__(self, other: Operand) -> "Tensor":
        return between("and", self, other)

    def __or__(self, other: Operand) -> "Tensor":
        return between("or", self, other)

    def __xor__(self, other: Operand) -> "Tensor":
        return between("xor", self, other)

    def __lt__(self, other: Operand) -> "Tensor":
        return between("lt", self, other)

    def __gt__(self, other: Operand) -> "Tensor":
        return between("lt", other, self)

    def __le__(self, other: Operand) -> "Tensor":
        return between("le", self, other)

    def __ge__(self, other: Operand) -> "Tensor":
        return between("le", other, self)

    def __eq__(self, other: object) -> "Tensor":  # type: ignore[override]
        return NotImplemented if other is None or isinstance(other, str) else between("eq", self, cast(Operand, other))

    def __ne__(self, other: object) -> "Tensor":  # type: ignore[override]
        return NotImplemented if other is None or isinstance(other, str) else between("ne", self, cast(Operand, other))

    def __neg__(self) -> "Tensor":
        return record("neg", None, self)

    def __pos__(self) -> "Tensor":
        return self

    def __abs__(self) -> "Tensor":
        return record("abs", None, self)

    def __invert__(self) -> "Tensor":
        return record("not", None, self)

    def __iadd__(self, other: Operand) -> "Tensor":
        return self._changed("add", other)

    def __isub__(self, other: Operand) -> "Tensor":
        return self._changed("sub", other)

    def __imul__(self, other: Operand) -> "Tensor":
        return self._changed("mul", other)

    def __itruediv__(self, other: Operand) -> "Tensor":
        return self._changed("div", other)

    def __getitem__(self, key: Any) -> "Tensor":
        if isinstance(key, Tensor) and key._value.kind.dtype.is_integer:
            return record("rows", None, self, key)
        if any(isinstance(part, Tensor) for part in (key if isinstance(key, tuple) else (key,))):
            fix = "Index by one tensor of integers alone, which takes rows; choose with gt.where."
            raise _refused("a tensor is no index here", fix)
        try:
            arg = subscript(key)
        except CaptureError as error:
            raise _refused(error.reason, error.fix) from None
        return record("index", arg, self)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise _refused("a part of a tensor is not assigned to", "Choose with gt.where, or join parts with gt.cat.")

    def _changed(self, op: str, other: Operand) -> "Tensor":
        """In place: the tensor is another value from here on. Of a tensor made with `requires_grad` the elements are
        changed, as a step of training does, and no gradient goes through that."""
        if isinstance(self._origin, Leaf):
            with no_grad():
                result = between(op, self, other)
        else:
            result = between(op, self, other)
            self._origin = result._origin
        self._set(result._value, op)
        return self

    def _set(self, value: Value, what: str) -> None:
        if value.kind is not self._value.kind:
            raise _refused(f"in place, {what} makes {value.kind} of {self._value.kind}", "Write x = x … instead.")
        self._value = value

    def zero_(self) -> "Tensor":
        """Makes all elements zero, in place."""
        return self.fill_(0)

    def fill_(self, value: float) -> "Tensor":
        """Makes all elements this number, in place."""
        kind = self._value.kind
        self._set(recorder().emit("full", (kind.shape, kind.dtype, encoded(value))), "fill_")
        self._origin = self._origin if isinstance(self._origin, Leaf) else None
        return self

    def copy_(self, other: Operand) -> "Tensor":
        """Takes the elements of another tensor of the same shape and type, in place."""
        source = tensor_of(other)
        self._set(source._value, "copy_")
        self._origin = self._origin if isinstance(self._origin, Leaf) else source._origin
        return self

    def matmul(self, other: Operand) -> "Tensor":
        """`self @ other`."""
        return self @ other

    def pow(self, exponent: Operand) -> "Tensor":
        """`self ** exponent`."""
        return self**exponent

    exp = _elementwise("exp", "e to the power of each element.")
    log = _elementwise("log", "The natural logarithm of each element.")
    sqrt = _elementwise("sqrt", "The square root of each element.")
    abs = _elementwise("abs", "Each element without its sign.")
    sin = _elementwise("sin", "The sine of each element.")
    cos = _elementwise("cos", "The cosine of each element.")
    relu = _elementwise("relu", "Each element, or 0 where it is negative.")
    sigmoid = _elementwise("sigmoid", "1/(1 + e⁻ˣ) of each element.")
    tanh = _elementwise("tanh", "The hyperbolic tangent of each element.")
    gelu = _elementwise("gelu", "x·Φ(x) of each element, exactly, without the approximation by tanh.")
    silu = _elementwise("silu", "x·sigmoid(x) of each element.")
    softplus = _elementwise("softplus", "log(1 + eˣ) of each element.")
    reciprocal = _elementwise("reciprocal", "One over each element.")

    def softmax(self, axis: int = -1) -> "Tensor":
        """Powers of e that add up to 1 along an axis."""
        power = (self - self.max(axis, keepdims=True).detach()).exp()
        return power / power.sum(axis, keepdims=True)

    def log_softmax(self, axis: int = -1) -> "Tensor":
        """The logarithm of `softmax`, from the sum of powers."""
        below = self - self.max(axis, keepdims=True).detach()
        return below - below.exp().sum(axis, keepdims=True).log()

    def clip(self, low: float, high: float) -> "Tensor":
        """Each element moved into low…high."""
        return between("minimum", between("maximum", self, low), high)

    def sum(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """The sum along axes, by default along all."""
        return record("sum", (_axes(axis), keepdims), self)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """The mean along axes, by default along all."""
        return record("mean", (_axes(axis), keepdims), self)

    def max(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """The largest element along axes; of several, each has its share of the gradient."""
        return record("max", (_axes(axis), keepdims), self)

    def min(self, axis: Axes = None, keepdims: bool = False) -> "Tensor":
        """The smallest element along axes; of several, each has its share of the gradient."""
        return record("min", (_axes(axis), keepdims), self)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> "Tensor":
        """The first place of the largest element, an int32."""
        return record("argmax", (axis, keepdims), self)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> "Tensor":
        """The first place of the smallest element, an int32."""
        return record("argmin", (axis, keepdims), self)

    def reshape(self, *shape: int | Sequence[int]) -> "Tensor":
        """The same elements in row-major order in another shape; one extent may be -1."""
        return record("reshape", whole_numbers(shape), self)

    def view(self, *shape: int | Sequence[int]) -> "Tensor":
        """As `reshape`: tensors never share elements."""
        return self.reshape(*shape)

    def flatten(self) -> "Tensor":
        """All elements along one axis."""
        return self.reshape(-1)

    def expand(self, *shape: int | Sequence[int]) -> "Tensor":
        """The tensor repeated to a shape, by the rules of broadcasting."""
        return record("expand", whole_numbers(shape), self)

    def unsqueeze(self, dim: int) -> "Tensor":
        """Another axis of extent 1 at this place."""
        place = _place(dim, self.ndim + 1)
        return self.reshape(*self.shape[:place], 1, *self.shape[place:])

    def squeeze(self, dim: int | None = None) -> "Tensor":
        """Without this axis if its extent is 1; by default without all of them."""
        gone = {_place(dim, self.ndim)} if dim is not None else set(range(self.ndim))
        shape = tuple(e for axis, e in enumerate(self.shape) if axis not in gone or e != 1)
        return record("reshape", shape, self)

    def transpose(self, dim0: int = -2, dim1: int = -1) -> "Tensor":
        """Two axes in each other's place, by default the last two."""
        order = list(range(self.ndim))
        first, second = _place(dim0, self.ndim), _place(dim1, self.ndim)
        order[first], order[second] = second, first
        return self.permute(*order)

    def permute(self, *dims: int | Sequence[int]) -> "Tensor":
        """The axes in this order."""
        return record("permute", whole_numbers(dims), self)

    def flip(self, *dims: int | Sequence[int]) -> "Tensor":
        """The elements in reverse order along these axes."""
        return record("flip", whole_numbers(dims), self)

    def pad(self, widths: Sequence[tuple[int, int]]) -> "Tensor":
        """Zeros: so many before and after along each axis."""
        return record("pad", tuple(whole_numbers(pair) for pair in widths), self)

    def split(self, size: int, dim: int = 0) -> list["Tensor"]:
        """Parts of this extent along an axis; the last one may be shorter."""
        if size < 1:
            raise _refused(f"parts of extent {size}", "Give at least 1.")
        axis = _place(dim, self.ndim)
        whole = (slice(None),) * axis
        return [self[(*whole, slice(start, start + size))] for start in range(0, self.shape[axis], size)]

    def chunk(self, chunks: int, dim: int = 0) -> list["Tensor"]:
        """At most so many parts along an axis, as equal as they can be."""
        extent = self.shape[_place(dim, self.ndim)]
        return self.split(-(-extent // max(chunks, 1)) or 1, dim)

    def astype(self, dtype: Any) -> "Tensor":
        """The elements in another type."""
        return record("cast", type_named(dtype), self)


class _Gradient(Tensor):
    """The gradient of a leaf: what is changed in place in it, is changed there."""

    __slots__ = ("_leaf",)

    def __init__(self, leaf: Leaf) -> None:
        assert leaf.gradient is not None
        super().__init__(leaf.gradient)
        self._leaf = leaf

    def _set(self, value: Value, what: str) -> None:
        super()._set(value, what)
        self._leaf.gradient = value


def _refused(reason: str, fix: str) -> CaptureError:
    return CaptureError(reason, fix=fix, line=user_line())


def whole_numbers(values: Sequence[Any]) -> tuple[int, ...]:
    """Whole numbers, given one by one or as one sequence. Raises CaptureError, with the line, for anything else."""
    given = values if len(values) != 1 or hasattr(values[0], "__index__") else values[0]
    try:
        return tuple(map(operator.index, given))
    except TypeError:
        raise _refused(f"{given!r} are no whole numbers", "Give integers.") from None


def _axes(axis: Axes) -> Axes:
    return None if axis is None else whole_numbers((axis,))


def _place(dim: int, rank: int) -> int:
    (dim,) = whole_numbers((dim,))
    if not -rank <= dim < rank:
        raise _refused(f"there is no axis {dim} of {rank}", "Count axes from 0, or from the end with -1.")
    return dim % rank


_VALUE = operator.attrgetter("_value")


def record(op: str, arg: Any, *operands: Tensor) -> Tensor:
    """An instruction on tensors, remembered if it leads to one whose gradient is wanted."""
    own = recorder()
    value = own.emit(op, arg, *map(_VALUE, operands))
    for operand in operands:
        if operand._origin is not None:
            return Tensor(value, _step(own, op, arg, value, operands))
    return Tensor(value)


def _step(own: Recorder, op: str, arg: Any, value: Value, operands: Sequence[Tensor]) -> Step | None:
    if not (taping.on and value.kind.dtype.is_float and op in RULES):
        return None
    values, below = [operand._value for operand in operands], [operand._origin for operand in operands]
    return Step(op, arg, values, value, below, own.scope.backward)


def between(op: str, a: Operand, b: Operand) -> Tensor:
    """An operation of two tensors, or of one and a number."""
    if isinstance(a, Tensor):
        if isinstance(b, Tensor):
            return record(op, None, a, b)
        if isinstance(b, int | float):
            return record(op, (1, encoded(b)), a)
    elif isinstance(a, int | float) and isinstance(b, Tensor):
        return record(op, (0, encoded(a)), b)
    return record(op, None, tensor_of(a), tensor_of(b))


def repeated(x: Tensor) -> Tensor:
    """The same elements once more."""
    return record("reshape", x.shape, x)


def tensor_of(value: Operand) -> Tensor:
    """A tensor as it is; arrays as new ones, lists and numbers too, as float32 or int32."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    if not isinstance(value, np.ndarray | np.generic):
        array = array.astype({"float64": np.float32, "int64": np.int32}.get(array.dtype.name, array.dtype))
    return placed(array, type_named(array.dtype))


def placed(values: Any, dtype: DType) -> Tensor:
    """A new tensor of these elements, copied, in this type. Raises BindingError for what are no elements of it."""
    try:
        elements = np.array(values, STORAGE[dtype], order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise BindingError(
            f"no tensor of {_NAMES[dtype]}: {error}", fix="Give numbers, all rows equally long."
        ) from None
    return Tensor(recorder().put(elements, dtype))
