"""GT's variables: those that are followed, and those that are refused by name, each with what to use instead."""

import os
from dataclasses import dataclass

from eigentensor.cluster.tiers import Tiers
from eigentensor.errors import ConfigError

#: Variables that name a YAML file of signals, and a file that instructions are written to: ours, and GT's.
CONFIG = ("EIGENTENSOR_SIGNALS", "GT_CONFIG")
LOG = ("EIGENTENSOR_INSTRUCTION_LOG", "GT_INSTRUCTION_LOG")
#: The signal of what is recorded outside of scopes while GT_AUTO_SHARD is 1.
AUTO = "GT_AUTO_SHARD"
_SEGMENTS = "what is recorded goes out as one segment when somebody looks at a result"
_SEEN = "a segment that is seen again and again is compiled, however long it is"
#: Why a variable is not followed, and what to use instead.
_REFUSED = {
    "GT_BACKEND": ("there is one backend: programs, whose bits are the same on every device", ""),
    "GT_CLIENT_BATCH_SIZE": (_SEGMENTS, ""),
    "GT_COMPILE": (_SEEN, "Say `compile: true` of a signal for what is to be compiled at first sight."),
    "GT_DEBUG_COMPILE": ("compiling is not logged", "Call `gt.debug.print_worker_stats()`: it counts kernels."),
    "GT_DEBUG_DISPATCHER": ("a dispatcher is a cluster's", "Run `eigentensor cluster log -f`."),
    "GT_DEBUG_WORKER": ("workers write into their cluster's log", "Run `eigentensor cluster log -f`."),
    "GT_HOTPATH_MAX_EXPAND": (_SEEN, "Set GT_HOTPATH_THRESHOLD, the number of sights."),
    "GT_HOTPATH_MIN_SEQ": (_SEEN, "Set GT_HOTPATH_THRESHOLD, the number of sights."),
    "GT_HOTPATH_WINDOW": (_SEEN, "Set GT_HOTPATH_THRESHOLD, the number of sights."),
    "GT_SAVE_COMPILED_CODE": ("no code is generated that could be saved", "Read programs with `eigentensor program`."),
    "GT_WORKER_BATCH_SIZE": (_SEGMENTS, ""),
}


@dataclass(frozen=True, slots=True)
class Environment:
    """What GT's variables say. `cuts`: calls outside of scopes are cut along axis 0 over all workers; `is_verbose`: a
    line says where tensors are; `log` is the file of instructions, `config` that of signals, if there is one.

    GT_AUTO_COMPILE may be 0 or 1: what is hot is compiled in any case, and no bit says whether.
    """

    cuts: bool = False
    is_verbose: bool = False
    sights: int | None = None
    log: str | None = None
    config: str | None = None

    @property
    def tiers(self) -> Tiers:
        """When a program is compiled in this process."""
        return Tiers() if self.sights is None else Tiers(sight=self.sights)


def config_file() -> str | None:
    """The file of signals that the environment names."""
    return _first(CONFIG)


def environment() -> Environment:
    """What this process's variables say now. Raises ConfigError for one that is not followed, with what to use instead,
    and for a value that one does not have."""
    for variable, (why, instead) in _REFUSED.items():
        if os.environ.get(variable, "0") not in ("", "0"):
            raise ConfigError(f"{variable} is set: {why}", fix=f"Unset {variable}. {instead}".strip())
    _is_set("GT_AUTO_COMPILE")
    log = _first(LOG) or ("/dev/stderr" if _is_set("GT_DEBUG_CLIENT") else None)
    return Environment(_is_set(AUTO), _is_set("GT_VERBOSE"), _sights(), log, config_file())


def _first(variables: tuple[str, ...]) -> str | None:
    return next((value for variable in variables if (value := os.environ.get(variable))), None)


def _is_set(variable: str) -> bool:
    value = os.environ.get(variable, "")
    if value not in ("", "0", "1"):
        raise ConfigError(f"{variable} is {value!r}", fix="Set it to 1 or 0.")
    return value == "1"


def _sights() -> int | None:
    value = os.environ.get("GT_HOTPATH_THRESHOLD", "")
    if value and not (value.isascii() and value.isdigit() and 0 < int(value) <= 1 << 30):
        raise ConfigError(f"GT_HOTPATH_THRESHOLD is {value!r}", fix="Set it to a number of sights, from 1 on.")
    return int(value) if value else None
