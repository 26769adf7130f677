"""The file of a session: whole at every moment, and one process's at a time."""

import fcntl
import json
import os
from pathlib import Path

from eigentensor.errors import BlobNotFound, ConfigError, SessionBusy
from eigentensor_client.history import History


class SessionFile:
    """A file of which this process is the only writer until `close`. A hidden file beside it holds the lock."""

    def __init__(self, path: Path) -> None:
        """Raises SessionBusy if another process has it, ConfigError if its folder cannot be written."""
        self.path = path
        try:
            self._lock = path.with_name(f".{path.name}.lock").open("wb")
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}", fix="Choose another place.") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise SessionBusy(f"another process has the session in {path}", fix="Wait for it, or end it.") from None

    def close(self) -> None:
        """The lock is open to others."""
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
