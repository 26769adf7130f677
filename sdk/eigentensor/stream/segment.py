"""A run of recorded instructions as a program. Its key is all that it is: instructions, wiring, kinds, what is kept."""

from collections.abc import Container, Mapping, Sequence
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
#: So often a segment is followed by the same other one before the two are joined: what is new then is lowered anew.
SIGHTS = 32
#: So many segments are one at most.
MOST = 4
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


class Ended(NamedTuple):
    """A segment as it was sent: the session's numbers of what it read, by position, and positions of what it left, by
    their numbers."""

    key: Key
    read: Mapping[int, int]
    left: Mapping[int, int]


def joined(first: Ended, second: Ended, held: Container[int]) -> Key:
    """The key of both as they would be recorded in one run, where of what the first one left these numbers are held."""
    entries: list[Entry] = list(first.key.entries)
    known = {handle: place for place, handle in first.read.items()} | dict(first.left)
    moved: list[int] = []
    for place, entry in enumerate(second.key.entries):
        if entry[0] is INPUT and second.read.get(place) in known:
            moved.append(known[second.read[place]])
            continue
        moved.append(len(entries))
        entries.append(entry if entry[0] is INPUT else (*entry[:4], *(moved[operand] for operand in entry[4:])))
    kept = [place for handle, place in first.left.items() if handle in held]
    return Key(tuple(entries), (*kept, *(moved[place] for place in second.key.wanted)))
