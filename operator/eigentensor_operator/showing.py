"""Leaves of a result that its client demands, shown under the outputs root. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eigentensor import merkle
from eigentensor.chain import LeafProof
from eigentensor.program import Program
from eigentensor.program.binding import Results
from eigentensor.program.model import Result
from eigentensor.task import Leaf
from eigentensor.tracing import Flat

Flats = Mapping[str, Flat]


def prove(program: Program, results: Results, leaves: Sequence[Leaf]) -> list[LeafProof]:
    """For each leaf what shows it, or that the results have none such."""
    outputs = _flats(program, program.outputs, results.outputs)
    states = _flats(program, program.new_states, results.states)
    return [_prove(leaf, *((states, outputs) if leaf.state else (outputs, states))) for leaf in leaves]


def _prove(leaf: Leaf, named: Flats, others: Flats) -> LeafProof:
    other = merkle.bindings_root({name: flat.root for name, flat in others.items()})
    names = sorted(named)
    bindings = [merkle.binding_hash(name, named[name].root) for name in names]
    if leaf.tensor >= len(names):
        return LeafProof(other, len(names), b"", (), 0, 0, merkle.tree_root(bindings), b"", ())
    name = names[leaf.tensor]
    flat, binding = named[name], merkle.path(bindings, leaf.tensor)
    data, path = b"", tuple[bytes, ...]()
    if leaf.index < len(flat.leaves.leaves):
        data, path = flat.leaf(leaf.index), flat.leaves.opening(leaf.index).path
    tree, elements = flat.leaves.root, len(flat.array)
    return LeafProof(other, len(names), name.encode(), binding, flat.dtype, elements, tree, data, path)


def _flats(program: Program, records: Mapping[str, Result], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Flats:
    return {name: Flat(program.parameter(r.buffer).dtype, arrays[name].reshape(-1)) for name, r in records.items()}
