"""A graph as JSON: data only, versioned, bounded, the same text for the same graph. Its weights stand beside it.

{"eigentensor.graph": 1, "nodes": […], "outputs": {name: number}, "states": {name: number}}: operands come before their
users, "src" are their numbers. Leaves say "dtype" and "shape", what is computed has those that follow; "arg" as in
`Form` and `Node`, bytes in base64, types by name, a variable as [name, minimum, maximum, stride].
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from eigentensor.errors import CaptureError, GraphFileError
from eigentensor.graph.node import Form, Graph, Node, constant, counter, data, leaf, node, variable, walk
from eigentensor.graph.validity import AXES, breach
from eigentensor.numerics.dtypes import DType
from eigentensor.program.limits import RESULTS
from eigentensor.program.model import Variable
from eigentensor.program.ops import Op

VERSION = 1
MARK = "eigentensor.graph"
BYTES = 64 << 20  #: of a file
NODES = 1 << 18
_SHAPED = (Form.INPUT, Form.WEIGHT, Form.STATE, Form.DATA, Form.COUNTER, Op.CONST)
_OPS: dict[str, Op | Form] = {op.name: op for kind in (Op, Form) for op in kind}


def encode(graph: Graph) -> bytes:
    """The text of a graph without its data."""
    order = list(walk(*graph.roots))
    number = {n: i for i, n in enumerate(order)}
    named = ((word, {name: number[n] for name, n in sorted(of.items())}) for word, of in _parts(graph))
    nodes = [_encoded(n, number) for n in order]
    fields = {MARK: VERSION, "nodes": nodes, **dict(named)}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def decode(text: bytes, tensors: Mapping[str, NDArray[Any]] | None = None) -> Graph:
    """The graph of a text, with these data. Raises GraphFileError unless every node is valid."""
    if len(text) > BYTES:
        raise _malformed(f"{len(text)} bytes, at most {BYTES} are read")
    try:
        fields = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _malformed(str(error)) from None
    if not isinstance(fields, dict) or set(fields) != {MARK, "nodes", "outputs", "states"}:
        raise _malformed(f"it has not the fields {MARK}, nodes, outputs, states")
    if fields[MARK] != VERSION:
        raise _malformed(f"version {fields[MARK]!r}, this release reads {VERSION}")
    entries = fields["nodes"]
    if not isinstance(entries, list) or len(entries) > NODES:
        raise _malformed(f"no list of at most {NODES} nodes")
    nodes: list[Node] = []
    for entry in entries:
        nodes.append(_valid(entry, nodes))
    outputs, states = (_results(fields[word], nodes, word) for word in ("outputs", "states"))
    if not outputs:
        raise _malformed("it has no output")
    return Graph(outputs, states, tensors or {})


def _parts(graph: Graph) -> tuple[tuple[str, Mapping[str, Node]], ...]:
    return ("outputs", graph.outputs), ("states", graph.states)


def _encoded(n: Node, number: Mapping[Node, int]) -> dict[str, Any]:
    entry: dict[str, Any] = {"op": n.op.name}
    if n.op in _SHAPED:
        entry |= {"dtype": n.dtype.name.lower(), "shape": n.shape}
    if n.src:
        entry["src"] = [number[s] for s in n.src]
    if n.arg is not None:
        entry["arg"] = n.arg
    if n.op is Form.DATA:
        entry["arg"] = b64encode(n.arg).decode()
    elif n.op in (Op.CAST, Op.BITCAST):
        entry["arg"] = n.arg.name.lower()
    return entry


def _valid(entry: Any, before: list[Node]) -> Node:
    place = f"node {len(before)}"
    try:
        decoded = _decoded(entry, before)
        wrong = breach(decoded)
    except CaptureError as error:
        raise _malformed(f"{place}: {error.reason}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise _malformed(f"{place} is no node: {str(entry)[:80]}") from None
    if wrong:
        raise _malformed(f"{place}: {decoded.op.name}: {wrong}")
    return decoded


def _decoded(entry: dict[str, Any], before: list[Node]) -> Node:
    op = _OPS[entry["op"]]
    keys = {"op", "dtype", "shape"} if op in _SHAPED else {"op"} if op is Form.VARIABLE else {"op", "src"}
    if not keys <= set(entry) <= keys | {"arg"}:
        raise ValueError
    arg = _tuples(entry.get("arg"))
    if op is Form.VARIABLE:
        return variable(Variable(*arg))
    if op in _SHAPED:
        return _leaf(op, _dtype(entry["dtype"]), _tuples(entry["shape"]), arg)
    numbers = entry["src"]
    if not all(_is_number(i, before) for i in numbers) or (isinstance(arg, tuple) and len(arg) > AXES):
        raise ValueError
    if op in (Op.CAST, Op.BITCAST):
        arg = _dtype(arg)
    return node(op, *(before[i] for i in numbers), arg=arg)


def _leaf(op: Op | Form, dtype: DType, shape: Any, arg: Any) -> Node:
    if not isinstance(shape, tuple) or len(shape) > AXES or not all(type(e) is int for e in shape):
        raise ValueError
    if op is Op.CONST:
        return constant(dtype, arg, shape)
    if op is Form.COUNTER:
        return counter(shape, arg)
    if op is Form.DATA:
        return data(dtype, shape, b64decode(arg, validate=True))
    return leaf(Form(op), arg, dtype, shape)


def _results(numbers: Any, nodes: list[Node], word: str) -> dict[str, Node]:
    right = isinstance(numbers, dict) and len(numbers) <= RESULTS
    if not right or not all(_is_number(i, nodes) for i in numbers.values()):
        raise _malformed(f"{word} are no numbers of nodes by name")
    return {name: nodes[i] for name, i in numbers.items()}


def _is_number(i: Any, nodes: list[Node]) -> bool:
    return type(i) is int and 0 <= i < len(nodes)


def _dtype(name: Any) -> DType:
    if not isinstance(name, str) or name != name.lower():
        raise ValueError
    return DType[name.upper()]


def _tuples(value: Any) -> Any:
    """An argument; 6.0 and true would be taken for 6 and 1 later on."""
    if isinstance(value, float | bool | dict):
        raise ValueError
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a name occurs twice")
    return values


def _malformed(what: str) -> GraphFileError:
    return GraphFileError(f"this is no graph: {what}", fix="Write it anew with save_graph.")
