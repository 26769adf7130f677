"""What a captured function does to tensors and variables that no state of its program would show: refused by name."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinygrad import Tensor, schedule
from tinygrad.uop.ops import KernelInfo

from eigentensor.capture.lines import is_library, user_line
from eigentensor.errors import CaptureError

UNBOUND = "the value of a variable is read while the program is made", "compute with it: Tensor(variable), slices"
BOUND = (
    "a variable is bound within the function",
    "take it as a parameter: capture(…, variables={name: (minimum, maximum)})",
)
#: The name that kernels of users have while they are recorded.
CUSTOM = "custom"
_SCHEDULE = str(Path(schedule.__file__).parent)
SCHEDULED = "the function schedules what nothing runs", "call realize, or nothing at all"


class Gradients:
    """Which gradients a function reads that add up from call to call, since it never sets them to None."""

    def __init__(self) -> None:
        self.held: dict[int, Tensor] = {}  # tensors by the ids of the gradients that they had before
        self._cleared: set[int] = set()
        self._begun: dict[int, tuple[Tensor, str]] = {}
        self._read: set[int] = set()

    def noted(self, slot: Any, existed: Mapping[int, Tensor]) -> Any:
        """Tensor.grad, noting who sets and reads it for the first time."""

        def read(tensor: Tensor) -> Any:
            if id(tensor) in self._begun and sys._getframe(1).f_code is not Tensor.backward.__code__:
                self._read.add(id(tensor))
            return slot.__get__(tensor)

        def write(tensor: Tensor, value: Any) -> None:
            if id(tensor) in existed and value is None:
                self._cleared.add(id(tensor))
            elif id(tensor) in existed and id(tensor) not in self._cleared and slot.__get__(tensor) is None:
                self._begun[id(tensor)] = tensor, user_line()
            slot.__set__(tensor, value)

        return property(read, write)

    def add_to(self, gradient: Tensor) -> None:
        """Notes that something is added to a gradient, if it is one from before."""
        if (tensor := self.held.get(id(gradient))) is not None and id(tensor) not in self._cleared:
            self._begun[id(tensor)] = tensor, user_line()

    def adding_up(self) -> str | None:
        """The line where one begins, if there is any; the next call would find it."""
        lines = (line for key, (tensor, line) in self._begun.items() if key in self._read and tensor.grad is not None)
        return next(lines, None)


def unnamed(size: str, line: str) -> CaptureError:
    """Why a tensor that belongs to no model cannot be assigned."""
    return CaptureError(
        f"a tensor {size} is assigned, and no name of it is found",
        fix="keep it as an attribute, or in a list or dict, of the function's object or of `model`",
        line=line,
    )


def argument_assigned(name: str, line: str) -> CaptureError:
    """Why an argument keeps its value: it is its caller's."""
    return CaptureError(
        f"the argument {name!r} is assigned, and its caller would not see it",
        fix=f"make a new tensor: {name} = {name} + 1 for {name} += 1; {name} = {name}.clone() before its parts change",
        line=line,
    )


def adding_up(line: str) -> CaptureError:
    """Why a gradient does not depend on the calls before."""
    return CaptureError(
        "a gradient that is read is added to the one of the call before",
        fix="set it to None first: optimizer.zero_grad(), or tensor.grad = None",
        line=line,
    )


def seeded_late() -> CaptureError:
    """Why all random numbers of a function come from one sequence."""
    return CaptureError(
        "the function draws random numbers, and then sets the seed",
        fix="call Tensor.manual_seed at its beginning, or not at all",
    )


def shared(name: str, others: Sequence[str]) -> CaptureError:
    """Why a state has storage of its own."""
    other = f"{others[0]!r}" if others else "a tensor without a name"
    return CaptureError(
        f"{name!r} is assigned and lies in the storage of {other}",
        fix="keep one of the two, and make the other within the function; or .clone() it once",
    )


def bound_twice(name: str) -> CaptureError:
    """Why a variable has no other value than the order's."""
    return CaptureError(
        f"the variable {name!r} is bound by the order, and to a number, too",
        fix="use the one that the function is given, or a plain number",
        line=user_line(),
    )


def custom(original: Any) -> Any:
    """UOp.call, by which kernels that the user wrote can be told from those that tinygrad schedules."""

    def called(body: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(body.arg, KernelInfo) and not sys._getframe(1).f_code.co_filename.startswith(_SCHEDULE):
            body = body.replace(arg=replace(body.arg, name=CUSTOM))
        return original(body, *args, **kwargs)

    return called


def not_by_users(original: Any, what: str, fix: str) -> Any:
    """A method of tinygrad's that only tinygrad calls."""

    def called(*args: Any, **kwargs: Any) -> Any:
        if not is_library(sys._getframe(1).f_code.co_filename):
            raise CaptureError(what, fix=fix, line=user_line())
        return original(*args, **kwargs)

    return called
