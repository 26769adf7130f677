"""What the user hands over as words and files, read strictly; and what the user gets."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from filecmp import cmp
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import get_ident
from typing import Any

import numpy as np

from eigentensor.errors import BindingError, ConfigError
from eigentensor.program import DType, Kind, Program
from eigentensor.store.tensors import load_safetensors, save_safetensors
from eigentensor_client.inputs import existing, picked, places

Tensors = dict[str, np.ndarray[Any, Any]]


def read_tensors(path: Path | None) -> Tensors:
    """The tensors of a safetensors file; none for no file."""
    return load_safetensors(existing(path)) if path else {}


def read_inputs(words: list[str] | None) -> Tensors:
    """`name=@file.npy`, `name=@file.safetensors` (its tensor of that name), or `@file.safetensors` for all in it."""
    inputs: Tensors = {}
    for name, path in places(words):
        inputs |= {name: _mapped(existing(path))} if path.suffix == ".npy" else picked(name, path, read_tensors(path))
    return inputs


def _mapped(path: Path) -> np.ndarray[Any, Any]:
    try:
        # Mapped: a header that lies about the size is refused instead of allocated, and archives are no arrays.
        with np.errstate(over="raise"):
            return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, ArithmeticError) as error:
        raise BindingError(f"{path} is not a .npy file of numbers", fix="Write it with numpy.save.") from error


def write_whole(path: Path, write: Callable[[Path], object]) -> Path:
    """Lets `write` make a file that is whole or not there; where a link leads to one, that file. A pipe or a device
    takes the bytes and stays what it is. Raises ConfigError where none can be written."""
    with _beside(path) as (temporary, target):
        write(temporary)
        if target.exists() and not target.is_file():
            with temporary.open("rb") as made, target.open("wb") as taker:
                shutil.copyfileobj(made, taker)
        else:
            temporary.replace(target)
    return path


def check_places(*paths: Path | None) -> None:
    """Raises ConfigError, as `write_whole` would, for the first of these places where no file can be made: before what
    is to be written there is paid or waited for."""
    for path in paths:
        if path is not None:
            with _beside(path) as (temporary, _):
                temporary.touch()


@contextmanager
def _beside(path: Path) -> Iterator[tuple[Path, Path]]:
    """A name for what is being made, which is gone afterwards, and what it is made for: as replacing needs it, on the
    same file system, or in a folder of its own for what cannot be replaced."""
    with ExitStack() as held:
        try:
            if path.is_dir():
                raise ConfigError(f"cannot write {path}: it is a folder", fix="Name a file in it.")
            if path.exists() and not path.is_file():
                folder, target = Path(held.enter_context(TemporaryDirectory())), path
            else:
                target = Path(os.path.realpath(path))
                folder = target.parent
            temporary = folder / f".{target.name}.{os.getpid()}.{get_ident()}"
            held.callback(_forget, temporary)
            yield temporary, target
        except OSError as error:
            fix = "Choose another place, one where you may write and there is room."
            raise ConfigError(f"cannot write {path}: {error.strerror}", fix=fix) from None


def _forget(temporary: Path) -> None:
    with suppress(OSError):  # it may not even be a name
        temporary.unlink(missing_ok=True)


def write_free(name: str, suffix: str, write: Callable[[Path], object]) -> Path:
    """As `write_whole`, in the working directory under a name that no other file has: NAME.SUFFIX, else NAME-2.SUFFIX
    and so on. A file of the same bytes that is there already is the one."""
    temporary = Path(f".{name}.{os.getpid()}.{get_ident()}{suffix}")
    paths = (Path(f"{name}{f'-{number}' if number > 1 else ''}{suffix}") for number in count(1))
    try:
        write(temporary)
        return next(path for path in paths if _is_linked(temporary, path))
    except OSError as error:
        raise ConfigError(f"cannot write {name}{suffix} here: {error.strerror}", fix="Name a place.") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _is_linked(file: Path, path: Path) -> bool:
    """Whether a path is a file of the same bytes: of this file, from now on, where nothing was there."""
    try:
        os.link(file, path)
        return True
    except FileExistsError:
        return path.is_file() and cmp(file, path, shallow=False)


def write_tensors(path: Path, tensors: Tensors, program: Program, kind: Kind = Kind.OUTPUT) -> None:
    """Writes results to a safetensors file with the program's dtypes."""
    write_whole(path, lambda file: save_safetensors(file, tensors, dtypes_of(program, kind)))


def dtypes_of(program: Program, kind: Kind = Kind.OUTPUT) -> dict[str, DType]:
    """What the elements of a program's results are, by their names."""
    return {r.name: program.parameter(r.buffer).dtype for r in program.results if r.kind is kind}
