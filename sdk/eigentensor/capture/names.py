"""Names of other formats → names that a program may have."""

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from unicodedata import ucd_3_2_0

from eigentensor.program.limits import NAME_BYTES
from eigentensor.program.validity import is_name

_MARK = 9  #: bytes of a mark: "~" and eight hex digits


def names_for(names: Iterable[str]) -> dict[str, str]:
    """A name of the format for each name; those that the format admits stay, unless they begin or end with a dot.

    In normal form C "/" becomes ".", what is not printable "_", and dots at both ends are left out. A name that is
    then empty, too long or another's is marked: "~" and the first eight hex digits of the original's sha256 follow it.
    """
    plain = {name: _plain(name) for name in names}
    wanted = Counter(plain.values())
    return {
        name: new if is_name(new) and (new == name or wanted[new] == 1) else _marked(name, new)
        for name, new in plain.items()
    }


def _plain(name: str) -> str:
    composed = ucd_3_2_0.normalize("NFC", name).replace("/", ".")
    return "".join(c if is_name(c) else "_" for c in composed).strip(".")


def _marked(name: str, new: str) -> str:
    head = new.encode()[: NAME_BYTES - _MARK].decode(errors="ignore")
    return f"{head}~{sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"
