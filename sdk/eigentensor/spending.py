"""Who may spend in this process: nobody while a user's file is read for its program, and never what the file started.

A file is executed to learn what it defines, and may hold calls that are paid for. While it is read nothing leaves this
process, and as long as the command lasts that reads it only the command itself may spend: what runs in its context,
which threads and loops of the file do not have.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import ParamSpec, TypeVar

from eigentensor.errors import PaymentRefused

P = ParamSpec("P")
R = TypeVar("R")

_IS_COMMAND: ContextVar[bool] = ContextVar("_IS_COMMAND", default=False)
_read: list[str] = []  # the files for whose sake nobody but the command may spend
_commands: list[object] = []  # those under way


def check() -> None:
    """Raises PaymentRefused where nothing may be spent: before each transaction, and before what leads to one."""
    if _read and not _IS_COMMAND.get():
        raise PaymentRefused(
            f"{_read[-1]} is only read for its program: nothing that it does then may be paid for",
            fix='Put the calls that are paid for under `if __name__ == "__main__":`, and run the file with Python.',
        )


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """The block executes a user's file: nothing in this process may be spent. What the file has started may spend
    nothing afterwards either, while a command is under way."""
    _read.append(str(file))
    outside = _IS_COMMAND.set(False)
    try:
        yield
    finally:
        _IS_COMMAND.reset(outside)
        if not _commands:
            _read.remove(str(file))


@contextmanager
def command(*, is_process: bool) -> Iterator[None]:
    """The block is a command, which may spend whatever it has read. Where it is all that its process does, what is
    left of a file that it read may spend nothing when the block is over."""
    _commands.append(None)
    outside = _IS_COMMAND.set(True)
    try:
        yield
    finally:
        _IS_COMMAND.reset(outside)
        if not is_process:
            _commands.pop()
            _read.clear()


def carried(function: Callable[P, R]) -> Callable[P, R]:
    """The same function for another thread, which may spend there if this context may."""
    is_command = _IS_COMMAND.get()

    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        outside = _IS_COMMAND.set(is_command)
        try:
            return function(*args, **kwargs)
        finally:
            _IS_COMMAND.reset(outside)

    return called
