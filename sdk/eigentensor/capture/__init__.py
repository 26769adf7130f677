"""A tinygrad function, or a model of others → a program and its weights.

Nothing but this package and the runtime imports tinygrad.
"""

from eigentensor.capture.context import TensorContext
from eigentensor.capture.function import capture
from eigentensor.capture.onnx import import_onnx
from eigentensor.capture.raising import capture_graph
from eigentensor.capture.repeated import repeated
from eigentensor.capture.weights import load_weights
from eigentensor.lowering.graph_program import GraphProgram

__all__ = ["GraphProgram", "TensorContext", "capture", "capture_graph", "import_onnx", "load_weights", "repeated"]
