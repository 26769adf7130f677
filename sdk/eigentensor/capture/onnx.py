"""ONNX models → programs."""

from collections.abc import Mapping
from pathlib import Path

from tinygrad import Context, Tensor

from eigentensor.capture import adapter
from eigentensor.capture.function import capture
from eigentensor.capture.names import names_for
from eigentensor.lowering.graph_program import GraphProgram


def import_onnx(
    path: str | Path, shapes: Mapping[str, tuple[int, ...]] | None = None, *, fingerprint: bool = True
) -> GraphProgram:
    """The program of an ONNX model with its weights.

    Initialisers become weights, those of shape () constants; inputs and outputs are the model's. Each has its name of
    the model as `names_for` gives it. `shapes` (by names of the model) fix inputs whose shape the model leaves open.
    External data are read from the model's own folder. Raises CaptureError for what is no such model, for operators
    and types that programs do not have, and where a shape depends on the values of an input.
    """
    path = Path(path)
    with Context(DEV=adapter.DEVICE):
        # tinygrad's reader takes longer to import than all else, and makes tensors on the device of the moment.
        from eigentensor.capture.onnx_reader import Runner, in_one_line

        with in_one_line(f"{path.name} is not an ONNX model that can be read"):
            runner = Runner(path)
        runner.refuse_unsupported()
        runner.fix_shapes(shapes or {})
        weights = runner.weights()
        names = names_for([*runner.graph_inputs, *weights])
        results = names_for(runner.graph_outputs)
        examples = {n: adapter.placeholder(spec.shape, spec.dtype) for n, spec in runner.graph_inputs.items()}
        with in_one_line(f"{path.name} cannot be imported"):
            runner(examples)  # shapes, axes and the like, which operators take as numbers, are computed here, and kept

        def model(**tensors: Tensor) -> dict[str, Tensor]:
            found = runner({name: tensors[names[name]] for name in examples})
            return {results[name]: tensor for name, tensor in found.items()}

        inputs = {names[name]: tensor for name, tensor in examples.items()}
        return capture(model, inputs, {names[n]: t for n, t in weights.items()}, fingerprint=fingerprint)
