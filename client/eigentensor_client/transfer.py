"""Bytes between the client and the gateway: a work's parts up, a result down, each named by its root."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from eigentensor import merkle
from eigentensor.errors import BindingError, BlobNotFound
from eigentensor.program import Kind, Program, Role
from eigentensor.program.binding import Results, bind
from eigentensor.program.codec import encode
from eigentensor.reexecution.inputs import fetch_kind, fetch_results, fetch_roots
from eigentensor.store import GatewayClient, LocalStore, save_safetensors
from eigentensor.store.gateway import Progress
from eigentensor.store.parts import encode_variables
from eigentensor.task import NONE
from eigentensor_client.files import Tensors
from eigentensor_client.orders import Roots, Work

#: Tensors, or the bindings root of some that the gateway has.
Part = Tensors | bytes
#: Called with what is being done, and how far it is.
Report = Callable[..., None]


class Keeper(Protocol):
    """Where the parts of a work are kept for whoever executes it: a gateway, or this machine itself."""

    store: LocalStore

    def has(self, name: str | bytes) -> bool:
        """Whether it is kept there, by any of its names."""

    def upload(self, source: str | bytes | Path, progress: Progress | None = None) -> str:
        """Keeps a file, or a blob of `store`; its blob root."""

    def fetch(self, name: str | bytes, progress: Progress | None = None) -> Path:
        """A file with the bytes. Raises BlobNotFound."""


_ROLES = {Role.INPUT: "inputs", Role.WEIGHT: "weights", Role.STATE: "states"}


def silent(text: str, done: float | None = None, total: float | None = None) -> None:
    """Tells nobody."""


def bound(work: Work) -> dict[Role, Tensors]:
    """The tensors that a work brings itself, by role: without those that are named by their root.

    Raises BindingError if the work could not be executed.
    """
    return _bound(work.program, _parts_of(work), work.variables, work.repeat)


def upload(gateway: Keeper, work: Work, report: Report = silent) -> Roots:
    """Gives the gateway what it does not have of a work; returns the names that the order carries.

    Raises BindingError, StoreError, and BlobNotFound for a part that is named by its root and nowhere to be had.
    """
    tensors = bound(work)
    variables = NONE
    if work.program.variables:
        variables = _give(gateway, encode_variables(work.variables), "variables", report)
    return replace(_upload(gateway, work.program, _parts_of(work), tensors, report), variables=variables)


def upload_fixed(gateway: Keeper, program: Program, weights: Part, states: Part, report: Report = silent) -> Roots:
    """As `upload`, of what a session begins with."""
    parts = {Role.WEIGHT: weights, Role.STATE: states}
    return _upload(gateway, program, parts, _bound(program, parts), report)


def _parts_of(work: Work) -> dict[Role, Part]:
    return {role: getattr(work, word) for role, word in _ROLES.items()}


def _bound(
    program: Program, parts: Mapping[Role, Part], variables: Mapping[str, int] | None = None, repeat: int = 1
) -> dict[Role, Tensors]:
    tensors_of = {role: part for role, part in parts.items() if not isinstance(part, bytes)}
    for role in parts.keys() - tensors_of.keys():
        if not program.named(role):
            raise BindingError(f"the program has no {_ROLES[role]}", fix="Give it no root of any.")
    buffers = tuple(b for b in program.buffers if b.role in tensors_of)
    own = replace(program, buffers=buffers, variables=() if variables is None else program.variables)
    tensors = {name: array for part in tensors_of.values() for name, array in part.items()}
    by_role: dict[Role, Tensors] = {role: {} for role in tensors_of}
    for buffer, array in zip(buffers, bind(own, tensors, variables or {}, repeat), strict=True):
        by_role[buffer.role][buffer.name] = array.reshape(buffer.shape)
    return by_role


def _upload(
    gateway: Keeper, program: Program, parts: Mapping[Role, Part], bound: Mapping[Role, Tensors], report: Report
) -> Roots:
    roots = {word: part for role, word in _ROLES.items() if isinstance(part := parts.get(role), bytes)}
    for word, root in roots.items():
        ensure(gateway, root, word, report)
    for role, tensors in bound.items():
        if tensors:
            dtypes = {name: buffer.dtype for name, buffer in program.named(role).items()}
            written = partial(save_safetensors, tensors=tensors, dtypes=dtypes)
            roots[_ROLES[role]] = _give(gateway, written, _ROLES[role], report)
    encoded = encode(program)
    root = merkle.program_root(encoded)
    if root in gateway.store:  # not checked by every rule again
        gateway.upload(root, _progress("uploading program", report))
    else:
        _give(gateway, encoded, "program", report)
    return Roots(root, **roots)


def ensure(gateway: Keeper, root: bytes, word: str, report: Report = silent) -> None:
    """Sees to it that the gateway has what a root names, from this machine's cache if need be. Raises BlobNotFound."""
    if gateway.has(root):
        return
    if root not in gateway.store:
        raise BlobNotFound(
            f"the {word} {root.hex()} are neither at the gateway nor in the cache of this machine",
            fix="Upload them again where they are: `eigentensor blob put FILE`.",
        )
    gateway.upload(root, _progress(f"uploading {word}", report))


def _give(gateway: Keeper, source: bytes | Callable[[Path], object], word: str, report: Report) -> bytes:
    blob = gateway.store.put(source)
    gateway.upload(blob, _progress(f"uploading {word}", report))
    return bytes.fromhex(gateway.store.names(blob).computed or "")


def _progress(text: str, report: Report) -> Progress:
    def progress(done: int, total: int) -> None:
        if total > merkle.PIECE:
            report(text, done, total)

    return progress


def download(gateway: GatewayClient, program: Program, outputs_root: bytes, report: Report = silent) -> Results:
    """As `fetch_results`."""
    return fetch_results(gateway, program, outputs_root, _progress("downloading the result", report))


def download_outputs(
    gateway: GatewayClient, program: Program, outputs_root: bytes, report: Report = silent
) -> tuple[Tensors, bytes]:
    """The outputs of a result, and the root of its new states, which the gateway has and which are left there.

    Raises as `fetch_results`.
    """
    outputs, states = fetch_roots(gateway, outputs_root)
    if program.new_states and not gateway.has(states):
        raise BlobNotFound(f"the gateway does not have the new states {states.hex()}")
    return fetch_kind(gateway, program, Kind.OUTPUT, outputs, _progress("downloading the outputs", report)), states


def download_states(gateway: GatewayClient, program: Program, root: bytes, report: Report = silent) -> Tensors:
    """The states that have a bindings root. Raises as `fetch_results`."""
    return fetch_kind(gateway, program, Kind.STATE, root, _progress("downloading the states", report))
