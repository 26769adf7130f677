"""An ONNX file as plain data: the protobuf messages of a model that an import looks at, and nothing else of them.

What is read is held to the bytes that are there: time and memory are those of the file, whatever it says. Tensors of
types without arithmetic here are kept by the type's name: a model is refused for those that it reads, not for those
that it mentions.
"""

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import CaptureError
from eigentensor.program.limits import ELEMENTS as MOST

#: Types of elements by their number in a file.
ELEMENTS = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2", 27: "float6e2m3", 28: "float6e3m2",
}  # fmt: skip
#: The field of a tensor that has its elements, if they are not raw bytes; half types lie there as patterns.
FIELD = {
    "float32": 4, "float64": 10, "int64": 7, "uint32": 11, "uint64": 11,
    **dict.fromkeys(("int32", "int16", "int8", "uint16", "uint8", "bool", "float16", "bfloat16"), 5),
}  # fmt: skip
DEPTH = 16  #: graphs within graphs
Fields = dict[int, list[Any]]


class Malformed(Exception):
    """A file is no ONNX model: why."""


class Held(NamedTuple):
    """A tensor of the file. `array` is None for a type that is not read; bfloat16 are their patterns as uint16."""

    element: str
    shape: tuple[int, ...]
    array: NDArray[Any] | None


class Declared(NamedTuple):
    """What a graph says of an input: no element for what is no tensor, no shape for one of any shape."""

    element: str
    shape: tuple[int | str | None, ...] | None


class Node(NamedTuple):
    """`attributes` are numbers, texts, tensors, graphs, or tuples of numbers or texts; the opset is its domain's."""

    operator: str
    domain: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


class Graph(NamedTuple):
    """Nodes in the order in which they are computed. Inputs are those without an initialiser."""

    nodes: tuple[Node, ...]
    initialisers: dict[str, Held]
    inputs: dict[str, Declared]
    outputs: tuple[str, ...]


def read_graph(path: Path) -> Graph:
    """The graph of a model. External data are read from its own folder only. Raises Malformed, CaptureError."""
    model = _fields(memoryview(path.read_bytes()), {7, 8})
    opsets = {_text(o, 1): _integer(o, 2, 1) for o in _messages(model, 8, {1, 2})}
    graphs = model.get(7, [])
    if len(graphs) != 1:
        raise Malformed("it has no graph")
    return _Reader(path.parent.resolve(), opsets | {"": opsets.get("", opsets.get("ai.onnx", 1))}).graph(graphs[0])


