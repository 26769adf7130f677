"""What a task gives back, kept until nobody can ask for it any more, and the leaves of it that its client demands."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eigentensor import merkle
from eigentensor.chain import LeafProof
from eigentensor.program import Program
from eigentensor.program.binding import Results
from eigentensor.program.model import Kind, Result
from eigentensor.store import GatewayClient, load_safetensors, save_safetensors
from eigentensor.store.parts import encode_results
from eigentensor.task import Leaf
from eigentensor.tracing import Flat

Flats = Mapping[str, Flat]


class Shelf:
    """Results that were computed, kept until their tasks are over: a folder for each task."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def keep(self, task: bytes, program: Program, results: Results) -> bytes:
        """Outputs, new states and the roots of both are on disk; returns the outputs root."""
        folder = self.root / task.hex()
        folder.mkdir(parents=True, exist_ok=True)
        roots = []
        for kind, tensors in ((Kind.OUTPUT, results.outputs), (Kind.STATE, results.states)):
            dtypes = {r.name: program.parameter(r.buffer).dtype for r in program.results if r.kind is kind}
            roots.append(merkle.bindings_root({n: merkle.tensor_root(dtypes[n], a) for n, a in tensors.items()}))
            if tensors:
                save_safetensors(folder / f"{kind.name.lower()}.safetensors", tensors, dtypes)
        (folder / "roots").write_bytes(encode_results(*roots))
        for path in folder.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        return merkle.outputs_root(*roots)

    def upload(self, task: bytes, gateway: GatewayClient) -> None:
        """Gives everything that was kept to the gateway. Raises StoreError; what arrived is not sent again."""
        for path in sorted((self.root / task.hex()).iterdir()):
            gateway.upload(path)

    def prove(self, task: bytes, program: Program, leaves: Sequence[Leaf]) -> list[LeafProof]:
        """What shows these leaves of a kept result."""
        return _proofs(program, self._results(task), leaves)

    def _results(self, task: bytes) -> Results:
        files = {kind: self.root / task.hex() / f"{kind.name.lower()}.safetensors" for kind in Kind}
        outputs, states = (load_safetensors(f) if f.exists() else {} for f in (files[Kind.OUTPUT], files[Kind.STATE]))
        return Results(outputs, states)

    def drop(self, task: bytes) -> None:
        """Deletes what was kept for a task."""
        folder = self.root / task.hex()
        for path in folder.glob("*"):
            path.unlink()
        if folder.exists():
            folder.rmdir()


def _proofs(program: Program, results: Results, leaves: Sequence[Leaf]) -> list[LeafProof]:
    """For each leaf what shows it, or that the results have none such."""
    outputs = _flats(program, program.outputs, results.outputs)
    states = _flats(program, program.new_states, results.states)
    return [prove(leaf, *((states, outputs) if leaf.state else (outputs, states))) for leaf in leaves]


def prove(leaf: Leaf, named: Flats, others: Flats) -> LeafProof:
    """What shows a leaf of the tensors `named`, or that there is none such, beside the `others` of the same root."""
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
