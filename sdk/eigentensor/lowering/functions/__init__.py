"""Transcendental functions as expressions of basic operations, with the error bounds stated in sdk/README.md.

Each takes a float expression and gives one of the same type; half types are computed in float32 and rounded once.
"""

from eigentensor.lowering.functions.activation import gelu, gelu_tanh, mish, sigmoid, silu, softplus
from eigentensor.lowering.functions.area import acosh, asinh, atanh
from eigentensor.lowering.functions.error import erf
from eigentensor.lowering.functions.exponential import exp, exp2, expm1
from eigentensor.lowering.functions.hyperbolic import cosh, sinh, tanh
from eigentensor.lowering.functions.inverse import acos, asin, atan
from eigentensor.lowering.functions.logarithm import log, log1p, log2, log10
from eigentensor.lowering.functions.power import power
from eigentensor.lowering.functions.trigonometry import cos, sin, tan

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2", "expm1", "gelu",
    "gelu_tanh", "log", "log1p", "log2", "log10", "mish", "power", "sigmoid", "silu", "sin", "sinh", "softplus", "tan",
    "tanh",
]  # fmt: skip
