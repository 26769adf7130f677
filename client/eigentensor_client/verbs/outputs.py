"""What came of a task, as verbs write and show it: its outputs, new states and receipt."""

from pathlib import Path
from typing import TYPE_CHECKING

from eigentensor.errors import ConfigError
from eigentensor.program import Kind, Program
from eigentensor.store import save_safetensors
from eigentensor.task import view
from eigentensor_client import elements, receipts
from eigentensor_client.files import dtypes_of, write_free, write_tensors
from eigentensor_client.results import TaskResult
from eigentensor_client.screen import Screen, facts, table

if TYPE_CHECKING:
    from eigentensor.task.objects import Files, Result, Tensor
    from eigentensor_client.tables import Table
    from eigentensor_client.verbs.show import Show


def keep_outputs(screen: Screen, program: Program, result: TaskResult) -> str | None:
    """Writes the outputs beside the user under the task's name, since no file was named, and says so.

    Where that cannot be they are not lost: they can be fetched again.
    """
    short, dtypes = result.uuid[:10], dtypes_of(program)
    try:
        path = write_free(short, ".safetensors", lambda file: save_safetensors(file, result.outputs, dtypes))
    except ConfigError as error:
        screen.say(f"{error.what}: `eigentensor get {short} -o FILE` fetches the outputs again")
        return None
    screen.say(f"no file was named with -o: the outputs are in {path}")
    return str(path)


def write_files(
    program: Program, result: TaskResult, output: Path | None, states: Path | None = None, receipt: Path | None = None
) -> "Files":
    """Writes outputs, new states and the receipt where they are wanted."""
    for path, tensors, kind in ((output, result.outputs, Kind.OUTPUT), (states, result.states, Kind.STATE)):
        if path is not None:
            write_tensors(path, tensors, program, kind)
    if receipt is not None:
        receipts.write(receipt, result.receipt)
    written = [None if path is None else str(path) for path in (output, states, receipt)]
    return {"outputs": written[0], "states": written[1], "receipt": written[2]}


def result_object(show: "Show", program: Program, result: TaskResult, files: "Files") -> "Result":
    """`eigentensor.result/1`: the task, how its outputs begin, and where they are."""
    dtypes = dtypes_of(program)
    outputs: dict[str, Tensor] = {
        name: {
            "dtype": dtypes[name].name.lower(),
            "shape": list(array.shape),
            "first": elements.as_json(elements.first(array)),
        }
        for name, array in result.outputs.items()
    }
    return {
        "schema": "eigentensor.result/1",
        "task": show.task(result.task),
        "outputs_root": result.outputs_root.hex(),
        "states_root": result.states_root.hex(),
        "outputs": outputs,
        "files": files,
        "saved": view.text(result.saved),
        "earlier": list(result.earlier),
    }


def result_lines(program: Program, result: TaskResult, files: "Files") -> "list[str | Table]":
    """The same for people, without the task."""
    dtypes = dtypes_of(program)
    rows = [
        [name, dtypes[name].name.lower(), str(list(array.shape)), elements.shown(array, dtypes[name])]
        for name, array in result.outputs.items()
    ]
    written = [files["outputs"], files["states"]]
    paths = [*(["written", path] for path in written if path), *([["receipt", r]] if (r := files["receipt"]) else [])]
    return [table(("output", "dtype", "shape", "begins with"), rows), *([facts(paths)] if paths else [])]


def show_result(
    screen: Screen,
    show: "Show",
    program: Program,
    result: TaskResult,
    output: Path | None,
    states: Path | None,
    receipt: Path | None,
) -> None:
    """Writes what came of a task, and prints it."""
    kept = keep_outputs(screen, program, result) if output is None else str(output)
    files: Files = {**write_files(program, result, output, states, receipt), "outputs": kept}
    lines = (*show.result_lines(result), *result_lines(program, result, files))
    screen.result("eigentensor.result/1", result_object(show, program, result, files), *lines)
