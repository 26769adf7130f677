"""A run of recorded instructions as a program. Its key is all that it is: instructions, wiring, kinds, what is kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from eigentensor.graph.lower import lower
from eigentensor.graph.node import Form, Graph, Node, leaf
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
    graph = simplified(Graph({name: nodes[position] for position, name in outputs.items()}))
    program = lower(graph, fingerprint=False).program
    read = {buffer.name for buffer in program.buffers}
    first = len(program.buffers)
    scopes = {position: key.entries[position][3] for position in key.wanted}
    signals = {
        program.outputs[name].buffer - first: scope
        for position, name in outputs.items()
        if (scope := scopes[position]) is not None and program.outputs[name].buffer >= first
    }
    return Segment(program, {p: name for p, name in inputs.items() if name in read}, outputs, signals)
