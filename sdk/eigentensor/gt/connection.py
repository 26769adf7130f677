"""Where tensors are: one session for the whole process, this process itself unless `connect` named a cluster."""

import atexit
import os
from threading import RLock

from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.session import Session
from eigentensor.errors import ConfigError
from eigentensor.stream.recorder import Recorder

#: Variables of GT that this package does not follow, and why.
REFUSED = {
    "GT_BACKEND": "there is one backend: programs, whose bits are the same on every device",
    "GT_SAVE_COMPILED_CODE": "no code is generated that could be saved; a program is what `eigentensor program` reads",
}

_lock = RLock()
_recorder: Recorder | None = None


def recorder() -> Recorder:
    """The recorder of this process; the first call opens a session here. Raises ConfigError for a variable of GT's that
    is not followed."""
    global _recorder
    if _recorder is None:
        with _lock:
            if _recorder is None:
                open_session(LocalSession())
    assert _recorder is not None
    return _recorder


def is_open() -> bool:
    """Whether there is a session already."""
    return _recorder is not None


def open_session(session: Session) -> None:
    """Makes this the session of the process. Raises ConfigError if there is one already: its tensors are there."""
    global _recorder
    for variable, why in REFUSED.items():
        if variable in os.environ:
            raise ConfigError(f"{variable} is set: {why}", fix=f"Unset {variable}.")
    with _lock:
        if _recorder is not None:
            raise ConfigError(
                "tensors were made already, and they are in another session",
                fix="Call gpu_workers or connect before the first tensor, or close first.",
            )
        _recorder = Recorder(session)


def close() -> None:
    """Ends the session, if there is one; its tensors end with it. The next tensor opens another one."""
    global _recorder
    with _lock:
        if _recorder is not None:
            _recorder.session.close()
        _recorder = None


def gpu_workers(count: int) -> None:
    """Lets so many workers of this machine compute, here threads of this process. Raises ConfigError if tensors were
    made already, or for fewer than one."""
    if count < 1:
        raise ConfigError(f"{count} workers", fix="Ask for at least one.")
    open_session(LocalSession(threads=count))


atexit.register(close)
