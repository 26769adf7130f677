"""The one text of a JSON value: sorted keys, no spaces, ASCII. What was read in another form is refused."""

import json
from typing import Any

from eigentensor.errors import WrongReceipt

#: Bytes of a receipt. A task's hundred transactions of 128 KiB would be more; real ones take some ten thousand bytes.
MOST = 16 << 20


def text(value: Any) -> bytes:
    """The canonical text of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def parse(data: bytes) -> dict[str, Any]:
    """The object of a text. Raises WrongReceipt; whether the text is canonical is for the caller to see."""
    if len(data) > MOST:
        raise WrongReceipt("", f"it has {len(data):,} bytes, a receipt has at most {MOST:,}")
    try:
        value = json.loads(data.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise WrongReceipt("", f"it is not JSON in ASCII: {error}") from None
    if not isinstance(value, dict):
        raise WrongReceipt("", "it is not a JSON object")
    return value


def difference(one: Any, other: Any, where: str = "") -> tuple[str, Any, Any] | None:
    """The path of the first difference between two JSON values, and both values there; None if they are equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted(one.keys() | other.keys())
        pairs = [(f"{where}.{n}" if where else n, one.get(n, "nothing"), other.get(n, "nothing")) for n in names]
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return where, f"{len(one)} entries", f"{len(other)} entries"
        pairs = [(f"{where}[{number}]", *both) for number, both in enumerate(zip(one, other, strict=True))]
    else:
        return None if type(one) is type(other) and one == other else (where, one, other)
    return next((differs for path, a, b in pairs if (differs := difference(a, b, path)) is not None), None)
