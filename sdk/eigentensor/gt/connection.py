"""Where tensors are: one session for the whole process, this process itself unless `connect` named a cluster."""

import atexit
from threading import RLock
from typing import TYPE_CHECKING

from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.session import Session
from eigentensor.errors import ConfigError
from eigentensor.gt.environment import AUTO, Environment, config_file, environment
from eigentensor.stream.recorder import Recorder, Scope
from eigentensor.talk import say

if TYPE_CHECKING:
    from eigentensor.sharding.signals import Signals

#: Hosts that are this machine.
HERE = ("localhost", "127.0.0.1", "[::1]")
_lock = RLock()
_recorder: Recorder | None = None
_signals: "Signals | None" = None


def recorder() -> Recorder:
    """The recorder of this process; the first call opens a session here. Raises ConfigError for a variable of GT's that
    is not followed, and for a configuration that is none."""
    if _recorder is None:
        with _lock:
            if _recorder is None:
                open_session(LocalSession(tiers=environment().tiers))
    assert _recorder is not None
    return _recorder


def open_session(session: Session) -> None:
    """Makes this the session of the process, as the environment says. Raises ConfigError for a variable of GT's that is
    not followed, and if there is a session already: its tensors are there."""
    global _recorder
    says = environment()
    with _lock:
        if _recorder is not None:
            raise _opened_already()
        _recorder = _recording(session, says)
    if says.is_verbose:
        where = f"here, by {session.workers} workers" if isinstance(session, LocalSession) else "at a cluster"
        say(f"tensors are held and computed {where}")


def _recording(session: Session, says: Environment) -> Recorder:
    """What records for a session."""
    global _signals
    opened, known = Recorder(session), signals()
    if says.log is not None:
        from eigentensor.gt.log import InstructionLog  # few want one

        opened.sent = InstructionLog(says.log, session)
    if says.cuts:
        from eigentensor.sharding.signals import ShardConfig, SignalConfig, Signals  # few have any

        opened.scope = Scope(AUTO)
        known = _signals = (known or Signals()).with_signal(AUTO, SignalConfig(ShardConfig()))
    if known:
        _configure(session, known)
    return opened


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
    open_session(LocalSession(workers=count, tiers=environment().tiers))


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
    if _signals is None and (path := config_file()):
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


atexit.register(close)
