"""The file of a session: whole at every moment, and one process's at a time."""

import fcntl
import json
import os
from pathlib import Path
from typing import BinaryIO

from eigentensor.errors import BlobNotFound, ConfigError, SessionBusy
from eigentensor_client.history import History


class SessionFile:
    """A file of which this process is the only writer until `close`; a hidden one beside it holds the lock."""

    def __init__(self, path: Path, *, new: bool = False) -> None:
        """Raises SessionBusy if another process has it, ConfigError if its folder cannot be written, or if it is to be
        `new` and there is one.
        """
        if path.is_dir():
            raise ConfigError(f"{path} is a folder", fix="Name the session's file.")
        self.path = path
        self._place = path.with_name(f".{path.name}.lock")
        try:
            self._lock = self._locked()
        except BlockingIOError:
            raise SessionBusy(f"another process has the session in {path}", fix="Wait for it, or end it.") from None
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}", fix="Choose another place.") from None
        if new and path.exists():
            self.close()
            raise ConfigError(f"{path} exists", fix="Go on with it, or choose another file.")

    def _locked(self) -> BinaryIO:
        while True:
            lock = self._place.open("wb")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Whoever held the lock may have removed its file, and somebody else made another.
                if self._place.exists() and os.path.samestat(os.fstat(lock.fileno()), self._place.stat()):
                    return lock
            except BaseException:
                lock.close()
                raise
            lock.close()

    def close(self) -> None:
        """Another process may have the file."""
        if not self._lock.closed:
            self._place.unlink(missing_ok=True)
            self._lock.close()

    def read(self) -> History:
        """Raises BlobNotFound if there is no file, ConfigError if it is not one of a session."""
        try:
            return History.from_json(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            raise BlobNotFound(f"there is no session in {self.path}", fix="Check the path, or start one.") from None
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"cannot read {self.path}: {error}", fix="Name the file of a session.") from None

    def write(self, history: History) -> None:
        """Returns when the file would survive a power cut. Raises ConfigError if it cannot be written."""
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with temporary.open("w") as file:
                json.dump(history.to_json(), file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {error.strerror}", fix="Make room, or a folder.") from None
        finally:
            temporary.unlink(missing_ok=True)
