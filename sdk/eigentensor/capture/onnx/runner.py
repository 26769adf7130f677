"""A graph's nodes, computed with tinygrad's tensors, held to what a stranger's file may do.

A model is data: nothing in it is executed but the operators that it names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any, cast

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.dtype import DTYPES_DICT, strong_dtype
from tinygrad.engine.jit import JitError

from eigentensor.capture import adapter
from eigentensor.capture.convert import CAST, DTYPES, dtype_of
from eigentensor.capture.onnx import (  # noqa: F401 they register
    arithmetic,
    attention,
    estimators,
    movement,
    pooling,
    sampling,
    trees,
)
from eigentensor.capture.onnx.file import Graph, Held, Node, element_of, stored
from eigentensor.capture.onnx.registry import full_name, is_known, operator_of, refuse
from eigentensor.errors import CaptureError
from eigentensor.lowering.graph_program import CONSTANT_BYTES
from eigentensor.program.limits import DIMENSIONS, ELEMENTS

#: Attributes that are types of elements, by number.
TYPES = ("to", "dtype", "output_dtype", "output_datatype", "softmax_precision", "precision", "stash_type")
NUMBERS = 1 << 12  #: what an operator takes as numbers has at most as many
COMPUTED = 1 << 24  #: elements of the tensors that numbers are computed from
Values = dict[str, Tensor | None]  #: by name; None for an optional result that is not computed


@contextmanager
def in_one_line(what: str) -> Iterator[None]:
    """Whatever tinygrad raises on shapes and types that do not fit becomes one line."""
    try:
        yield
    except (CaptureError, JitError):
        raise
    except Exception as error:
        message = str(error).partition("\n")[0][:200]
        raise CaptureError(f"{what}: {type(error).__name__}: {message}", fix="check it with onnx.checker") from error


class Elements:
    """Types of elements as tinygrad's; where it is to be cast, float64 is float32."""

    def __init__(self, *, cast: bool) -> None:
        self.cast = cast
        self.casts: dict[str, None] = {}  #: what was float64, in the order in which it was met

    def dtype(self, element: str, what: str) -> Any:
        """Raises CaptureError, which names `what` has the type, for one that no program has."""
        if element == "float64" and self.cast:
            self.casts[what] = None
            return dtypes.float32
        if element == "float64":
            raise CaptureError(f"{what}: float64 cannot be in a program", fix=CAST, topic="cast")
        if (dtype := DTYPES_DICT.get(element)) not in DTYPES:
            raise CaptureError(
                f"{what}: {element or 'what is no tensor'} cannot be in a program", fix="export it with float32"
            )
        return dtype

    def tensor(self, held: Held, what: str) -> Tensor:
        """A tensor of the file, copied: tinygrad never sees the file."""
        dtype = self.dtype(held.element, what)
        assert held.array is not None
        if not held.shape and dtype is not dtypes.bfloat16:
            return Tensor(held.array.item(), dtype=dtype)
        with np.errstate(over="ignore"):
            array = np.array(held.array, stored(held.element if held.element != "float64" else "float32"))
        tensor = Tensor(array, device=adapter.DEVICE)
        return tensor.bitcast(dtype) if dtype is dtypes.bfloat16 else tensor


