"""Small blobs for what roots name without being a tensor file: an order's bound variables, and a result's two halves.

```
variables   "EIGV", then per variable, sorted by name: u8 length, name, i32 value (big-endian)
results     "EIGO", bindings root of the outputs, bindings root of the new states
```
The store knows the first also by the order's variables root, the second by the outputs root that stands on chain:
whoever fetches by such a root has verified what it got.
"""

from collections.abc import Mapping

from eigentensor.errors import BlobCorrupt

VARIABLES = b"EIGV"
RESULTS = b"EIGO"


def encode_variables(variables: Mapping[str, int]) -> bytes:
    """The blob of bound variables, by name; the same for any order of them."""
    parts = [VARIABLES]
    for name, value in sorted((name.encode(), value) for name, value in variables.items()):
        parts.append(bytes([len(name)]) + name + value.to_bytes(4, "big", signed=True))
    return b"".join(parts)


def decode_variables(data: bytes) -> dict[str, int]:
    """The bound variables of a blob. Raises BlobCorrupt unless `encode_variables` wrote these bytes."""
    variables, at = {}, len(VARIABLES)
    try:
        while at < len(data):
            stop = at + 1 + data[at]
            variables[data[at + 1 : stop].decode()] = int.from_bytes(data[stop : stop + 4], "big", signed=True)
            at = stop + 4
    except UnicodeDecodeError as error:
        raise BlobCorrupt(f"the bound variables are malformed: {error}") from None
    if encode_variables(variables) != data:
        raise BlobCorrupt("the bound variables are malformed")
    return variables


def encode_bound(variables: Mapping[str, int]) -> bytes:
    """Bound variables as a demanded call is shown with them on chain: their blob without its first word."""
    return encode_variables(variables)[len(VARIABLES) :]


def decode_bound(data: bytes) -> dict[str, int]:
    """The inverse of `encode_bound`. Raises BlobCorrupt unless it wrote these bytes."""
    return decode_variables(VARIABLES + data)


def encode_results(outputs: bytes, states: bytes) -> bytes:
    """The blob of a result: the bindings roots of its outputs and of its new states."""
    return RESULTS + outputs + states


def decode_results(data: bytes) -> tuple[bytes, bytes]:
    """The bindings roots of outputs and new states. Raises BlobCorrupt for anything else."""
    if len(data) != 68 or not data.startswith(RESULTS):
        raise BlobCorrupt("these are not the roots of a result")
    return data[4:36], data[36:]
