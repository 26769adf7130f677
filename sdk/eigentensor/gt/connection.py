"""Where tensors are: one session for the whole process, this process itself unless `connect` named a cluster."""

import atexit
import os
from threading import RLock
from typing import TYPE_CHECKING

from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.session import Session
from eigentensor.errors import ConfigError
from eigentensor.stream.recorder import Recorder
from eigentensor.talk import say

if TYPE_CHECKING:
    from eigentensor.sharding.signals import Signals

#: Variables that name a YAML file of signals, and a file that instructions are written to: ours, and GT's.
CONFIG = ("EIGENTENSOR_SIGNALS", "GT_CONFIG")
LOG = ("EIGENTENSOR_INSTRUCTION_LOG", "GT_INSTRUCTION_LOG")
#: Hosts that are this machine.
HERE = ("localhost", "127.0.0.1", "[::1]")
#: Variables of GT that this package does not follow, and why.
REFUSED = {
    "GT_BACKEND": "there is one backend: programs, whose bits are the same on every device",
    "GT_SAVE_COMPILED_CODE": "no code is generated that could be saved; a program is what `eigentensor program` reads",
}

_lock = RLock()
_recorder: Recorder | None = None
_signals: "Signals | None" = None


def recorder() -> Recorder:
    """The recorder of this process; the first call opens a session here. Raises ConfigError for a variable of GT's that
    is not followed, and for a configuration that is none."""
    if _recorder is None:
        with _lock:
            if _recorder is None:
                open_session(LocalSession())
    assert _recorder is not None
    return _recorder


def open_session(session: Session) -> None:
    """Makes this the session of the process. Raises ConfigError if there is one already: its tensors are there."""
    global _recorder
    for variable, why in REFUSED.items():
        if variable in os.environ:
            raise ConfigError(f"{variable} is set: {why}", fix=f"Unset {variable}.")
    with _lock:
        if _recorder is not None:
            raise _opened_already()
        opened = Recorder(session)
        if path := _of_environment(LOG):
            from eigentensor.gt.log import InstructionLog  # few want one

            opened.sent = InstructionLog(path, session)
        if known := signals():
            _configure(session, known)
        _recorder = opened


def close() -> None:
    """Ends the session, if there is one; its tensors end with it. The next tensor opens another one."""
    global _recorder
    with _lock:
        if _recorder is not None:
            _recorder.session.close()
        _recorder = None


def gpu_workers(count: int) -> None:
    """Lets so many workers compute, each a thread of this process that holds its part of large programs alone. Raises
    ConfigError if tensors were made already, or for fewer than one."""
    if count < 1:
        raise ConfigError(f"{count} workers", fix="Ask for at least one.")
    open_session(LocalSession(workers=count))


def connect(address: str | None = None, token: str | None = None) -> None:
    """Has a cluster hold and compute all tensors: that at this address, by default this user's own on this machine,
    which is also what GT's "localhost:PORT" is here. `token` names a file.

    Raises ConfigError if tensors were made already and for what is no address, ConnectionLost if nobody is there.
    """
    from eigentensor.cluster.remote import RemoteSession  # few need it

    if _recorder is not None:
        raise _opened_already()
    is_own = address is not None and address.rpartition(":")[0] in HERE
    session = RemoteSession(None if is_own else address, token)
    try:
        open_session(session)
    except ConfigError:
        session.close()
        raise


def _opened_already() -> ConfigError:
    return ConfigError(
        "tensors were made already, and they are in another session",
        fix="Call gpu_workers or connect before the first tensor, or close first.",
    )


def signals() -> "Signals | None":
    """What names of scopes mean: of the file that the environment names, until `set_signals`; None if nothing is said.

    Raises ConfigError, with file and line, if that is no configuration.
    """
    global _signals
    if _signals is None and (path := _of_environment(CONFIG)):
        from eigentensor.sharding.signals import load  # few have any

        _signals = load(path)
    return _signals


def set_signals(known: "Signals") -> None:
    """Makes this what names of scopes mean, in the session that there is and in later ones."""
    global _signals
    with _lock:
        _signals = known
        if _recorder is not None:
            _configure(_recorder.session, known)


def _configure(session: Session, known: "Signals") -> None:
    session.configure(known.to_yaml())
    for remark in known.remarks(range(len(session.stats().workers))):
        say(remark)


def _of_environment(variables: tuple[str, ...]) -> str | None:
    return next((value for variable in variables if (value := os.environ.get(variable))), None)


atexit.register(close)
