"""What a task gives back, kept until nobody can ask for it any more."""

import os
from collections.abc import Sequence
from pathlib import Path

from eigentensor import merkle
from eigentensor.chain import LeafProof
from eigentensor.program import Program
from eigentensor.program.binding import Results
from eigentensor.program.model import Kind
from eigentensor.store import GatewayClient, load_safetensors, save_safetensors
from eigentensor.store.parts import encode_results
from eigentensor.task import Leaf
from eigentensor_operator.showing import prove


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
        return prove(program, self._results(task), leaves)

    def _results(self, task: bytes) -> Results:
        files = {kind: self.root / task.hex() / f"{kind.name.lower()}.safetensors" for kind in Kind}
        outputs, states = (load_safetensors(f) if f.exists() else {} for f in (files[Kind.OUTPUT], files[Kind.STATE]))
        return Results(outputs, states)

    def drop(self, task: bytes) -> None:
        folder = self.root / task.hex()
        for path in folder.glob("*"):
            path.unlink()
        if folder.exists():
            folder.rmdir()
