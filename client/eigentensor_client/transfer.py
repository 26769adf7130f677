"""Bytes between the client and the gateway: a work's parts up, a result down, each named by its root."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from eigentensor import merkle
from eigentensor.bound import fetch_results
from eigentensor.program import Program, Role
from eigentensor.program.binding import Results, bind
from eigentensor.program.codec import encode
from eigentensor.store import GatewayClient, save_safetensors
from eigentensor.store.parts import encode_variables
from eigentensor_client.orders import Roots, Work
from eigentensor_client.results import Tensors

#: Told what is being done, and how far it is.
Tell = Callable[..., None]

_ROLES = {Role.INPUT: "inputs", Role.WEIGHT: "weights", Role.STATE: "states"}


def silent(text: str, done: float | None = None, total: float | None = None) -> None:
    """Tells nobody."""


def bound(work: Work) -> list[np.ndarray[Any, Any]]:
    """The buffers of a work. Raises BindingError if it could not be executed."""
    tensors: Tensors = {**work.inputs, **work.weights, **work.states}
    return bind(work.program, tensors, work.variables, work.repeat)


def upload(gateway: GatewayClient, work: Work, tell: Tell = silent) -> Roots:
    """Gives the gateway what it does not have of a work; returns the names that the order carries."""

    def give(source: bytes | Path, word: str) -> bytes:
        def progress(done: int, total: int) -> None:
            if total > merkle.PIECE:
                tell(f"uploading {word}", done, total)

        blob = gateway.store.put(source)
        gateway.upload(blob, progress)
        return bytes.fromhex(gateway.store.names(blob).computed or "")

    program, arrays = give(encode(work.program), "program"), bound(work)
    roots = {}
    with tempfile.TemporaryDirectory(prefix="eigentensor-") as folder:
        for role, word in _ROLES.items():
            buffers = [(b, a) for b, a in zip(work.program.buffers, arrays, strict=True) if b.role is role]
            if buffers:
                path = Path(folder, word)
                tensors = {buffer.name: array.reshape(buffer.shape) for buffer, array in buffers}
                save_safetensors(path, tensors, {buffer.name: buffer.dtype for buffer, _ in buffers})
                roots[word] = give(path, word)
    if work.program.variables:
        roots["variables"] = give(encode_variables(work.variables), "variables")
    return Roots(program, **roots)


def download(gateway: GatewayClient, program: Program, outputs_root: bytes, tell: Tell = silent) -> Results:
    """As `fetch_results`."""
    return fetch_results(
        gateway, program, outputs_root, lambda done, total: tell("downloading the result", done, total)
    )
