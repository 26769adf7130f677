"""What a user may name as a program: a file, a uuid, an ONNX model, or what a name in a Python file stands for."""

import inspect
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, Literal

from eigentensor import spending
from eigentensor.errors import BindingError, BlobNotFound, CaptureError, EigenTensorError, PaymentRefused
from eigentensor_client.inputs import existing

if TYPE_CHECKING:
    from eigentensor.capture import GraphProgram
    from eigentensor.lowering.shards import Shards
    from eigentensor.program import Program
    from eigentensor_client.files import Tensors
    from eigentensor_client.transfer import Keeper


def is_uuid(name: str) -> bool:
    """Whether a program is named by its uuid, not by a file."""
    return len(name.removeprefix("0x")) == 64 and not Path(name).exists()


def is_captured(name: str) -> bool:
    """Whether a program is captured from what is named, an ONNX model or a Python file, and brings its weights."""
    return Path(name).suffix == ".onnx" or Path(name.partition(":")[0]).suffix == ".py"


def read_program(name: str, gateway: "Keeper | None" = None) -> "Program":
    """A program from a file, or by its uuid from cache and gateway; checked. Raises BlobNotFound, ProgramError, and
    BindingError for what one is captured from."""
    from eigentensor.program.codec import decode

    if is_uuid(name) and gateway is not None:
        try:
            return decode(gateway.fetch(name).read_bytes())
        except BlobNotFound:
            raise BlobNotFound(
                f"neither a file nor a known uuid: {name}",
                fix="Name the program's file, or give the gateway its bytes with `eigentensor blob put FILE`.",
            ) from None
    if is_captured(name):
        existing(Path(name.partition(":")[0]))
        verb = "import" if Path(name).suffix == ".onnx" else "capture"
        raise BindingError(
            f"{name} is no program, but makes one", fix=f"Write it: `eigentensor program {verb} {name}`."
        )
    return decode(existing(Path(name)).read_bytes())


def captured(
    name: str,
    inputs: "Tensors",
    weights: Path | None,
    cast: Literal["float32"] | None = None,
    shards: "Shards" = 1,
) -> "tuple[GraphProgram, Tensors]":
    """The program captured from an ONNX model or FILE.py:NAME, and the inputs under its names.

    Inputs give the shapes that a model leaves open. `cast` makes float32 of float64, inputs included; `shards` is what
    `capture` takes. Raises CaptureError, and what `of_python` raises.
    """
    if Path(name).suffix != ".onnx":
        file, _, word = name.partition(":")
        return of_python(Path(file), word or "program", weights, inputs, cast, shards), _cast(inputs, cast)
    if weights is not None:
        raise BindingError(f"{name} brings its own weights", fix="Leave --weights out.")
    from eigentensor.capture import import_onnx
    from eigentensor.capture.names import names_for

    shapes = {key: tensor.shape for key, tensor in inputs.items()}
    graph = import_onnx(existing(Path(name)), shapes, cast=cast, shards=shards)
    names = names_for(inputs)
    return graph, {names[key]: tensor for key, tensor in _cast(inputs, cast).items()}


def _cast(inputs: "Tensors", cast: str | None) -> "Tensors":
    if cast is None:
        return inputs
    import numpy as np

    with np.errstate(over="ignore"):
        return {n: a.astype(np.float32) if a.dtype == np.float64 else a for n, a in inputs.items()}


def of_python(
    file: Path,
    name: str,
    weights: Path | None = None,
    inputs: "Tensors | None" = None,
    cast: Literal["float32"] | None = None,
    shards: "Shards" = 1,
) -> "GraphProgram":
    """What a name in a Python file stands for: a captured program, or a function that returns one.

    The function takes nothing, or the tensors of `weights` by name. What takes `inputs` by its parameters' names, or is
    returned by the function, is captured with them, and cut into `shards`. Raises CaptureError, and BindingError for
    inputs that it does not take, and for shards of what the file has captured itself.
    """
    from eigentensor.capture import GraphProgram, capture, load_weights

    value: Any = names_of(file).get(name)
    if callable(value) and not isinstance(value, GraphProgram) and (weights is not None or not _takes(value, inputs)):
        arguments = [] if weights is None else [load_weights(weights)]
        if not arguments and (needed := _needed(value)):
            raise BindingError(
                f"{name} of {file} takes {', '.join(needed)}, and is given {', '.join(inputs or ()) or 'nothing'}",
                fix=f"Give each by its name, as in -i {needed[0]}=@FILE.npy.",
            )
        with running(f"{name} of {file}", file):
            value = value(*arguments)
    elif weights is not None:
        raise BindingError(
            f"{name} of {file} takes no weights", fix="Leave --weights out, or name a function of the weights."
        )
    if callable(value) and not isinstance(value, GraphProgram) and _takes(value, inputs):
        with spending.reading(file), redirect_stdout(sys.stderr):
            return capture(inspect.unwrap(value), inputs or {}, cast=cast, shards=shards)
    if not isinstance(value, GraphProgram):
        raise CaptureError(
            f"{file} has no program named {name!r}",
            fix="Name a GraphProgram, a function that returns one, or a function of the inputs: FILE.py:NAME.",
        )
    if shards != 1:
        raise BindingError(
            f"{name} of {file} is captured by the file itself", fix=f"Write shards={shards!r} where it is captured."
        )
    return value


def names_of(file: Path) -> dict[str, Any]:
    """What a user's Python file defines. What lies beside it can be imported, as when Python runs it."""
    sys.path.insert(0, str(existing(file).parent))
    with running(str(file), file):
        return runpy.run_path(str(file), run_name="__eigentensor__")


@contextmanager
def running(what: str, file: Path) -> Iterator[None]:
    """A user's code, which may not spend anything: what it prints is talk, what it raises becomes one line, with the
    line of the file."""
    try:
        with spending.reading(file), redirect_stdout(sys.stderr):
            yield
    except PaymentRefused as error:
        raise PaymentRefused(error.what, fix=error.fix, line=_line(error, file)) from None
    except EigenTensorError:
        raise
    except (Exception, SystemExit) as error:
        raise CaptureError(
            f"{what} cannot be run: {type(error).__name__}: {error}",
            fix="Run the file with Python, and look at that line.",
            line=_line(error, file),
        ) from error


def _line(error: BaseException, file: Path) -> str:
    """Where in a file an error comes from; empty if it does not."""
    lines = [f"{file}:{frame.lineno}" for frame in extract_tb(error.__traceback__) if frame.filename == str(file)]
    return lines[-1] if lines else ""


def _needed(function: Callable[..., Any]) -> list[str]:
    """The parameters without which a function cannot be called."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind in positional and p.default is p.empty]


def _takes(function: Callable[..., Any], inputs: "Tensors | None") -> bool:
    """Whether a function's parameters are the given inputs."""
    return inputs is not None and len(inputs) > 0 and inputs.keys() <= inspect.signature(function).parameters.keys()
