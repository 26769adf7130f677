"""Programs that were captured on this machine before: the same code makes the same ones of the same network."""

import hashlib
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import eigentensor
import eigentensor_client
import eigentensor_models
from eigentensor.cache import Cache, default_folder
from eigentensor.program.codec import decode, encode
from eigentensor.program.model import Program

BYTES = 1 << 30  #: of programs that are kept at most


def key_of(*what: object) -> str:
    """The name of the program of whatever has this text: of a network, and of all code that could make another one."""
    return hashlib.sha256(_code() + repr(what).encode()).hexdigest()


def get(key: str) -> Program | None:
    """The program of this name, if it is known, and nobody else could have written it."""
    data = _programs().get(key)
    return None if data is None else decode(data)


def put(key: str, program: Program) -> None:
    """Keeps a program under a name, where something can be written."""
    kept = _programs()
    with suppress(OSError):
        kept.put(key, encode(program))
        kept.prune(BYTES)


def _programs() -> Cache:
    return Cache(default_folder().parent / "programs")


@cache
def _code() -> bytes:
    """A digest of this project's code as far as it makes programs, and tinygrad's release."""
    digest = hashlib.sha256(version("tinygrad").encode())
    for package in (eigentensor, eigentensor_client, eigentensor_models):
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()
