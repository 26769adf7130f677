"""Scopes with names: what is recorded in one carries its name, as a hint where it may be computed. No bit depends on
them, and a name that nothing is said about changes nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

from eigentensor.errors import ConfigError
from eigentensor.gt.connection import recorder, signals
from eigentensor.gt.tensors import Tensor, repeated


class _Entered(local):
    """The scopes that a thread has entered, and what held before each of them."""

    def __init__(self) -> None:
        self.scopes: list[tuple[str, str | None, str | None]] = []


_entered = _Entered()


@contextmanager
def context(name: str, backward: str | None = None) -> Iterator[None]:
    """What this thread does within carries this signal, and its gradients the other one. The innermost scope holds."""
    scope = recorder().scope
    with recorder().within(*_holding(name, backward, (scope.signal, scope.backward))):
        yield


#: Another of GT's names of it.
signal = context


def enter(name: str, backward: str | None = None) -> None:
    """Begins a scope that `exit` ends."""
    scope = recorder().scope
    _entered.scopes.append((name, scope.signal, scope.backward))
    scope.signal, scope.backward = _holding(name, backward, (scope.signal, scope.backward))


def _holding(name: str, backward: str | None, outer: tuple[str | None, str | None]) -> tuple[str | None, str | None]:
    """The signals of a scope and of its gradients: those of the scope around it, if nothing is said about this one."""
    known = signals()
    config = known.by_name.get(name) if known else None
    if known and config is None and outer[0] in known.by_name:
        return outer
    return name, backward or (config.backward_signal if config else None)


def exit(name: str) -> None:  # noqa: A001 - GT's name
    """Ends the scope that this thread entered last. Raises ConfigError if that has another name."""
    if not _entered.scopes or _entered.scopes[-1][0] != name:
        inner = _entered.scopes[-1][0] if _entered.scopes else None
        raise ConfigError(
            f"the scope {name!r} was not entered last" if inner else f"the scope {name!r} was not entered",
            fix=f"Exit {inner!r} first." if inner else "Enter it first, or use `with signal.context(…)`.",
        )
    scope = recorder().scope
    _, scope.signal, scope.backward = _entered.scopes.pop()


def tensor(x: Tensor, name: str, backward_name: str | None = None) -> Tensor:
    """The same elements, where the signal says; gradients through it are where the other signal says."""
    with context(name, backward_name):
        return repeated(x)
