"""Gradients as instructions: each instruction that leads to a tensor which wants one remembers its operands."""

from collections.abc import Callable, Iterator, Sequence
from math import log, prod
from typing import Any, ClassVar

from eigentensor.errors import ExecutionError
from eigentensor.graph.moves import axes_of
from eigentensor.stream.operations import decoded, encoded
from eigentensor.stream.recorder import Recorder, Value

Gradients = Sequence[Value | None]
Rule = Callable[["Derivation", "Step", Value], Gradients]


class Leaf:
    """A tensor that wants a gradient and was not computed: what arrives is added up."""

    __slots__ = ("gradient",)
    below: ClassVar[tuple[()]] = ()

    def __init__(self) -> None:
        self.gradient: Value | None = None


class Step:
    """An instruction on the way from leaves to a result; `below` are the leaves and steps of its operands.

    Operands are let go once its gradient was taken, so that no more is stored than somebody needs.
    """

    __slots__ = ("arg", "below", "op", "operands", "result", "signal")

    def __init__(
        self, op: str, arg: Any, operands: Sequence[Value], result: Value, below: Sequence["Origin"], signal: str | None
    ) -> None:
        self.op, self.arg, self.signal = op, arg, signal
        self.operands: Sequence[Value] | None = operands
        self.result: Value | None = result
        self.below = below


Origin = Leaf | Step | None


def differentiate(recorder: Recorder, origin: Leaf | Step, seed: Value) -> None:
    """Adds to every leaf below an origin the gradient of it: `seed` is that of the origin itself.

    Raises ExecutionError if a step on the way has let its operands go: its gradient was taken before.
    """
    with recorder.within(None):
        _differentiate(recorder, origin, seed)


def _differentiate(recorder: Recorder, origin: Leaf | Step, seed: Value) -> None:
    arrived: dict[Leaf | Step, Value] = {origin: seed}
    derivation, scope = Derivation(recorder), recorder.scope
    for at in _from_above(origin):
        gradient = arrived.pop(at, None)
        if gradient is None:
            continue
        if isinstance(at, Leaf):
            at.gradient = gradient if at.gradient is None else recorder.emit("add", None, at.gradient, gradient)
            continue
        if at.operands is None:
            raise ExecutionError(
                f"the gradient through this {at.op} was taken already, and what it needs was let go",
                fix="Call backward once on the sum of all losses, or compute the loss anew.",
            )
        scope.signal = scope.backward = at.signal
        for below, part in zip(at.below, RULES[at.op](derivation, at, gradient), strict=True):
            if below is not None and part is not None:
                before = arrived.get(below)
                arrived[below] = part if before is None else recorder.emit("add", None, before, part)
        at.operands = at.result = None
        at.below = ()


def _from_above(origin: Leaf | Step) -> Iterator[Leaf | Step]:
    """Everything below an origin that gradients arrive at, each after all that it is used by."""
    order: list[Leaf | Step] = []
    seen = set[Leaf | Step]()
    stack: list[Leaf | Step | None] = [origin]
    while stack:
        at = stack.pop()
        if at is None:  # all below the next one is in order
            order.append(stack.pop())  # type: ignore[arg-type]
        elif at not in seen:
            seen.add(at)
            stack += (at, None)
            stack += [below for below in at.below if below is not None and below not in seen]
    return reversed(order)


class Derivation:
    """What rules are written with: instructions, and numbers beside tensors."""

    def __init__(self, recorder: Recorder) -> None:
        self.emit = recorder.emit

    def __call__(self, op: str, a: Value | float, b: Value | float) -> Value:
        """An operation of two tensors, or of one and a number."""
        if isinstance(a, Value):
            return self.emit(op, None, a, b) if isinstance(b, Value) else self.emit(op, (1, encoded(b)), a)
        assert isinstance(b, Value)
        return self.emit(op, (0, encoded(a)), b)

    def fitted(self, gradient: Value, to: Value) -> Value:
        """A gradient in the shape and type of what was broadcast: summed where it was repeated."""
        have, want = gradient.kind.shape, to.kind.shape
        if have != want:
            new = len(have) - len(want)
            axes = tuple(a for a, e in enumerate(have) if a < new or (want[a - new] == 1 and e != 1))
            if axes:
                gradient = self.emit("sum", (axes, False), gradient)
            if gradient.kind.shape != want:
                gradient = self.emit("reshape", want, gradient)
        return gradient if gradient.kind.dtype is to.kind.dtype else self.emit("cast", to.kind.dtype, gradient)

    def spread(self, gradient: Value, arg: tuple[Any, bool], to: Value) -> Value:
        """The gradient of a reduction, repeated along the axes that went away."""
        axes, keeps = arg
        shape = to.kind.shape
        if not keeps and gradient.kind.shape:
            gone = axes_of(axes, len(shape))
            kept = tuple(1 if a in gone else e for a, e in enumerate(shape))
            gradient = self.emit("reshape", kept, gradient)
        return self.emit("expand", shape, gradient)

    def chosen(self, condition: Value, gradient: Value) -> Value:
        """The gradient where a condition holds, else zero."""
        return self.emit("where", (2, encoded(0.0)), condition, gradient)

    def transposed(self, x: Value) -> Value:
        """A matrix, or each of several, with its last two axes in each other's place."""
        rank = len(x.kind.shape)
        return self.emit("permute", (*range(rank - 2), rank - 1, rank - 2), x)


