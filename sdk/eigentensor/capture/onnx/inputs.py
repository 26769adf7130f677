"""The shapes of a model's inputs: what the model leaves open is said by whoever imports it."""

from collections.abc import Mapping
from typing import Any

from eigentensor.capture.onnx.file import Declared
from eigentensor.errors import CaptureError

Shape = tuple[int, ...]


def fixed(declared: Mapping[str, Declared], shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """The shape that the model declares of each input, completed by `shapes`. Raises CaptureError."""
    if unknown := sorted(shapes.keys() - declared.keys()):
        there = ", ".join(declared) or "none"
        raise CaptureError(f"the model has no input {unknown[0]!r}", fix=f"its inputs are: {there}")
    found = {name: _fixed(name, said, shapes.get(name)) for name, said in declared.items()}
    numbers: dict[str, int] = {}
    for name, said in declared.items():
        for symbol, extent in zip(said.shape or (), found[name], strict=False):
            if isinstance(symbol, str) and numbers.setdefault(symbol, extent) != extent:
                what = f"the shape of {name!r} has {extent} for {symbol!r}, another input's {numbers[symbol]}"
                raise CaptureError(what, fix="give one number for each symbol")
    return found


def _fixed(name: str, declared: Declared, shape: Shape | None) -> Shape:
    if not declared.element:
        raise CaptureError(f"the input {name!r} is not a tensor", fix="export the model with tensors as inputs")
    wanted = declared.shape
    if shape is None:
        if wanted is None or not all(isinstance(extent, int) for extent in wanted):
            ones = ",".join(str(extent) if isinstance(extent, int) else "1" for extent in wanted or (1,))
            raise CaptureError(
                f"the input {name!r} has the open shape {_shown(wanted)}",
                fix=f"say which, as in --shape {name}={ones}; `run` takes that of the input that is given",
            )
        shape = tuple(extent for extent in wanted if isinstance(extent, int))
    elif wanted is None:
        wanted = (None,) * len(shape)
    fits = all(not isinstance(number, int) or number == e for number, e in zip(wanted, shape, strict=False))
    if not fits or len(wanted) != len(shape) or any(extent < 0 for extent in shape):
        what = f"the input {name!r} has the shape {_shown(wanted)}, not {_shown(shape)}"
        raise CaptureError(what, fix="give a shape that fits")
    return shape


def _shown(shape: tuple[Any, ...] | None) -> str:
    if shape is None:
        return "(…)"
    return f"({', '.join('?' if extent is None else str(extent) for extent in shape)})"
