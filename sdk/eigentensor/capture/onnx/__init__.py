"""ONNX models → programs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tinygrad import Context, Tensor

from eigentensor.capture import adapter
from eigentensor.capture.function import capture
from eigentensor.capture.names import names_for
from eigentensor.capture.onnx.file import Malformed, Shape, fixed, read_graph
from eigentensor.errors import CaptureError
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.lowering.shards import Shards

if TYPE_CHECKING:
    from eigentensor.capture.onnx.runner import Runner


def import_onnx(
    path: str | Path,
    shapes: Mapping[str, Shape] | None = None,
    *,
    cast: Literal["float32"] | None = None,
    fingerprint: bool = True,
    shards: Shards = 1,
) -> GraphProgram:
    """The program of an ONNX model with its weights.

    Initialisers become weights, those of shape () constants; inputs and outputs are the model's. Each has its name of
    the model as `names_for` gives it. `shapes` (by names of the model) fix inputs whose shape the model leaves open.
    `cast="float32"` makes float32 of all that is float64 in the model: inputs, weights, constants and results; what
    that was is in the program's `cast`.
    Reductions over axes that `shards` name, by names of the model, are cut by shards, as `capture` does it.
    External data are read from the model's own folder. Raises CaptureError for what is no such model, for operators
    and types that programs do not have, and where a shape depends on the values of an input.
    """
    path = Path(path)
    with Context(DEV=adapter.DEVICE):
        # tinygrad's operators take longer to import than all else, and make tensors on the device of the moment.
        from eigentensor.capture.onnx.runner import Elements, Runner, in_one_line

        with in_one_line(what := f"{path.name} is not an ONNX model that can be read"):
            try:
                graph = read_graph(path)
            except Malformed as error:
                raise CaptureError(f"{what}: {error}", fix="check it with onnx.checker") from None
        elements = Elements(cast=cast == "float32")
        runner = Runner(graph, elements)
        examples = {
            name: adapter.placeholder(
                f"the input {name!r}", shape, elements.dtype(graph.inputs[name].element, f"the tensor {name!r}")
            )
            for name, shape in fixed(graph.inputs, shapes or {}).items()
        }
        weights = runner.weights()
        names, results = names_for([*examples, *weights]), names_for(graph.outputs)
        runner(examples)  # shapes, axes and the like, which operators take as numbers, are computed here, and kept
        inputs = {names[name]: tensor for name, tensor in examples.items()}
        model = _Model(runner, {name: names[name] for name in examples}, results)
        with in_one_line(f"{path.name} cannot be imported"):
            parameters = {names[n]: t for n, t in weights.items()}
            cut = shards if isinstance(shards, int) else {names.get(name, name): by for name, by in shards.items()}
            program = capture(model, inputs, parameters, fingerprint=fingerprint, shards=cut)
    return replace(program, cast=tuple(elements.casts))


class _Model:
    """What is captured: no line of Python is its reader's, so none is named when it is refused."""

    def __init__(self, runner: "Runner", inputs: Mapping[str, str], results: Mapping[str, str]) -> None:
        self.runner = runner
        self.inputs = inputs
        self.results = results

    def __call__(self, **tensors: Tensor) -> dict[str, Tensor]:
        outputs = self.runner({name: tensors[source] for name, source in self.inputs.items()})
        return {self.results[name]: tensor for name, tensor in outputs.items()}
