"""What a function returns, without its tensors: filled from a result by the process that called it, or by another."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tinygrad import Tensor, dtypes
from tinygrad.dtype import DType

from eigentensor.capture import adapter
from eigentensor.capture.convert import DTYPES
from eigentensor.capture.structure import Leaf, is_record, items_of, leaves_in, made_of, put_together
from eigentensor.capture.values import Values, assign, tensor_of
from eigentensor.errors import BindingError
from eigentensor.program.model import Program

_TINYGRAD = {ours: theirs for theirs, ours in DTYPES.items()}
_KNOWN = (bool, int, str, type(None))  # as they are in JSON


@dataclass(frozen=True, slots=True)
class Returns:
    """`structure` has the names of outputs where there are tensors, which come to lie on `device`.

    `held` are the tensors that the function assigns to, by the names of the program's states; `names` are theirs.
    """

    structure: Any
    device: str
    names: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, Tensor] = field(default_factory=dict, repr=False)

    def filled(self, program: Program, outputs: Values, states: Values, kind: Callable[[Any], Any] = Tensor) -> Any:
        """What the function returns, with tensors that `kind` makes, out of a result of its program.

        The tensors that it assigns to have their new values afterwards.
        """
        dtype = {name: _TINYGRAD[program.parameter(result.buffer).dtype] for name, result in program.outputs.items()}
        with adapter.computing():
            for name, values in states.items():
                assign(self.held[name], values)
            made = {
                name: tensor_of(outputs[name], dtype[name], self.device, kind) for name in leaves_in(self.structure)
            }
            return put_together(self.structure, made)

    def to_json(self, module: str) -> dict[str, Any]:
        """For `from_json`; classes of the function's own module are named without it. What is in a structure and can
        be found nowhere again is named only."""
        return {"structure": _written(self.structure, module), "device": self.device, "names": dict(self.names)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], module: str, tensors: Mapping[str, Tensor]) -> Self:
        """What `to_json` wrote, for the function of this module that refers to these tensors by name.

        Raises BindingError for what is not there any more.
        """
        names = dict(values["names"])
        if adapter.RANDOM_COUNTER in names:
            tensors = {**tensors, **adapter.random_state()}
        if missing := sorted(name for name in names.values() if name not in tensors):
            raise BindingError(f"the function has no tensor {missing[0]!r} any more", fix="Define it as it was.")
        held = {state: tensors[name] for state, name in names.items()}
        return cls(_read(values["structure"], module), str(values["device"]), names, held)


def _written(value: Any, module: str) -> Any:
    kind = type(value)
    if isinstance(value, Leaf):
        return {"tensor": value.name}
    if kind in _KNOWN:
        return value
    if kind is float:
        return {"float": value.hex()}
    if kind is bytes:
        return {"bytes": value.hex()}
    if isinstance(value, DType):
        return {"dtype": repr(value).removeprefix("dtypes.")}
    if kind is dict:
        return {"dict": [[_written(key, module), _written(item, module)] for key, item in value.items()]}
    if kind in (list, tuple):
        return {kind.__name__: [_written(item, module) for item in value]}
    if hasattr(value, "_fields") or is_record(value):
        fields = {name: _written(item, module) for name, item in items_of(value).items()}
        place = "" if kind.__module__ == module else kind.__module__
        return {"class": kind.__qualname__, "of": place, "fields": fields}
    return {"unknown": kind.__name__}


def _read(value: Any, module: str) -> Any:
    match value:
        case {"tensor": name}:
            return Leaf(name)
        case {"float": text}:
            return float.fromhex(text)
        case {"bytes": text}:
            return bytes.fromhex(text)
        case {"dtype": name}:
            return getattr(dtypes, name)
        case {"dict": pairs}:
            return {_read(key, module): _read(item, module) for key, item in pairs}
        case {"list": items}:
            return [_read(item, module) for item in items]
        case {"tuple": items}:
            return tuple(_read(item, module) for item in items)
        case {"class": name, "of": place, "fields": fields}:
            kind = _class(name, place or module, set(fields))
            return made_of(kind, {n: _read(v, module) for n, v in fields.items()})
        case {"unknown": name}:
            raise BindingError(
                f"the call returns a {name}, which another process cannot know", fix=_OUTPUTS, topic="outputs"
            )
    return value


_OUTPUTS = "Fetch the outputs by their names."


def _class(name: str, module: str, fields: set[str]) -> Any:
    """A class that this process has under this name, with these fields."""
    candidate: Any = sys.modules.get(module)
    for part in name.split("."):
        candidate = getattr(candidate, part, None)
    there = getattr(candidate, "_fields", None) or getattr(candidate, "__dataclass_fields__", None)
    if not isinstance(candidate, type) or there is None or not fields <= set(there):
        what = f"the call returns a {name} of {module} with the fields {', '.join(sorted(fields))}; there is none here"
        raise BindingError(what, fix=f"Define it at the top of that module. {_OUTPUTS}", topic="outputs")
    return candidate