class _Reader:
    def __init__(self, folder: Path, opsets: dict[str, int]) -> None:
        self.folder = folder
        self.opsets = opsets
        self.depth = 0

    def graph(self, data: Any) -> Graph:
        if self.depth == DEPTH:
            raise Malformed(f"graphs stand within graphs more than {DEPTH} deep")
        self.depth += 1
        graph = _fields(data, {1, 5, 11, 12, 15})
        if 15 in graph:
            raise CaptureError("the model has sparse tensors", fix="export it with dense ones")
        nodes = tuple(map(self._node, graph.get(1, ())))
        initialisers = dict(map(self._named_tensor, graph.get(5, ())))
        inputs = dict(_declared(d) for d in _messages(graph, 11, {1, 2}))
        outputs = tuple(_text(d, 1) for d in _messages(graph, 12, {1}))
        self.depth -= 1
        return Graph(nodes, initialisers, {n: d for n, d in inputs.items() if n not in initialisers}, outputs)

    def _node(self, data: Any) -> Node:
        node = _fields(data, {1, 2, 4, 5, 7})
        operator, domain = _text(node, 4), _text(node, 7)
        domain = "" if domain == "ai.onnx" else domain
        attributes = dict(self._attribute(operator, a) for a in node.get(5, ()))
        return Node(operator, domain, self.opsets.get(domain, 1), _texts(node, 1), _texts(node, 2), attributes)

    def _attribute(self, operator: str, data: Any) -> tuple[str, Any]:
        attribute = _fields(data, {1, 2, 3, 4, 5, 6, 7, 8, 9, 20})
        name, kind = _text(attribute, 1), _integer(attribute, 20, 0)
        value: Any
        if kind == 1:
            value = float(next(iter(_numbers(attribute, 2, "<f4")), 0.0))
        elif kind == 2:
            value = _integer(attribute, 3, 0)
        elif kind == 3:
            value = _text(attribute, 4)
        elif kind == 4 and 5 in attribute:
            value = self._tensor(attribute[5][-1])
        elif kind == 5 and 6 in attribute:
            value = self.graph(attribute[6][-1])
        elif kind == 6:
            value = tuple(map(float, _numbers(attribute, 7, "<f4")))
        elif kind == 7:
            value = tuple(map(int, _integers(attribute, 8)))
        elif kind == 8:
            value = _texts(attribute, 9)
        else:
            raise CaptureError(
                f"the attribute {name!r} of {operator} has a type that cannot be imported", fix="export without it"
            )
        return name, value

    def _named_tensor(self, data: Any) -> tuple[str, Held]:
        return _text(_fields(data, {8}), 8), self._tensor(data)

    def _tensor(self, data: Any) -> Held:
        tensor = _fields(data, {1, 2, 4, 5, 7, 9, 10, 11, 13, 14})
        shape, element = tuple(map(int, _integers(tensor, 1))), element_of(_integer(tensor, 2, 0))
        if element not in FIELD:
            return Held(element, shape, None)
        if min(shape, default=0) < 0 or prod(extent or 1 for extent in shape) > MOST:
            raise Malformed(f"a tensor has the shape {shape}")
        if _integer(tensor, 14, 0) == 1:
            flat = self._external(tensor, shape, element)
        elif 9 in tensor:
            flat = np.frombuffer(_bytes(tensor[9][-1]), stored(element))
        elif (field := FIELD[element]) in (4, 10):
            flat = _numbers(tensor, field, stored(element).str)
        else:
            flat = _of_integers(_integers(tensor, field), element)
        if flat.size != prod(shape):
            raise Malformed(f"a tensor of the shape {shape} has {flat.size} elements")
        return Held(element, shape, (flat != 0 if element == "bool" else flat).reshape(shape))

    def _external(self, tensor: Fields, shape: tuple[int, ...], element: str) -> NDArray[Any]:
        entries = {_text(entry, 1): _text(entry, 2) for entry in _messages(tensor, 13, {1, 2})}
        location = entries.get("location", "")
        place = (self.folder / location).resolve()
        if not place.is_relative_to(self.folder) or not place.is_file():
            raise CaptureError(
                f"external data {location!r} are not in the model's folder", fix="copy the file beside the model"
            )
        offset = int(entries.get("offset", "0"))
        if offset < 0 or offset > place.stat().st_size:
            raise Malformed(f"external data begin at {offset} of {location!r}")
        count = prod(shape)
        if int(entries.get("length", str(count * stored(element).itemsize))) != count * stored(element).itemsize:
            raise Malformed(f"external data of {location!r} are not those of a tensor of the shape {shape}")
        return np.fromfile(place, stored(element), count, offset=offset)


def element_of(number: int) -> str:
    """The name of a type of elements; a number that is unknown is its own name."""
    return ELEMENTS.get(number, f"type {number}")


def stored(element: str) -> np.dtype[Any]:
    """How the elements of a type lie in a file."""
    return np.dtype("uint16" if element == "bfloat16" else element).newbyteorder("<")


def _of_integers(values: NDArray[np.int64], element: str) -> NDArray[Any]:
    if element in ("float16", "bfloat16"):
        return values.astype(np.uint16).view(stored(element))
    return values.astype(stored(element))


def _declared(value: Fields) -> tuple[str, Declared]:
    """A tensor type has an element type, and a shape of extents, each a number, a symbol or open."""
    kinds = _fields(_bytes(value[2][-1]), {1}) if 2 in value else {}
    if 1 not in kinds:
        return _text(value, 1), Declared("", None)
    tensor = _fields(_bytes(kinds[1][-1]), {1, 2})
    shape: tuple[int | str | None, ...] | None = None
    if 2 in tensor:
        dimensions = _messages(_fields(_bytes(tensor[2][-1]), {1}), 1, {1, 2})
        shape = tuple(_text(d, 2) or (_integer(d, 1, 0) if 1 in d else None) for d in dimensions)
        shape = tuple(None if isinstance(extent, int) and extent < 0 else extent for extent in shape)
    return _text(value, 1), Declared(element_of(_integer(tensor, 1, 0)), shape)