class Runner:
    """Computes the graph's outputs from its inputs, as often as asked; numbers are computed once, and kept."""

    def __init__(self, graph: Graph, elements: Elements) -> None:
        self.graph = graph
        self.elements = elements
        self.held = dict(graph.initialisers)
        for node in graph.nodes:
            if node.operator == "Constant" and isinstance(value := node.attributes.get("value"), Held):
                self.held |= dict.fromkeys(node.outputs, value)
        self.constants: dict[str, Tensor] = {}
        self.numbers: dict[str, Any] = {}
        self.branches: dict[tuple[str, ...], Runner] = {}
        self._refuse_unknown()

    def _refuse_unknown(self) -> None:
        if unknown := sorted({full_name(n.operator, n.domain) for n in self.graph.nodes if not is_known(n)}):
            what = f"operators that cannot be imported: {', '.join(unknown)}"
            raise CaptureError(what, fix="export the model without them")
        names = [*self.graph.initialisers, *self.graph.inputs]
        names += [name for node in self.graph.nodes for name in node.outputs if name]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise CaptureError(f"two tensors have the name {twice[0]!r}", fix="check it with onnx.checker")

    def constant(self, name: str) -> Tensor:
        """A tensor that the file holds, the same one each time. Raises CaptureError for a type without arithmetic."""
        if name not in self.constants:
            self.constants[name] = self.elements.tensor(self.held[name], f"the tensor {name!r}")
        return self.constants[name]

    def weights(self) -> dict[str, Tensor]:
        """Initialisers with dimensions, and large tensors in the model's text, by name, if they are read."""
        read = _read(self.graph)
        large = {n for n, t in self.held.items() if t.array is not None and t.array.nbytes > CONSTANT_BYTES}
        wanted = read & (large | self.graph.initialisers.keys())
        return {name: self.constant(name) for name, held in self.held.items() if held.shape and name in wanted}

    def __call__(self, feeds: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs by name."""
        return self._outputs(dict(feeds), {tensor.uop: name for name, tensor in feeds.items()})

    def _outputs(self, values: Values, inputs: dict[Any, str]) -> dict[str, Tensor]:
        for node in self.graph.nodes:
            with in_one_line(f"the operator {node.operator} cannot be imported"):
                results = [_bounded(result, node) for result in self._computed(node, values, inputs)]
            values |= {name: result for name, result in zip(node.outputs, results, strict=False) if name}
        outputs = {name: self._value(name, values) for name in self.graph.outputs}
        if missing := [name for name, tensor in outputs.items() if tensor is None]:
            raise CaptureError(f"nothing computes the output {missing[0]!r}", fix="check it with onnx.checker")
        return {name: tensor for name, tensor in outputs.items() if tensor is not None}

    def _value(self, name: str, values: Values) -> Tensor | None:
        if not name:
            return None
        if name in self.held:
            return self.constant(name)
        if name not in values:
            raise CaptureError(f"nothing computes {name!r} before it is read", fix="check it with onnx.checker")
        return values[name]

    def _computed(self, node: Node, values: Values, inputs: dict[Any, str]) -> tuple[Any, ...]:
        if node.operator == "If":
            return self._branch(node, values, inputs)
        if node.outputs[:1] and node.outputs[0] in self.held:
            return ()  # of the types of constants only those matter that are read
        operator = operator_of(node)
        arguments = [
            self._number(node, name, values, inputs)
            if place in operator.numbers or self._is_listed(node, place)
            else self._value(name, values)
            for place, name in enumerate(node.inputs)
        ]
        named: dict[str, Any] = {name: self._attribute(node, name, value) for name, value in node.attributes.items()}
        if operator.asks_for("node"):
            named["node"] = node
        if operator.asks_for("types"):
            named["types"] = [None if (t := self._value(name, values)) is None else t.dtype for name in node.inputs]
        result = operator.compute(*arguments, **named)
        return tuple(result) if isinstance(result, tuple | list) else (result,)

    def _branch(self, node: Node, values: Values, inputs: dict[Any, str]) -> tuple[Any, ...]:
        """What the branch of a known condition computes; the other one is not looked at."""
        holds = arithmetic.number(self._number(node, node.inputs[0], values, inputs))
        branch = node.attributes.get("then_branch" if holds else "else_branch")
        if not isinstance(branch, Graph):
            raise refuse(node, "it has no branch", "check it with onnx.checker")
        if node.outputs not in self.branches:
            self.branches[node.outputs] = Runner(branch, self.elements)
        around = {name: self._value(name, values) for name in _read(branch) if name in values or name in self.held}
        return tuple(self.branches[node.outputs]._outputs(around, inputs).values())

    def _attribute(self, node: Node, name: str, value: Any) -> Any:
        what = f"the attribute {name!r} of {node.operator}"
        if isinstance(value, Held):
            return self.elements.tensor(value, what)
        if name in TYPES and isinstance(value, int):
            return self.elements.dtype(element_of(value), what) if value else None
        return value

    def _is_listed(self, node: Node, place: int) -> bool:
        held = self.held.get(node.inputs[place])
        return (
            node.operator == "Gather"
            and place == 1
            and held is not None
            and len(held.shape) < 2
            and prod(held.shape) <= movement.LISTED
        )

    def _number(self, node: Node, name: str, values: Values, inputs: dict[Any, str]) -> Any:
        """The elements of a tensor that is known while the program is made."""
        if name in self.held and (array := self.held[name].array) is not None and self.held[name].element != "bfloat16":
            _few(array.size, node, name)
            return array.tolist()
        value = self._value(name, values)
        if value is None:
            return None
        if name not in self.numbers:
            _few(value.numel(), node, name)
            made_of = value.uop.toposort()
            if read := next((inputs[u] for u in made_of if u in inputs), None):
                raise CaptureError(
                    f"the operator {node.operator} takes numbers that depend on an input: {read!r}",
                    fix="make that input a constant of the model",
                )
            if any(prod(u.shape) > COMPUTED for u in made_of if u._shape is not None):
                raise refuse(node, f"{name!r} is computed from more than {COMPUTED} elements")
            with adapter.computing():
                self.numbers[name] = value.tolist()
        return self.numbers[name]


def _read(graph: Graph) -> set[str]:
    """Names that a graph reads, and the graphs within it."""
    inner = (value for node in graph.nodes for value in node.attributes.values() if isinstance(value, Graph))
    return {name for node in graph.nodes for name in node.inputs}.union(graph.outputs, *map(_read, inner))


def _few(count: int, node: Node, name: str) -> None:
    if count > NUMBERS:
        raise refuse(node, f"it takes {count} numbers from {name!r}, and may take {NUMBERS}")


def _bounded(result: Any, node: Node) -> Tensor | None:
    """A result that a program may have. Raises CaptureError."""
    if result is None:
        return None
    if len(result.shape) > DIMENSIONS or prod(extent or 1 for extent in result.shape) > ELEMENTS:
        raise refuse(node, f"a tensor of the shape {result.shape}")
    try:
        dtype_of(strong_dtype(result.dtype))
    except CaptureError as error:
        raise refuse(node, error.reason, error.fix) from None
    return cast(Tensor, result)
