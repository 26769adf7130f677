"""Transcendental functions as expressions of basic operations, with the error bounds stated in sdk/README.md.

Each takes a float expression and gives one of the same type; half types are computed in float32 and rounded once.
"""

from eigentensor.capture.functions.exponential import exp, exp2
from eigentensor.capture.functions.hyperbolic import tanh
from eigentensor.capture.functions.logarithm import log, log2
from eigentensor.capture.functions.power import power
from eigentensor.capture.functions.trigonometry import cos, sin

__all__ = ["cos", "exp", "exp2", "log", "log2", "power", "sin", "tanh"]
