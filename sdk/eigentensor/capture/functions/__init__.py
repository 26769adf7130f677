"""Transcendental functions as expressions of basic operations, with the error bounds stated in sdk/README.md.

Each takes a float expression and gives one of the same type; half types are computed in float32 and rounded once.
"""

from eigentensor.capture.functions.activation import gelu, gelu_tanh, sigmoid, silu, softplus
from eigentensor.capture.functions.error import erf
from eigentensor.capture.functions.exponential import exp, exp2
from eigentensor.capture.functions.hyperbolic import tanh
from eigentensor.capture.functions.logarithm import log, log2
from eigentensor.capture.functions.power import power
from eigentensor.capture.functions.trigonometry import cos, sin

__all__ = [
    "cos", "erf", "exp", "exp2", "gelu", "gelu_tanh", "log", "log2", "power", "sigmoid", "silu", "sin", "softplus",
    "tanh",
]  # fmt: skip
