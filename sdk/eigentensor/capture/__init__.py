"""A tinygrad function → a program and its weights. Nothing but this package and the runtime imports tinygrad."""

from eigentensor.capture.context import TensorContext
from eigentensor.capture.function import capture
from eigentensor.capture.graph import GraphProgram

__all__ = ["GraphProgram", "TensorContext", "capture"]
