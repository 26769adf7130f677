"""How a cluster is set up, and whether one is: known before anything heavy is imported."""

import fcntl
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from platformdirs import user_data_path

from eigentensor.errors import ConfigError
from eigentensor.sharding.signals import Signals


@dataclass(frozen=True, slots=True)
class Settings:
    """How a cluster is set up. `folder` has its socket, `kept` what outlives it; `bind` is where others reach it, `log`
    the file of its instruction log, `signals` are those of sessions that have none of their own, `memory` the bytes
    that a slot of its own has; 0: its share of the machine's; `allowance` the seconds of slots that a member may take
    in a minute whose token says nothing else, `latency` that of what joins workers, in bytes (`sharding.cluster`)."""

    folder: Path
    slots: int
    bind: tuple[str, int] | None = None
    tokens: Path | None = None
    trusts: bool = False
    device: str | None = None
    log: str | None = None
    signals: Signals = field(default_factory=Signals)
    memory: int = 0
    allowance: float | None = None
    latency: int = 0
    kept: Path = user_data_path("eigentensor") / "cluster"

    def __post_init__(self) -> None:
        if self.bind is not None and self.tokens is None:
            raise ConfigError(
                "nobody may come from elsewhere without a token",
                fix="Name a file for tokens, `--token FILE`: it is made if it is not there.",
            )


def parse_bind(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT. Raises ConfigError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
        raise ConfigError(f"{text!r} is no place to listen", fix="Give HOST:PORT, such as 0.0.0.0:7700.")
    return host.strip("[]"), int(port)


def process_of(folder: Path) -> int | None:
    """The process of the cluster that is up in a folder; None if there is none."""
    with suppress(OSError, ValueError), (folder / "process").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(file.read())
    return None
