"""Functions that tinygrad composes of several steps, recognised by what they compute: the scheduler rearranges how.

A node is such a function of another one if all that it depends on passes through that one, an exponential stands
between them, and float64 arithmetic on what stands between them gives the function, at points that cover its shape.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops

from eigentensor.capture.transcendental import Meant, short

Values = NDArray[np.float64]

#: So many nodes may stand between a function and its argument; tinygrad's erf has about 30.
NODES = 64
POINTS = np.array([0.0, 0.02, 0.3, 0.7, 1.1, 1.9, 2.7, 4.1, 7.0, 12.0, 25.0, 60.0, 200.0, 1e4, 1e8, math.inf])
POINTS = np.concatenate([POINTS, -POINTS, [math.nan]])
FAR = 12  #: there all functions have their last digits, and all formulas
#: Coarser than constants that are rounded to float32 and tinygrad's own erf, finer than all other functions of a kind.
TOLERANCE = 1e-6

_STEPS: dict[Ops, Callable[..., Any]] = {
    Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.FDIV: np.divide, Ops.MAX: np.maximum,
    Ops.EXP2: np.exp2, Ops.LOG2: np.log2, Ops.SQRT: np.sqrt, Ops.RECIPROCAL: np.reciprocal, Ops.NEG: np.negative,
    Ops.POW: np.power, Ops.CMPLT: np.less, Ops.CMPNE: np.not_equal, Ops.CMPEQ: np.equal, Ops.WHERE: np.where,
    Ops.CAST: lambda x: x,
}  # fmt: skip
_THRESHOLDS = (Ops.MAX, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)


class Known(NamedTuple):
    """A function, and the factors of its argument for which an exponent can have a value where the argument is 1."""

    name: str
    exact: Callable[[Values], Values]
    factors: Callable[[float], Sequence[float]]


def _each(function: Callable[[float], float]) -> Callable[[Values], Values]:
    return lambda x: np.array([function(value) for value in x])


def _normal(x: Values) -> Values:
    return _each(lambda value: 0.5 * math.erfc(-value / math.sqrt(2)))(x)


def _sigmoid(x: Values) -> Values:
    return 1 / (1 + np.exp(-x))


def _cubic(x: Values) -> Values:
    return math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)


def _root(exponent: float) -> Sequence[float]:
    """k with _cubic(k) = -exponent"""
    roots = np.roots([0.044715, 0, 1, exponent / math.sqrt(8 / math.pi)])
    return [float(root.real) for root in roots if abs(root.imag) < 1e-9]


def _squared(scale: float) -> Callable[[float], Sequence[float]]:
    """k with -k²/scale = exponent"""
    return lambda exponent: [sign * math.sqrt(-scale * exponent) for sign in (1, -1)] if exponent < 0 else []


KNOWN = (
    Known("erf", _each(math.erf), _squared(1)),
    Known("gelu", lambda x: x * _normal(x), _squared(2)),
    Known("gelu_tanh", lambda x: x * _sigmoid(_cubic(x)), _root),
    Known("silu", lambda x: x * _sigmoid(x), lambda exponent: [-exponent]),
    Known("softplus", lambda x: np.logaddexp(x, 0), lambda exponent: [exponent, -exponent]),
)


class Compositions:
    """Of one kernel: its nodes are numbered once, operands before users."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}
        self.exponential: set[Any] = set()  # nodes with an exponential below them
        self.constant: set[Any] = set()

    def meant(self, u: Any) -> Meant | None:
        """The function that `u` is of something below it, or None."""
        if u not in self.number:
            self._add(u)
        if u.op not in (Ops.ADD, Ops.MUL, Ops.WHERE) or u not in self.exponential:
            return None
        with np.errstate(all="ignore"):
            for argument, steps in self._segments(u):
                exponentials = [n for n in steps if n.op is Ops.EXP2]
                if exponentials and (found := self._matched(argument, steps, exponentials)):
                    return found
        return None

    def _add(self, u: Any) -> None:
        for n in u.toposort():
            if n not in self.number:
                self.number[n] = len(self.number)
                if n.op is Ops.CONST or (n.src and _is_step(n) and all(s in self.constant for s in n.src)):
                    self.constant.add(n)
                elif _is_step(n) and (n.op is Ops.EXP2 or any(s in self.exponential for s in n.src)):
                    self.exponential.add(n)

    def _segments(self, u: Any) -> Iterator[tuple[Any, list[Any]]]:
        """Nodes that everything below u passes through, with the steps from each up to u, nearest first."""
        heap, seen = [(-self.number[u], u)], {u}
        steps: list[Any] = []
        while heap and len(steps) < NODES:
            _, n = heappop(heap)
            if steps and not heap:
                yield n, steps[::-1]
            if not _is_step(n) or not self._is_smooth(n):
                return
            steps.append(n)
            for s in n.src:
                if s not in seen and s not in self.constant:
                    seen.add(s)
                    heappush(heap, (-self.number[s], s))

    def _is_smooth(self, n: Any) -> bool:
        """Whether a step has no threshold but at zero."""
        if n.op not in _THRESHOLDS or n.src[0].dtype is dtypes.bool:
            return True
        return any(s in self.constant and _constant(s) == 0 for s in n.src)

    def _matched(self, argument: Any, steps: list[Any], exponentials: list[Any]) -> Meant | None:
        ones = _evaluated(argument, steps, np.array([1.0, -1.0]))
        exponents = [float(e) * math.log(2) for n in exponentials for e in np.atleast_1d(ones[n.src[0]])]
        for known in KNOWN:
            for factor in dict.fromkeys(k for e in exponents for k in known.factors(e) if k and math.isfinite(k)):
                values = _evaluated(argument, steps, POINTS / factor)[steps[-1]]
                if scale := _scale(values, known.exact(POINTS)):
                    return Meant(known.name, argument, short(factor) or factor, short(scale) or scale)
        return None


def _is_step(n: Any) -> bool:
    floats = n.dtype is dtypes.bool or dtypes.is_float(n.dtype)
    return n.op in _STEPS and floats and (n.op is not Ops.CAST or dtypes.is_float(n.src[0].dtype))


def _constant(n: Any) -> float:
    return float(n.val) if n.op is Ops.CONST else float(_STEPS[n.op](*map(_constant, n.src)))


def _evaluated(argument: Any, steps: list[Any], points: Values) -> dict[Any, Any]:
    """The value of every step where the argument has the values given."""
    values: dict[Any, Any] = {argument: points}
    for n in steps:
        values[n] = _STEPS[n.op](*(values[s] if s in values else _constant(s) for s in n.src))
    return values


def _scale(values: Any, exact: Values) -> float | None:
    """s with values = s·exact, if there is one; at the ends NaN will do: the formula overflows there."""
    scale = float(values[FAR] / exact[FAR])
    wanted = scale * exact
    close = np.abs(values - wanted) <= TOLERANCE * abs(scale) * np.maximum(1, np.abs(exact))
    at_end = np.isinf(POINTS) & (np.isnan(values) | (values == wanted))
    is_known = bool(np.all((close | at_end)[:-1])) and bool(np.isnan(values[-1])) and 0 < abs(scale) < math.inf
    return scale if is_known else None
