"""What of the system a process sees besides libraries, to drive a device or to compile for it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Reach:
    """A process sees `files`, read-only, and has a /tmp of `scratch` bytes and the words of `environment`.

    `nodes` are device files, which drivers stand behind. A process that has some sees itself in /proc, and may ask
    these drivers for `requests`: pairs of a mask and what ioctl's second argument is under it.
    """

    files: tuple[Path, ...] = ()
    nodes: tuple[Path, ...] = ()
    requests: tuple[tuple[int, int], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    scratch: int = 0

    def to_json(self) -> str:
        """A text for another process, which `from_json` reads."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "Reach":
        """The reach of a text."""
        fields = json.loads(text)
        files, nodes = (tuple(map(Path, fields[name])) for name in ("files", "nodes"))
        pairs = {name: tuple(map(tuple, fields[name])) for name in ("requests", "environment")}
        return cls(files, nodes, **pairs, scratch=fields["scratch"])


NOTHING = Reach()  #: libraries alone
SCRATCH = 256 << 20  #: bytes of files that a driver writes before it loads them