def _both(step: Step) -> tuple[Value | float, Value | float]:
    """The two operands of an operation, one of which may be a number."""
    assert step.operands is not None
    if step.arg is None:
        first, second = step.operands
        return first, second
    place, number = step.arg
    return (decoded(number), step.operands[0]) if place == 0 else (step.operands[0], decoded(number))


def _one(step: Step) -> Value:
    assert step.operands is not None
    return step.operands[0]


def _result(step: Step) -> Value:
    assert step.result is not None
    return step.result


def _parts(d: Derivation, step: Step, first: Callable[[], Value], second: Callable[[], Value]) -> Gradients:
    """The gradients of an operation's operands, of those that are tensors and want one, in their shapes."""
    makers = [first, second] if step.arg is None else [first if step.arg[0] == 1 else second]
    assert step.operands is not None
    triples = zip(makers, step.operands, step.below, strict=True)
    return [None if below is None else d.fitted(make(), operand) for make, operand, below in triples]


def _add(d: Derivation, step: Step, g: Value) -> Gradients:
    return _parts(d, step, lambda: g, lambda: g)


def _sub(d: Derivation, step: Step, g: Value) -> Gradients:
    return _parts(d, step, lambda: g, lambda: d.emit("neg", None, g))


def _mul(d: Derivation, step: Step, g: Value) -> Gradients:
    a, b = _both(step)
    return _parts(d, step, lambda: d("mul", g, b), lambda: d("mul", g, a))


def _div(d: Derivation, step: Step, g: Value) -> Gradients:
    _, b = _both(step)
    quotient = _result(step)
    return _parts(d, step, lambda: d("div", g, b), lambda: d.emit("neg", None, d("div", d("mul", g, quotient), b)))


def _pow(d: Derivation, step: Step, g: Value) -> Gradients:
    a, b = _both(step)

    def of_base() -> Value:
        if not isinstance(b, Value):
            if b == 0:
                return d("mul", g, 0.0)
            return d("mul", g, d("mul", a if b == 2 else d("pow", a, b - 1), float(b)))
        return d("mul", g, d("mul", b, d("pow", a, d("sub", b, 1.0))))

    def of_exponent() -> Value:
        power = _result(step)
        logarithm = d.emit("log", None, a) if isinstance(a, Value) else _logarithm(a)
        return d("mul", g, d("mul", power, logarithm))

    return _parts(d, step, of_base, of_exponent)


def _logarithm(number: float) -> float:
    return log(number) if number > 0 else float("nan") if number < 0 else float("-inf")


def _extreme(d: Derivation, step: Step, g: Value) -> Gradients:
    """The larger one, or the smaller one, has the gradient; of equal ones each half."""
    a, b = _both(step)
    result = _result(step)

    def share(mine: Value | float) -> Value:
        halved = d.emit("where", None, d("eq", a, b), d("mul", g, 0.5), g)
        return d.chosen(d("eq", result, mine), halved)

    return _parts(d, step, lambda: share(a), lambda: share(b))


def _matmul(d: Derivation, step: Step, g: Value) -> Gradients:
    assert step.operands is not None
    a, b = step.operands
    first, second = step.below
    rows, columns = len(a.kind.shape) == 1, len(b.kind.shape) == 1
    left = d.emit("reshape", (1, *a.kind.shape), a) if rows else a
    right = d.emit("reshape", (*b.kind.shape, 1), b) if columns else b
    shape = g.kind.shape
    shape = (*shape, 1) if columns else shape
    shape = (*shape[:-1], 1, shape[-1]) if rows else shape
    g = d.emit("reshape", shape, g) if shape != g.kind.shape else g

    def of(make: Callable[[], Value], operand: Value, wide: Value) -> Value:
        fitted = d.fitted(make(), wide)
        return fitted if wide is operand else d.emit("reshape", operand.kind.shape, fitted)

    return [
        None if first is None else of(lambda: d.emit("matmul", None, g, d.transposed(right)), a, left),
        None if second is None else of(lambda: d.emit("matmul", None, d.transposed(left), g), b, right),
    ]


