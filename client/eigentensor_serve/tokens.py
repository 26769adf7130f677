"""Bearer tokens: told once, stored as hashes; and what a browser keeps instead of one, which reads and never spends."""

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eigentensor import system
from eigentensor.errors import BindingError, ConfigError
from eigentensor_client.files import write_whole

_SCHEMA = "eigentensor.tokens/1"


class Tokens:
    """The tokens in a file, which other processes may change: what they add or remove counts at once.

    A token has 256 random bits, so its plain SHA-256 says nothing about it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._names: dict[str, str] = {}
        self._readers: dict[str, str] = {}
        self._load()

    def __bool__(self) -> bool:
        """Whether there is any."""
        self._load()
        return bool(self._names)

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._names.values()))

    def holder(self, token: str) -> str | None:
        """The name that a token was made for; None for a stranger's."""
        self._load()
        return self._names.get(_hash(token))

    def pass_of(self, token: str) -> str | None:
        """What a browser keeps for the holder of a token, to read with; None for a stranger's. It is worth as long as
        the token, and says nothing about it."""
        return None if self.holder(token) is None else _pass(_hash(token))

    def reader(self, kept: str) -> str | None:
        """The name of whose token a pass is; None for what is none."""
        self._load()
        return self._readers.get(_hash(kept))

    def new(self, name: str) -> str:
        """Makes a token. Raises BindingError if the name is taken, or is none."""
        if not name.isprintable() or not 1 <= len(name) <= 64:
            raise BindingError(f"{name!r} is no name for a token", fix="Choose 1 to 64 printable characters.")
        token = f"et_{secrets.token_urlsafe(32)}"
        with self._alone():
            if name in list(self):
                raise BindingError(f"there is a token {name!r} already", fix="Choose another name, or remove that one.")
            self._write({**self._names, _hash(token): name})
        return token

    def remove(self, name: str) -> None:
        """Raises BindingError if there is no token of that name."""
        with self._alone():
            if name not in list(self):
                raise BindingError(f"there is no token {name!r}", fix="`eigentensor serve token list` shows all names.")
            self._write({hash_: known for hash_, known in self._names.items() if known != name})

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process changes the file meanwhile: what one removes, another must not write again."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._path.with_suffix(".lock").open("ab") as file:
            system.lock(file.fileno(), wait=True)
            yield

    def _write(self, names: dict[str, str]) -> None:
        tokens = [{"name": name, "sha256": hash_} for hash_, name in sorted(names.items(), key=lambda item: item[1])]
        text = json.dumps({"schema": _SCHEMA, "written": int(time.time()), "tokens": tokens}, indent=1) + "\n"
        write_whole(self._path, lambda file: _write_private(file, text))
        self._load()

    def _load(self) -> None:
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                value = json.loads(self._path.read_text())
                self._names = {str(token["sha256"]): str(token["name"]) for token in value["tokens"]}
                self._readers = {_hash(_pass(hash_)): name for hash_, name in self._names.items()}
                self._seen = seen
        except FileNotFoundError:
            self._seen, self._names, self._readers = None, {}, {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"{self._path} is no file of tokens: {error!r}", fix="Move it away, make new ones."
            ) from None


def _write_private(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def _pass(hash_: str) -> str:
    return _hash(f"eigentensor serve: reads pages: {hash_}")
