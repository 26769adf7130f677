"""Which function is meant: tinygrad writes exp, log, cos, tanh, sigmoid with exp2, log2 and sin, less accurately."""

from math import e, isfinite, log, log2, pi
from typing import Any, NamedTuple

from tinygrad.uop.ops import Ops


class Meant(NamedTuple):
    """scale · function(factor · argument + offset)"""

    function: str
    argument: Any
    factor: float = 1.0
    scale: float = 1.0
    offset: float = 0.0


def meant(u: Any) -> Meant | None:
    """The function that `u` computes, None if it is no transcendental function."""
    if u.op is Ops.EXP2:
        argument, factor = _pop_factor(u.src[0])
        multiple = short(factor / log2(e))
        return Meant("exp2", u.src[0]) if multiple is None else Meant("exp", argument, multiple)
    if u.op is Ops.LOG2:
        return Meant("log2", u.src[0])
    if u.op is Ops.SIN:
        return _cosine(u.src[0]) or Meant("sin", u.src[0])
    if u.op is Ops.MUL:
        argument, factor = _pop_factor(u)
        if argument.op is Ops.LOG2:
            for function, base in (("log", e), ("log10", 10)):
                if (multiple := short(factor / log(2, base))) is not None:
                    return Meant(function, argument.src[0], scale=multiple)
    if u.op is Ops.RECIPROCAL:
        return _sigmoid(u)
    return _tanh(u) if u.op is Ops.ADD else None


def _sigmoid(u: Any) -> Meant | None:
    """1/(1 + exp2(-x/log 2)) is the sigmoid of x."""
    exponent = _above_one(u.src[0])
    if exponent is None:
        return None
    argument, factor = _pop_factor(exponent)
    return Meant("sigmoid", argument, short(factor / -log2(e)) or factor / -log2(e))


def _above_one(u: Any) -> Any:
    """The exponent of 1 + exp2(exponent); None if it is not that."""
    if u.op is Ops.ADD:
        for one, power in (u.src, u.src[::-1]):
            if _is(one, 1) and power.op is Ops.EXP2:
                return power.src[0]
    return None


def _tanh(u: Any) -> Meant | None:
    """2/(1 + exp2(-2x/log 2)) - 1 is tanh(x)."""
    for minus_one, twice in (u.src, u.src[::-1]):
        inverse, two = _pop_factor(twice)
        if _is(minus_one, -1) and two == 2 and inverse.op is Ops.RECIPROCAL:
            exponent = _above_one(inverse.src[0])
            if exponent is not None:
                argument, factor = _pop_factor(exponent)
                multiple = factor / (-2 * log2(e))
                return Meant("tanh", argument, short(multiple) or multiple)
    return None


def _cosine(u: Any) -> Meant | None:
    """sin(π/2 − x) is cos(x)."""
    if u.op is not Ops.ADD:
        return None
    for shift, rest in (u.src, u.src[::-1]):
        if is_number(shift) and abs(shift.val - pi / 2) < 1e-7:
            argument, factor = _pop_factor(rest)
            return Meant("cos", argument if factor == -1 else rest)
    return None


def is_number(u: Any) -> bool:
    """Whether a node is a constant, and has a value."""
    return u.op is Ops.CONST and not u.is_invalid


def _is(u: Any, value: int) -> bool:
    return is_number(u) and bool(u.val == value)


def _pop_factor(u: Any) -> tuple[Any, float]:
    if u.op is Ops.MUL:
        for a, b in (u.src, u.src[::-1]):
            if is_number(b):
                return a, float(b.val)
    return u, 1.0


def short(k: float, tolerance: float = 1e-7) -> float | None:
    """k if it is a short number up to the rounding of a constant, so that nothing is lost by multiplying with it."""
    if not isfinite(k * 4096):
        return None
    rounded = round(k * 4096) / 4096
    return rounded if rounded and abs(k / rounded - 1) < tolerance else None
