"""Which of the processes on one database leads: it alone reads the chain, sends messages and takes what is uploaded."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

_KEY = 0x4569_6765_6E54_656E  #: of the advisory lock, in PostgreSQL's 64 bits
#: Seconds of silence after which PostgreSQL looks whether a connection lives, between looks, and how often it looks.
_KEEPALIVE = {"tcp_keepalives_idle": 3, "tcp_keepalives_interval": 1, "tcp_keepalives_count": 3}


class Lead:
    """The lead among processes: a lock that the system takes back when its holder dies, however it does.

    On PostgreSQL an advisory lock of a connection of its own, on SQLite the lock of a file beside the database.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._file: int | None = None

    def hold(self) -> bool:
        """Takes the lead if nobody has it; whether it is here. On PostgreSQL a connection that broke has lost it."""
        if self._engine.dialect.name == "sqlite":
            return self._hold_file()
        try:
            if self._connection is not None:
                self._connection.execute(text("SELECT 1"))
                return True
            return self._take()
        except DBAPIError:
            self.release()
            return False

    def release(self) -> None:
        """Gives the lead to whoever asks next."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _take(self) -> bool:
        connection = self._engine.execution_options(isolation_level="AUTOCOMMIT").connect()
        connection.detach()  # its end ends the lock, too
        taken = False
        try:
            for name, value in _KEEPALIVE.items():
                connection.execute(text(f"SET {name} = {value}"))
            taken = bool(connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _KEY}).scalar())
        finally:
            if not taken:
                connection.close()
        if taken:
            self._connection = connection
        return taken

    def _hold_file(self) -> bool:
        if self._file is not None:
            return True
        database = Path(self._engine.url.database or os.devnull)
        file = os.open(f"{database}.lead", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True
