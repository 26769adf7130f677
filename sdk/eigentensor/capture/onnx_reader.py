"""tinygrad's reader and runner of ONNX models, held to what a stranger's file may do.

A model is data: nothing in it is executed but the operators that it names.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinygrad import Tensor
from tinygrad.engine.jit import JitError
from tinygrad.nn.onnx import OnnxPBParser, OnnxRunner, OnnxValue, required_input_python_consts

from eigentensor.capture.convert import DTYPES, dtype_of
from eigentensor.errors import CaptureError
from eigentensor.lowering.graph_program import CONSTANT_BYTES

#: Operators that tinygrad knows and that are no arithmetic: one hands bytes of the model to an image library.
REFUSED = frozenset({"ImageDecoder"})
#: A Gather's index of more elements stays a tensor; tinygrad makes a piece of graph of each element otherwise.
LISTED = 16


@contextmanager
def in_one_line(what: str) -> Iterator[None]:
    """Whatever tinygrad's reader raises on a malformed or unsupported model becomes one line."""
    try:
        yield
    except CaptureError:
        raise
    except Exception as error:
        said = str(error).partition("\n")[0][:200]
        raise CaptureError(f"{what}: {type(error).__name__}: {said}", fix="check it with onnx.checker") from error


class _Parser(OnnxPBParser):  # type: ignore[misc]
    """Reads external data from the model's own folder only."""

    def _parse_StringStringEntryProto(self) -> dict[str, Any]:  # noqa: N802
        entry: dict[str, Any] = super()._parse_StringStringEntryProto()
        if entry.get("key") == "location":
            folder, location = self.file_path.parent.resolve(), entry.get("value", "")
            place = (folder / location).resolve()
            if not place.is_relative_to(folder) or not place.is_file():
                raise CaptureError(
                    f"external data {location!r} are not in the model's folder", fix="copy the file beside the model"
                )
        return entry


class Runner(OnnxRunner):  # type: ignore[misc]
    """tinygrad's runner: its faults name the operator, and it never takes an input's values for numbers."""

    graph_inputs: dict[str, Any]  #: OnnxValue by name, or None for what is of no type

    def __init__(self, path: Path) -> None:
        self._init_from_graph(_Parser(path).parse()["graph"])
        lists = (n for n, t in self.graph_values.items() if t is not None and (t.ndim > 1 or t.numel() > LISTED))
        self.const_names -= set(lists)

    def weights(self) -> dict[str, Tensor]:
        """Initialisers with at least one dimension, and large tensors in the model's text, by name."""
        initialisers = {n: t for n, t in self.graph_values.items() if t is not None and t.shape}
        constants = {
            n.outputs[0]: n.opts["value"] for n in self.graph_nodes if n.op == "Constant" and "value" in n.opts
        }
        large = {name: t for name, t in constants.items() if t.shape and t.nbytes() > CONSTANT_BYTES}
        return {name: t for name, t in {**initialisers, **large}.items() if t.dtype in DTYPES}

    def refuse_unsupported(self) -> None:
        """Raises CaptureError with the names of operators, or of a tensor, that cannot be in a program."""
        unknown = {node.op for node in self.graph_nodes if not self._is_known(node)}
        if unknown:
            names = ", ".join(sorted(unknown))
            raise CaptureError(f"operators that cannot be imported: {names}", fix="export the model without them")
        read = {
            name
            for node in self.graph_nodes
            for place, name in enumerate(node.inputs)
            if place not in required_input_python_consts.get(node.op, ())
        }
        typed = {n: t.dtype for n, t in self.graph_values.items() if t is not None and n in read}
        for name, dtype in (typed | {n: spec.dtype for n, spec in self.graph_inputs.items() if spec}).items():
            try:
                dtype_of(dtype)
            except CaptureError as error:
                raise CaptureError(f"the tensor {name!r}: {error.reason}", fix=error.fix) from None

    def _is_known(self, node: Any) -> bool:
        """Whether tinygrad has the operator, and it is not one of control flow."""
        try:
            super()._select_op(node.op, node.opset_id)
        except NotImplementedError:
            return False
        return node.op not in REFUSED and not any(isinstance(value, OnnxRunner) for value in node.opts.values())

    def fix_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Give every input the shape that the model declares, completed by `shapes`."""
        if unknown := sorted(shapes.keys() - self.graph_inputs.keys()):
            there = ", ".join(self.graph_inputs) or "none"
            raise CaptureError(f"the model has no input {unknown[0]!r}", fix=f"its inputs are: {there}")
        declared = self.graph_inputs
        self.graph_inputs = {n: _fixed(n, spec, shapes.get(n)) for n, spec in declared.items()}
        numbers: dict[str, int] = {}
        for name, spec in declared.items():
            for symbol, extent in zip(spec.shape, self.graph_inputs[name].shape, strict=False):
                if isinstance(symbol, str) and numbers.setdefault(symbol, extent) != extent:
                    what = f"the shape of {name!r} has {extent} for {symbol!r}, another input's {numbers[symbol]}"
                    raise CaptureError(what, fix="give one number for each symbol")

    def _select_op(self, op: str, required_opset: Any) -> Callable[..., Any]:
        operator = super()._select_op(op, required_opset)

        def named(*inputs: Any, **attributes: Any) -> Any:
            try:
                return operator(*inputs, **attributes)
            except JitError:
                raise
            except Exception as error:
                with in_one_line(f"the operator {op} cannot be imported"):
                    raise error

        return named

    def _get_python_const(self, name: str, op: str, idx: int) -> Any:
        value = self.graph_values[name]
        is_number = idx in required_input_python_consts.get(op, ()) and isinstance(value, Tensor)
        if is_number and name not in self._python_const_cache:
            given = {self.graph_values[n].uop for n in self.graph_inputs}
            if not given.isdisjoint(value.uop.toposort()):
                raise CaptureError(
                    f"the operator {op} takes numbers that depend on an input: {name!r}",
                    fix="make that input a constant of the model",
                )
        return super()._get_python_const(name, op, idx)


def _fixed(name: str, spec: OnnxValue | None, shape: tuple[int, ...] | None) -> OnnxValue:
    if spec is None or spec.is_sequence or spec.is_optional:
        raise CaptureError(f"the input {name!r} is not a tensor", fix="export the model with tensors as inputs")
    declared = spec.shape
    if shape is None:
        if not all(isinstance(extent, int) for extent in declared):
            ones = ",".join(str(extent) if isinstance(extent, int) else "1" for extent in declared)
            raise CaptureError(
                f"the input {name!r} has the open shape {_shown(declared)}",
                fix=f"say which, as in --shape {name}={ones}; `run` takes that of the input that is given",
            )
        shape = declared
    fits = all(not isinstance(wanted, int) or wanted == e for wanted, e in zip(declared, shape, strict=False))
    if not fits or len(declared) not in (0, len(shape)) or any(extent < 0 for extent in shape):
        what = f"the input {name!r} has the shape {_shown(declared)}, not {_shown(shape)}"
        raise CaptureError(what, fix="give a shape that fits")
    return OnnxValue(tuple(shape), spec.dtype, False, False)


def _shown(shape: tuple[Any, ...]) -> str:
    return f"({', '.join('?' if extent is None else str(extent) for extent in shape)})"
