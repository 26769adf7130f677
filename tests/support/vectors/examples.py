"""What the examples compute that `eigentensor init` writes, as files beside them: `scripts/vectors` writes these.

Of a model the bits of every output, by the reference; of the two that are Python files what they print.
"""

from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from runpy import run_path
from typing import Any

from tinygrad import Context

from eigentensor import reference
from eigentensor.capture import GraphProgram, import_onnx
from eigentensor.runtime.compiled import execute
from eigentensor.store import load_safetensors
from eigentensor_client.examples import FOLDER, MODELS
from eigentensor_client.files import write_tensors
from eigentensor_client.sources import names_of

HEAT, TRAINING = FOLDER / "remote" / "heat_equation.txt", FOLDER / "training.txt"
Tensors = dict[str, Any]


def models(name: str) -> list[Path]:
    """The model of an example, and the same exported in another way."""
    return sorted((FOLDER / name).glob("*.onnx"))


def imported(model: Path) -> tuple[GraphProgram, Tensors]:
    """A model as a program, and all its tensors."""
    inputs = load_safetensors(model.with_name("input.safetensors"))
    graph = import_onnx(model, {name: array.shape for name, array in inputs.items()})
    return graph, {**graph.weights, **inputs}


def heat() -> str:
    """What the plain program prints."""
    with redirect_stdout(StringIO()) as printed, Context(DEV="CPU"):
        run_path(str(FOLDER / "plain" / "heat_equation.py"), run_name="__main__")
    return printed.getvalue()


def losses() -> Iterator[str]:
    """A line for each task of the training, executed here."""
    with Context(DEV="CPU"):  # whose random numbers the first weights are
        names = names_of(FOLDER / "training.py")
        graph, (digits, _) = names["program"](), names["load"]()
    states = dict(graph.states)
    for number in range(names["BATCHES"]):
        tensors = {**names["batch"](digits, number), **graph.weights, **states}
        results = execute(graph.program, tensors, {}, names["STEPS"])
        states = results.states
        yield f"{number:2}  loss {results.outputs['loss'].item():.3f}\n"


def write() -> None:
    """Renews the files."""
    for name in MODELS:
        graph, tensors = imported(models(name)[0])
        outputs = reference.execute(graph.program, tensors).outputs
        write_tensors(FOLDER / name / "expected.safetensors", outputs, graph.program)
    HEAT.write_text(heat())
    TRAINING.write_text("".join(losses()))


if __name__ == "__main__":
    write()
