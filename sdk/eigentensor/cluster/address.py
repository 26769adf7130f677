"""Where a cluster's door is: a socket of this user's own, or a host and a port with the certificate that is there."""

import os
import re
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

from eigentensor import system
from eigentensor.errors import ConfigError, NotAdmitted

ADDRESS, TOKEN_FILE = "EIGENTENSOR_CLUSTER", "EIGENTENSOR_CLUSTER_TOKEN"  #: of the environment
LONGEST = 100  #: bytes of the path of a socket
_PLACE = re.compile(r"(?:cluster://)?(\[[0-9a-fA-F:]+\]|[^/:\[\]]+):(\d{1,5})/([0-9a-f]{64})")


class Address(NamedTuple):
    """A socket's `path`; or host, port and the sha256 of the certificate that must be there."""

    path: Path | None = None
    host: str = ""
    port: int = 0
    fingerprint: bytes = b""

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"cluster://{host}:{self.port}/{self.fingerprint.hex()}"


def parse(text: str) -> Address:
    """The address of a text: unix:PATH, or cluster://HOST:PORT/FINGERPRINT. Raises ConfigError for anything else."""
    if text.startswith("unix:"):
        return Address(Path(text.removeprefix("unix:")))
    match = _PLACE.fullmatch(text)
    if match is None or int(match[2]) > 0xFFFF:
        raise ConfigError(
            f"{text!r} is no address of a cluster",
            fix="Give cluster://HOST:PORT/FINGERPRINT, or unix:PATH.",
            topic="cluster",
        )
    return Address(None, match[1].strip("[]"), int(match[2]), bytes.fromhex(match[3]))


def named(text: str | None = None) -> Address:
    """The address that is named, here or by the environment; by default this user's own. Raises ConfigError."""
    text = text or os.environ.get(ADDRESS, "")
    return parse(text) if text else Address(own_folder() / "door")


def of_device(name: str) -> Address | None:
    """The address in the name of a device: `cluster:ADDRESS`, `cluster://…` itself, or `cluster` alone for what `named`
    gives without a text; None for a device that is no cluster. Raises ConfigError."""
    kind, colon, text = name.partition(":")
    if kind != "cluster":
        return None
    return named() if not colon else parse(name if text.startswith("//") else text)


def own_folder() -> Path:
    """Where this user's cluster has its socket: within the folder that a session of this user has, if there is one."""
    session = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{system.user()}")
    if session.is_dir():
        return session / "eigentensor-cluster"
    return Path(tempfile.gettempdir()) / f"eigentensor-cluster-{system.user()}"


def check_folder(folder: Path) -> None:
    """Raises NotAdmitted unless a folder is this user's alone: who could write there could stand in for the door."""
    status = folder.lstat()
    if not system.is_own(status, 0o077) or not stat.S_ISDIR(status.st_mode):
        raise NotAdmitted(f"{folder} is not a folder of this user alone", fix=f"Run `chmod 700 {folder}`, or move it.")


def check_length(path: Path) -> None:
    """Raises ConfigError for a path that no socket can have."""
    if len(os.fsencode(path)) > LONGEST:
        raise ConfigError(f"{path} is too long for a socket", fix=f"Name one of at most {LONGEST} bytes.")


def read_token(file: Path | str | None = None) -> bytes:
    """The token in a file, or in the one that the environment names: 64 hex digits. Without a file it is zeros, which
    do for a socket of one's own. Raises ConfigError."""
    name = str(file or os.environ.get(TOKEN_FILE, ""))
    if not name:
        return bytes(32)
    try:
        return parse_token(Path(name).read_text().strip())
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(
            f"{name} has no token", fix="It has one line of 64 hex digits: ask who runs the cluster for yours."
        ) from error


def parse_token(text: str) -> bytes:
    """32 bytes of 64 hex digits. Raises ValueError."""
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError("not 64 hex digits")
    return bytes.fromhex(text)
