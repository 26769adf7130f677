"""A tinygrad function → a program and its weights. The only importer of tinygrad beside the runtime."""

from eigentensor.capture.context import TensorContext
from eigentensor.capture.function import capture
from eigentensor.capture.graph import GraphProgram

__all__ = ["GraphProgram", "TensorContext", "capture"]