def _where(d: Derivation, step: Step, g: Value) -> Gradients:
    assert step.operands is not None
    condition, *branches = step.operands
    parts: list[Value | None] = [None]
    for number, (branch, below) in enumerate(zip(branches, step.below[1:], strict=True)):
        is_first = number == 0 and (step.arg is None or step.arg[0] == 2)
        chosen = condition if is_first else d.emit("not", None, condition)
        parts.append(None if below is None else d.fitted(d.chosen(chosen, g), branch))
    return parts


def _sum(d: Derivation, step: Step, g: Value) -> Gradients:
    return [d.fitted(d.spread(g, step.arg, _one(step)), _one(step))]


def _mean(d: Derivation, step: Step, g: Value) -> Gradients:
    x = _one(step)
    count = prod(x.kind.shape[a] for a in axes_of(step.arg[0], len(x.kind.shape)))
    return [d.fitted(d.spread(d("mul", g, 1 / count), step.arg, x), x)]


def _largest(d: Derivation, step: Step, g: Value) -> Gradients:
    """All that are the largest share the gradient evenly."""
    x = _one(step)
    is_best = d.emit("cast", g.kind.dtype, d("eq", x, d.spread(_result(step), step.arg, x)))
    count = d.emit("sum", (step.arg[0], True), is_best)
    return [d("mul", d("div", is_best, count), d.spread(g, step.arg, x))]


def _index(d: Derivation, step: Step, g: Value) -> Gradients:
    """The gradient at the places that the subscript takes, zeros beside them."""
    shape, axis, widths, wide = _one(step).kind.shape, 0, list[tuple[int, int]](), list[int]()
    flipped: list[int] = []
    strides: list[int] = []
    named = sum(part is not None and part is not Ellipsis for part in step.arg)
    parts: list[Any] = []
    for part in step.arg if Ellipsis in step.arg else (*step.arg, Ellipsis):
        parts += [(None, None, None)] * (len(shape) - named) if part is Ellipsis else [part]
    for part in parts:
        if part is None:
            continue
        extent = shape[axis]
        steps = (
            range(*slice(*part).indices(extent)) if isinstance(part, tuple) else range(part % extent, part % extent + 1)
        )
        low = min(steps) if steps else 0
        stride = abs(steps.step) if len(steps) > 1 else 1
        if steps.step < 0 and len(steps) > 1:
            flipped.append(axis)
        wide.append(len(steps))
        strides.append(stride)
        widths.append((low, extent - low - (len(steps) * stride if steps else 0)))
        axis += 1
    g = d.emit("reshape", tuple(wide), g)
    if flipped:
        g = d.emit("flip", tuple(flipped), g)
    if any(stride > 1 for stride in strides):  # zeros between the elements, some of which may lie beyond the end
        apart = tuple(e for extent in wide for e in (extent, 1))
        between = tuple(pair for stride in strides for pair in ((0, 0), (0, stride - 1)))
        spread = tuple(extent * stride for extent, stride in zip(wide, strides, strict=True))
        g = d.emit("reshape", spread, d.emit("pad", between, d.emit("reshape", apart, g)))
        cut = tuple((0, extent - low, 1) for extent, (low, _) in zip(shape, widths, strict=True))
        g = d.emit("index", cut, g)
        widths = [(low, max(after, 0)) for low, after in widths]
    return [d.emit("pad", tuple(widths), g) if any(map(any, widths)) else g]


def _rows(d: Derivation, step: Step, g: Value) -> Gradients:
    """Each row of the table has the gradients of all places where it was taken, added up in their order."""
    assert step.operands is not None
    table, numbers = step.operands
    count, taken = table.kind.shape[0], prod(numbers.kind.shape)
    row = d.emit("reshape", (1, taken), numbers)
    row = d.emit("where", None, d("lt", row, 0), d("add", row, count), row)
    own = d.emit("reshape", (count, 1), d.emit("arange", (0, count, 1)))
    is_taken = d.emit("cast", g.kind.dtype, d("eq", own, row))
    total = d.emit("matmul", None, is_taken, d.emit("reshape", (taken, prod(table.kind.shape[1:])), g))
    return [d.emit("reshape", table.kind.shape, total), None]


