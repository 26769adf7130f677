"""A run of recorded instructions as a program. Its key is all that it is: instructions, wiring, kinds, what is kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from eigentensor.graph.lower import traced
from eigentensor.graph.node import Form, Graph, Node, leaf, walk
from eigentensor.graph.schedule import LEAVES
from eigentensor.graph.simplify import simplified
from eigentensor.program.model import Program
from eigentensor.stream.operations import Kind, meaning

#: Of what comes from outside, in the place of an operation.
INPUT = "input"
#: (operation, argument, kind, signal, operands by position), or (INPUT, kind).
Entry = tuple[Any, ...]


class Key(NamedTuple):
    """The entries of a segment in order, and the positions of those whose tensors are wanted afterwards.

    Two segments are the same if these tuples are: nothing is left out, and no digest stands for anything.
    """

    entries: tuple[Entry, ...]
    wanted: tuple[int, ...]


def described(place: int, entry: Entry) -> str:
    """An entry as a line: number, kind and operation, the numbers of its operands, its argument, its signal."""
    if entry[0] is INPUT:
        return f"{place} {entry[1]} input"
    op, arg, kind, signal, *operands = entry
    words = [str(place), str(kind), op, *map(str, operands)]
    words += [f"arg={arg}"] if arg is not None else []
    return " ".join(words + ([f"signal={signal}"] if signal else []))


@dataclass(frozen=True, slots=True)
class Segment:
    """A lowered segment. `inputs` and `outputs` are the program's names by position of the entry.

    `signals` are the names of scopes by number of the call that writes what was recorded in them.
    """

    program: Program
    inputs: Mapping[int, str]
    outputs: Mapping[int, str]
    signals: Mapping[int, str]


def lowered(key: Key) -> Segment:
    """The program of a segment: what does not lead to a wanted tensor is left out, what is not wanted is stored only
    where that is cheaper. Raises CaptureError if it does not become a valid program."""
    nodes: list[Node] = []
    inputs: dict[int, str] = {}
    for position, entry in enumerate(key.entries):
        if entry[0] is INPUT:
            kind: Kind = entry[1]
            inputs[position] = f"i{len(inputs)}"
            nodes.append(leaf(Form.INPUT, inputs[position], kind.dtype, kind.shape))
        else:
            op, arg, _, _, *operands = entry
            nodes.append(meaning(op, arg, *(nodes[operand] for operand in operands)))
    outputs = {position: f"o{number}" for number, position in enumerate(key.wanted)}
    graph, origins = _with_origins(key, nodes, outputs)
    program, of_calls = traced(graph, origins)
    read = {buffer.name for buffer in program.buffers}
    signals = {call: signal for call, signal in enumerate(of_calls) if signal}
    return Segment(program, {p: name for p, name in inputs.items() if name in read}, outputs, signals)


def _with_origins(key: Key, nodes: Sequence[Node], outputs: Mapping[int, str]) -> tuple[Graph, dict[Node, str]]:
    """The simplified graph of the outputs, and the signal of the instruction that each node of it belongs to: the first
    one that it leads to."""
    wanted = {name: nodes[position] for position, name in outputs.items()}
    if all(entry[0] is INPUT or entry[3] is None for entry in key.entries):
        return simplified(Graph(wanted)), {}
    needed = set(walk(*wanted.values()))
    made = {str(p): nodes[p] for p, entry in enumerate(key.entries) if entry[0] is not INPUT and nodes[p] in needed}
    whole = simplified(Graph(made)).outputs
    origins: dict[Node, str] = {}
    for position, node in whole.items():
        for below in walk(node):
            if below is node or below.op not in LEAVES:
                origins.setdefault(below, key.entries[int(position)][3] or "")
    return Graph({name: whole[str(position)] for position, name in outputs.items()}), origins
