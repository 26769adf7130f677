"""The names of a blob, computed from its bytes."""

from pathlib import Path

from eigentensor.errors import BlobCorrupt, ProgramError, TensorFileError
from eigentensor.merkle import outputs_root, program_root, variables_root
from eigentensor.program import decode
from eigentensor.program.limits import PROGRAM_BYTES
from eigentensor.store.names import Kind, Names
from eigentensor.store.parts import RESULTS, VARIABLES, decode_results, decode_variables
from eigentensor.store.pieces import Pieces

_PROGRAM_MAGIC = b"EIGT"
_PARTS_LIMIT = 64 << 10


def describe(path: Path, pieces: Pieces | None = None) -> tuple[Names, Pieces]:
    """Names and pieces of a file's bytes, computed from all of them.

    A valid program has a program root, a safetensors file with the dtypes of programs a bindings root, bound variables
    and the roots of a result those of `parts`; whatever is none of these is stored under its blob root alone.
    """
    if pieces is None:
        pieces = Pieces.of(path)
    kind, computed = _computed(path, pieces.size)
    return Names(pieces.blob.hex(), pieces.size, kind, computed.hex() if computed else None), pieces


def _computed(path: Path, size: int) -> tuple[Kind, bytes | None]:
    with path.open("rb") as file:
        magic = file.read(4)
        limit = PROGRAM_BYTES if magic == _PROGRAM_MAGIC else _PARTS_LIMIT
        data = magic + file.read() if size <= limit else b""
    try:
        if data and magic == _PROGRAM_MAGIC:
            decode(data)
            return Kind.PROGRAM, program_root(data)
        if data and magic == VARIABLES:
            return Kind.VARIABLES, variables_root(decode_variables(data))
        if data and magic == RESULTS:
            return Kind.RESULTS, outputs_root(*decode_results(data))
        from eigentensor.store.tensors import bindings_root  # who has no tensors does not wait for NumPy

        return Kind.TENSORS, bindings_root(path)
    except (ProgramError, BlobCorrupt, TensorFileError):
        return Kind.OTHER, None