def _fields(data: Any, wanted: set[int]) -> Fields:
    """Those fields of a message that are wanted: integers as they are, all else as bytes, in their order."""
    data, place, fields = _bytes(data), 0, Fields()
    while place < len(data):
        tag, place = _varint(data, place)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == 0:
            value, place = _varint(data, place)
        elif wire in (1, 2, 5):
            length, place = _varint(data, place) if wire == 2 else ({1: 8, 5: 4}[wire], place)
            value, place = data[place : place + length], place + length
        else:
            raise Malformed(f"a field has the wire type {wire}")
        if place > len(data):
            raise Malformed("it ends within a field")
        if number in wanted:
            fields.setdefault(number, []).append(value)
    return fields


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for shift, byte in zip(range(0, 70, 7), data[place : place + 10], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + shift // 7 + 1
    raise Malformed("a number does not end")


def _messages(fields: Fields, number: int, wanted: set[int]) -> Iterator[Fields]:
    return (_fields(data, wanted) for data in fields.get(number, ()))


def _bytes(value: Any) -> memoryview:
    if not isinstance(value, memoryview):
        raise Malformed("a number stands where bytes belong")
    return value


def _texts(fields: Fields, number: int) -> tuple[str, ...]:
    return tuple(str(_bytes(value), "utf-8") for value in fields.get(number, ()))


def _text(fields: Fields, number: int) -> str:
    return next(reversed(_texts(fields, number)), "")


def _integer(fields: Fields, number: int, default: int) -> int:
    values = _integers(fields, number)
    return int(values[-1]) if len(values) else default


def _integers(fields: Fields, number: int) -> NDArray[np.int64]:
    """Signed integers, whether each is a field of its own or many are packed into one."""
    parts = [
        _packed(np.frombuffer(value, np.uint8))
        if isinstance(value, memoryview)
        else np.array([value & 0xFFFFFFFFFFFFFFFF], np.uint64)
        for value in fields.get(number, ())
    ]
    return np.concatenate(parts or [np.empty(0, np.uint64)]).view(np.int64)


def _packed(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    ends = np.flatnonzero(data < 0x80)
    if not data.size:
        return np.empty(0, np.uint64)
    if not ends.size or ends[-1] != data.size - 1:
        raise Malformed("a number does not end")
    starts = np.concatenate([[0], ends[:-1] + 1])
    if np.max(ends - starts) > 9:
        raise Malformed("a number does not end")
    shifts = (np.arange(data.size) - np.repeat(starts, ends - starts + 1)) * 7
    return np.add.reduceat((data & 0x7F).astype(np.uint64) << shifts.astype(np.uint64), starts)


def _numbers(fields: Fields, number: int, dtype: str) -> NDArray[Any]:
    """Floats, whether each is a field of its own or many are packed into one."""
    return np.frombuffer(b"".join(_bytes(value) for value in fields.get(number, ())), dtype)


# The shapes of a model's inputs: what the model leaves open is said by whoever imports it.

Shape = tuple[int, ...]


def fixed(declared: Mapping[str, Declared], shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """The shape that the model declares of each input, completed by `shapes`. Raises CaptureError."""
    if unknown := sorted(shapes.keys() - declared.keys()):
        there = ", ".join(declared) or "none"
        raise CaptureError(f"the model has no input {unknown[0]!r}", fix=f"Its inputs are: {there}.")
    extents = {name: _fixed(name, declaration, shapes.get(name)) for name, declaration in declared.items()}
    numbers: dict[str, int] = {}
    for name, declaration in declared.items():
        for symbol, extent in zip(declaration.shape or (), extents[name], strict=False):
            if isinstance(symbol, str) and numbers.setdefault(symbol, extent) != extent:
                what = f"the shape of {name!r} has {extent} for {symbol!r}, another input's {numbers[symbol]}"
                raise CaptureError(what, fix="give one number for each symbol")
    return extents


def _fixed(name: str, declared: Declared, shape: Shape | None) -> Shape:
    if not declared.element:
        raise CaptureError(f"the input {name!r} is not a tensor", fix="export the model with tensors as inputs")
    wanted = declared.shape
    if shape is None:
        if wanted is None or not all(isinstance(extent, int) for extent in wanted):
            ones = ",".join(str(extent) if isinstance(extent, int) else "1" for extent in wanted or (1,))
            raise CaptureError(
                f"the input {name!r} has the open shape {_shown(wanted)}",
                fix=f"Say which, such as {name}={ones}.",
                topic="shapes",
            )
        shape = tuple(extent for extent in wanted if isinstance(extent, int))
    elif wanted is None:
        wanted = (None,) * len(shape)
    fits = all(not isinstance(number, int) or number == e for number, e in zip(wanted, shape, strict=False))
    if not fits or len(wanted) != len(shape) or any(extent < 0 for extent in shape):
        what = f"the input {name!r} has the shape {_shown(wanted)}, not {_shown(shape)}"
        raise CaptureError(
            what, fix=f"Give {name!r} the shape {_shown(wanted)}, or export the model with open extents."
        )
    return shape


def _shown(shape: tuple[Any, ...] | None) -> str:
    if shape is None:
        return "(…)"
    return f"({', '.join('?' if extent is None else str(extent) for extent in shape)})"