def _pad(d: Derivation, step: Step, g: Value) -> Gradients:
    shape = _one(step).kind.shape
    cut = tuple((before, before + e, 1) for e, (before, _) in zip(shape, step.arg, strict=True))
    return [d.emit("index", cut, g)]


def _concat(d: Derivation, step: Step, g: Value) -> Gradients:
    assert step.operands is not None
    parts: list[Value | None] = []
    axis, start = step.arg % len(g.kind.shape), 0
    for operand, below in zip(step.operands, step.below, strict=True):
        stop = start + operand.kind.shape[axis]
        cut = (*[(None, None, None)] * axis, (start, stop, 1))
        parts.append(None if below is None else d.fitted(d.emit("index", cut, g), operand))
        start = stop
    return parts


def _permute(d: Derivation, step: Step, g: Value) -> Gradients:
    rank = len(step.arg)
    order = [axis % rank for axis in step.arg]
    return [d.emit("permute", tuple(order.index(axis) for axis in range(rank)), g)]


def _sigmoid(d: Derivation, step: Step, g: Value) -> Gradients:
    y = _result(step)
    return [d("mul", g, d("mul", y, d("sub", 1.0, y)))]


def _tanh(d: Derivation, step: Step, g: Value) -> Gradients:
    y = _result(step)
    return [d("mul", g, d("sub", 1.0, d("mul", y, y)))]


def _abs(d: Derivation, step: Step, g: Value) -> Gradients:
    x = _one(step)
    signed = d.emit("where", None, d("lt", x, 0.0), d.emit("neg", None, g), g)
    return [d.chosen(d("ne", x, 0.0), signed)]


def _cosine(d: Derivation, step: Step, g: Value) -> Gradients:
    return [d.emit("neg", None, d("mul", g, d.emit("sin", None, _one(step))))]


def _reciprocal(d: Derivation, step: Step, g: Value) -> Gradients:
    y = _result(step)
    return [d.emit("neg", None, d("mul", g, d("mul", y, y)))]


def _silu(d: Derivation, step: Step, g: Value) -> Gradients:
    x = _one(step)
    s = d.emit("sigmoid", None, x)
    return [d("mul", g, d("mul", s, d("add", d("mul", x, d("sub", 1.0, s)), 1.0)))]


def _gelu(d: Derivation, step: Step, g: Value) -> Gradients:
    """The distribution function of x, and x times its density."""
    x = _one(step)
    below = d("div", _result(step), x)  # Φ(x), but at 0
    share = d.emit("where", None, d("ne", x, 0.0), below, d("add", d("mul", x, 0.0), 0.5))
    density = d("mul", d.emit("exp", None, d("mul", d("mul", x, x), -0.5)), 0.3989422804014327)
    return [d("mul", g, d("add", share, d("mul", x, density)))]


#: By operation. Those that are not here pass no gradient on: comparisons, places, integers.
RULES: dict[str, Rule] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "pow": _pow, "maximum": _extreme, "minimum": _extreme,
    "matmul": _matmul, "where": _where, "sum": _sum, "mean": _mean, "max": _largest, "min": _largest,
    "index": _index, "rows": _rows,
    "pad": _pad, "concat": _concat, "permute": _permute, "sigmoid": _sigmoid, "tanh": _tanh,
    "abs": _abs, "cos": _cosine, "reciprocal": _reciprocal, "silu": _silu, "gelu": _gelu,
    "neg": lambda d, step, g: [d.emit("neg", None, g)],
    "exp": lambda d, step, g: [d("mul", g, _result(step))],
    "log": lambda d, step, g: [d("div", g, _one(step))],
    "sqrt": lambda d, step, g: [d("div", d("mul", g, 0.5), _result(step))],
    "relu": lambda d, step, g: [d.chosen(d("lt", 0.0, _one(step)), g)],
    "sin": lambda d, step, g: [d("mul", g, d.emit("cos", None, _one(step)))],
    "softplus": lambda d, step, g: [d("mul", g, d.emit("sigmoid", None, _one(step)))],
    "cast": lambda d, step, g: [d.emit("cast", _one(step).kind.dtype, g)],
    "reshape": lambda d, step, g: [d.emit("reshape", _one(step).kind.shape, g)],
    "expand": lambda d, step, g: [d.fitted(g, _one(step))],
    "flip": lambda d, step, g: [d.emit("flip", step.arg, g)],
}  # fmt: skip
