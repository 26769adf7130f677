"""Functions that tinygrad composes of several steps, recognised by what they compute: the scheduler rearranges how.

A node is such a function of another one if all that it depends on passes through that one, an exponential, logarithm,
sine or square root stands between them, and float64 arithmetic on what stands between them gives the function, at
points that cover its shape.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from heapq import heappop, heappush
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops

from eigentensor.capture.transcendental import Meant, is_number, short

Values = NDArray[np.float64]

#: So many nodes may stand between a function and its argument; tinygrad's erf has about 30.
NODES = 64
#: And so many steps that are no arithmetic; tinygrad's mish has 4.
CURVES = 4
POINTS = np.array([0.0, 0.02, 0.3, 0.7, 1.1, 1.9, 2.7, 4.1, 7.0, 12.0, 25.0, 60.0, 200.0, 1e4, 1e8, math.inf])
POINTS = np.concatenate([POINTS, -POINTS, [math.nan]])
#: From here on formulas overflow or cancel.
BEYOND = 1e8
#: No operand of a step is larger where its function has a value that float32 has.
HUGE = 1e100
#: Neighbours from which factor and offset of an argument follow, also where the formula has bends.
PROBES = np.array([0.5, -0.5, 40.0, 39.0, -39.0, -40.0])
#: Coarser than constants that are rounded to float32 and tinygrad's own erf, finer than all other functions of a kind.
TOLERANCE = 1e-6
#: Finer than a constant beside 1 that would move a zero.
FINE = 1e-7

_STEPS: dict[Ops, Callable[..., Any]] = {
    Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.FDIV: np.divide, Ops.MAX: np.maximum,
    Ops.EXP2: np.exp2, Ops.LOG2: np.log2, Ops.SIN: np.sin, Ops.SQRT: np.sqrt, Ops.RECIPROCAL: np.reciprocal,
    Ops.NEG: np.negative, Ops.POW: np.power, Ops.CMPLT: np.less, Ops.CMPNE: np.not_equal, Ops.CMPEQ: np.equal,
    Ops.WHERE: np.where, Ops.CAST: lambda x: x,
}  # fmt: skip
_THRESHOLDS = (Ops.MAX, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)


class Known(NamedTuple):
    """A function, the first step of its formulas that is no arithmetic, and which arguments its operand comes from.

    The operand of an EXP2 counts as that of the natural exponential. Only some may have an offset in their argument:
    log(x + c) is no log1p.
    """

    name: str
    exact: Callable[[Values], Values]
    step: Ops
    arguments: Callable[[float], Sequence[float]]
    tolerance: float = TOLERANCE
    with_offset: bool = True


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
    return lambda exponent: _roots(-scale * exponent)


def _roots(square: float) -> Sequence[float]:
    return [math.sqrt(square), -math.sqrt(square)] if square > 0 else []


KNOWN = (
    Known("erf", _each(math.erf), Ops.EXP2, _squared(1)),
    Known("gelu", lambda x: x * _normal(x), Ops.EXP2, _squared(2)),
    Known("gelu_tanh", lambda x: x * _sigmoid(_cubic(x)), Ops.EXP2, _root),
    Known("silu", lambda x: x * _sigmoid(x), Ops.EXP2, lambda exponent: [-exponent]),
    Known("softplus", lambda x: np.logaddexp(x, 0), Ops.EXP2, lambda exponent: [exponent, -exponent]),
    Known("mish", lambda x: x * np.tanh(np.logaddexp(x, 0)), Ops.EXP2, lambda exponent: [exponent, -exponent]),
    Known("expm1", np.expm1, Ops.EXP2, lambda exponent: [exponent], FINE),
    Known("sinh", np.sinh, Ops.EXP2, lambda exponent: [exponent, -exponent], FINE),
    Known("cosh", np.cosh, Ops.EXP2, lambda exponent: [exponent, -exponent]),
    Known("log1p", np.log1p, Ops.LOG2, lambda power: [power - 1], FINE, with_offset=False),
    Known("atanh", np.arctanh, Ops.LOG2, lambda power: [(power - 1) / (power + 1)], FINE),
    Known("asinh", np.arcsinh, Ops.SQRT, lambda square: _roots(square - 1), FINE),
    Known("acosh", np.arccosh, Ops.SQRT, lambda square: _roots(square + 1), FINE),
    Known("tan", np.tan, Ops.SIN, lambda angle: [angle]),
    Known("asin", np.arcsin, Ops.SQRT, lambda rest: [1 - rest, rest - 1], FINE),
    Known("acos", np.arccos, Ops.SQRT, lambda rest: [1 - rest, rest - 1], FINE),
    Known("atan", np.arctan, Ops.SQRT, lambda square: _roots(square - 1), FINE),
)
_CURVED = frozenset(known.step for known in KNOWN)


class Compositions:
    """Of one kernel: its nodes are numbered once, operands before users."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}
        self.curved: set[Any] = set()  # nodes with a step that is no arithmetic below them
        self.constant: set[Any] = set()

    def meant(self, u: Any) -> Meant | None:
        """The function that `u` is of something below it, as far below as there is one, or None."""
        if u not in self.number:
            self._add(u)
        if u.op not in (Ops.ADD, Ops.MUL, Ops.WHERE) or u not in self.curved:
            return None
        with np.errstate(all="ignore"):
            function = None
            for argument, steps in self._segments(u):
                deeper = self._matched(argument, steps)
                if deeper and (function is None or not deeper.offset):
                    function = deeper
        return function

    def _add(self, u: Any) -> None:
        for n in u.toposort():
            if n not in self.number:
                self.number[n] = len(self.number)
                if is_number(n) or (n.src and _is_step(n) and all(s in self.constant for s in n.src)):
                    self.constant.add(n)
                elif _is_step(n) and (n.op in _CURVED or any(s in self.curved for s in n.src)):
                    self.curved.add(n)

    def _segments(self, u: Any) -> Iterator[tuple[Any, list[Any]]]:
        """Nodes that everything below u passes through, with the steps from each up to u, nearest first."""
        heap, seen = [(-self.number[u], u)], {u}
        steps: list[Any] = []
        curves = 0
        while heap and len(steps) < NODES and curves <= CURVES:
            _, n = heappop(heap)
            curves += n.op in _CURVED
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

    def _matched(self, argument: Any, steps: list[Any]) -> Meant | None:
        first = _first_curves(steps)
        if not first:
            return None
        probed = _evaluated(argument, steps, PROBES)
        for known in KNOWN:
            operands = [np.broadcast_to(probed[n.src[0]], PROBES.shape) for n in first if n.op is known.step]
            for factor, offset in _changes(known, operands):
                at = factor * PROBES + offset
                if _scale(probed[steps[-1]], known.exact(at), at, known.tolerance) is not None:
                    values = _evaluated(argument, steps, (POINTS - offset) / factor)[steps[-1]]
                    if scale := _scale(values, _exact(known), POINTS, known.tolerance):
                        return Meant(known.name, argument, short(factor) or factor, short(scale) or scale, offset)
        return None


