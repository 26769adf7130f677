"""Which operators a model may use, and what computes each: tinygrad's where it is right, ours where it is not.

An operator is here if a test holds it, for the versions whose meaning it has; all others are refused by name. Tensors
are tinygrad's; what an operator takes as numbers (shapes, axes and the like) is known while the program is made.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from tinygrad.dtype import DTYPES_DICT
from tinygrad.nn.onnx import onnx_ops, required_input_python_consts

from eigentensor.capture.onnx.file import Node
from eigentensor.errors import CaptureError

NEWEST = 28  #: the last version of onnx's own operators whose meaning is known here


class Operator(NamedTuple):
    """`compute` takes inputs by position, attributes by name, and, if it asks, the `node` and `types` of its inputs.

    `numbers` are the places of inputs that it takes as numbers, `since` is the first version that it means.
    """

    compute: Callable[..., Any]
    numbers: tuple[int, ...] = ()
    since: int = 1

    def asks_for(self, name: str) -> bool:
        """Whether the function takes something by this name: a node, say, or an attribute of the model."""
        return name in inspect.signature(self.compute).parameters


OPERATORS: dict[str, Operator] = {}


def operator(*names: str, numbers: tuple[int, ...] = (), since: int = 1) -> Callable[..., Any]:
    """Makes a function what computes the operators of these names."""

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        OPERATORS.update(dict.fromkeys(names, Operator(compute, numbers, since)))
        return compute

    return register


def of_tinygrad(*names: str, since: int = 1) -> None:
    """Admits operators as tinygrad computes them."""
    for name in names:
        OPERATORS[name] = Operator(onnx_ops[name], required_input_python_consts.get(name, ()), since)


def operator_of(node: Node) -> Operator:
    """What computes a node. Raises CaptureError where nothing does, or not in that version, or with its attributes."""
    entry = OPERATORS[full_name(node.operator, node.domain)]
    if not entry.since <= node.opset <= NEWEST:
        raise CaptureError(
            f"the operator {node.operator} of opset {node.opset} cannot be imported",
            fix=f"export the model with an opset from {entry.since} to {NEWEST}",
        )
    for attribute in node.attributes:
        if attribute in ("node", "types") or not entry.asks_for(attribute):
            raise CaptureError(
                f"the operator {node.operator} cannot be imported with the attribute {attribute!r}",
                fix="export the model without it",
            )
    return entry


def full_name(operator: str, domain: str) -> str:
    """The operator with its domain, if that is not onnx's own."""
    return f"{domain}.{operator}" if domain else operator


def is_known(node: Node) -> bool:
    """Whether an operator of that name can be imported, in one version or another."""
    return full_name(node.operator, node.domain) in (*OPERATORS, "If")


def element_name(dtype: Any) -> str:
    """How the format calls a type of tinygrad."""
    return str(next(name for name, known in DTYPES_DICT.items() if known is dtype))


def refuse(node_or_name: Node | str, why: str, fix: str = "export the model without it") -> CaptureError:
    """What an operator raises that cannot be computed with these inputs or attributes."""
    name = node_or_name.operator if isinstance(node_or_name, Node) else node_or_name
    return CaptureError(f"the operator {name} cannot be imported: {why}", fix=fix)