def _first_curves(steps: list[Any]) -> list[Any]:
    """The steps that are no arithmetic, but whose operands are."""
    curved: set[Any] = set()
    first = []
    for n in steps:
        after = any(s in curved for s in n.src)
        if after or n.op in _CURVED:
            curved.add(n)
        if not after and n.op in _CURVED:
            first.append(n)
    return first


def _changes(known: Known, operands: list[Values]) -> list[tuple[float, float]]:
    """Factor and offset with which the step can have these operands at PROBES, the simplest first."""
    changes: dict[tuple[float, float], None] = {}
    natural = math.log(2) if known.step is Ops.EXP2 else 1.0
    for operand in operands:
        for first in (0, 2, 4):
            if np.all(np.abs(operand[first : first + 2]) < HUGE):
                here, there = (known.arguments(np.float64(operand[i] * natural)) for i in (first, first + 1))
                for a, b in product(here, there):
                    offset = float(a - (a - b) * PROBES[first])
                    plain = abs(offset) < 1e-9 * max(1, abs(a))
                    changes[(float(a / PROBES[first]), 0.0) if plain else (a - b, offset)] = None
    sound = [(k, c) for k, c in changes if k and math.isfinite(k + c) and (known.with_offset or not c)]
    return sorted(sound, key=lambda change: (change[1] != 0, change[0] < 0))


def _is_step(n: Any) -> bool:
    floats = n.dtype is dtypes.bool or dtypes.is_float(n.dtype)
    return n.op in _STEPS and floats and (n.op is not Ops.CAST or dtypes.is_float(n.src[0].dtype))


def _constant(n: Any) -> float:
    return float(n.val) if is_number(n) else float(_STEPS[n.op](*map(_constant, n.src)))


def _evaluated(argument: Any, steps: list[Any], points: Values) -> dict[Any, Any]:
    """The value of every step where the argument has the values given."""
    values: dict[Any, Any] = {argument: points}
    for n in steps:
        values[n] = _STEPS[n.op](*(values[s] if s in values else _constant(s) for s in n.src))
    return values


@cache
def _exact(known: Known) -> Values:
    return known.exact(POINTS)


def _scale(values: Values, exact: Values, points: Values, tolerance: float) -> float | None:
    """s with values = s·exact, if there is one; at the ends no number will do: formulas overflow there."""
    inside = np.isfinite(exact) & (np.abs(points) < BEYOND)
    place = int(np.argmax(np.where(inside, np.abs(exact), -1)))
    scale = float(values[place] / exact[place])
    wanted = scale * exact
    close = np.abs(values - wanted) <= tolerance * abs(scale) * np.maximum(1, np.abs(exact))
    same = (values == wanted) | (np.isnan(values) & np.isnan(exact))
    at_end = (np.abs(points) >= BEYOND) & ~np.isfinite(values)
    return scale if bool(np.all(close | same | at_end)) and 0 < abs(scale) < math.inf else None
