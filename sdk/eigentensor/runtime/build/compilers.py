"""What makes object code, for any device, and the name of the code in the cache: all that decides it is in that."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Generic, Self

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import ExecutionError
from eigentensor.program.model import Body
from eigentensor.runtime.build.database import Platform, default_path
from eigentensor.runtime.build.decide import S, tuned
from eigentensor.runtime.build.names import body_name

TINYGRAD = "0.14.0"
SECONDS = 120  #: for compiling one body
PACKAGE = Path(__file__).parents[2]
#: The arithmetic of the format, which all texts begin with.
SEMANTICS = Path(__file__).with_name("semantics.h")
#: The folders whose code writes text, or decides what it says.
GENERATOR = ("numerics", "program", "runtime")


@cache
def generator() -> str:
    """Changes with the code that writes text, as it was when it was first asked for."""
    files = hashlib.sha256()
    for file in sorted(file for folder in GENERATOR for file in (PACKAGE / folder).rglob("*.[pch]*")):
        if file.suffix in (".py", ".c", ".h"):
            files.update(f"{file.relative_to(PACKAGE)}\0".encode() + file.read_bytes() + b"\0")
    return files.hexdigest()


@dataclass(frozen=True)
class Build(ABC, Generic[S]):
    """What object code depends on besides the body and its schedule.

    `identity` changes with the compiler, its flags and the device that it compiles for; `target` is what schedules are
    fitted to. `schedules` are those that are not the heuristic's, as texts by `body_name`; with None the tuning
    database of this user is asked for them.
    """

    identity: str
    target: Any
    device: str = field(default="CPU", kw_only=True)
    schedules: Mapping[str, str] | None = field(default=None, kw_only=True)

    @cached_property
    def version(self) -> str:
        """Changes with everything that decides the object code of a body under a schedule."""
        return hashlib.sha256(repr((*self.decides(), generator())).encode()).hexdigest()

    def decides(self) -> tuple[object, ...]:
        """What decides object code besides the body, its schedule and the code generator."""
        return self.identity, self.device, self.target

    def name(self, what: str) -> str:
        """The name of object code in the cache."""
        return hashlib.sha256(f"{self.version} {what}".encode()).hexdigest()

    def key(self, body: Body) -> str:
        """The name of the object code of a body. The heuristic's schedule follows from all else, and is not made."""
        return self.name(f"{self.tuned(body) or ''} {body_name(body)}")

    @property
    @abstractmethod
    def can_compile(self) -> bool:
        """Whether there is a compiler, or only names of what was compiled."""

    @property
    @abstractmethod
    def driver(self) -> str:
        """The text of what runs the calls; empty where the device does."""

    @abstractmethod
    def source(self, body: Body) -> str:
        """The text of a body, complete."""

    @abstractmethod
    def compile(self, text: str) -> bytes:
        """Code of a text. Raises ExecutionError, or LimitError if it takes too long."""

    def compile_all(self, texts: Sequence[str]) -> list[bytes]:
        """The same of several texts, each as `compile` makes it."""
        return [self.compile(text) for text in texts]

    @abstractmethod
    def heuristic(self, body: Body) -> S:
        """A good schedule without measuring."""

    @abstractmethod
    def candidates(self, body: Body) -> list[S]:
        """Schedules that are worth measuring, the heuristic's first."""

    @abstractmethod
    def parse(self, text: str) -> S:
        """The schedule of a text. Raises ValueError."""

    @abstractmethod
    def features(self, body: Body, schedules: Sequence[S]) -> NDArray[np.float64]:
        """What the time of each schedule depends on, a row of numbers."""

    @property
    def platform(self) -> Platform:
        """Where times of this build hold: a change of compiler, device or generator makes them those of another."""
        return Platform(self.device, self.version)

    def tuned(self, body: Body) -> S | None:
        """A schedule that is known to be better than the heuristic's, if there is one."""
        if self.schedules is None:
            return tuned(default_path(), self, body)
        text = self.schedules.get(body_name(body))
        return None if text is None else self.parse(text)

    def schedule(self, body: Body) -> S:
        """What a body is compiled with: the tuned schedule if there is one, else the heuristic's."""
        return self.tuned(body) or self.heuristic(body)

    def settled(self, bodies: Iterable[Body]) -> Self:
        """The same, which asks no database: the schedules of these bodies are decided now, others are heuristic."""
        schedules = {body_name(body): self.tuned(body) for body in bodies}
        return replace(self, schedules={key: str(schedule) for key, schedule in schedules.items() if schedule})


def with_headers(text: str, files: Iterable[Path]) -> str:
    """The text of a body, complete: these files stand for semantics.h."""
    return text.replace('#include "semantics.h"\n', "".join(file.read_text() for file in files))


def check_release() -> None:
    """Raises ExecutionError if tinygrad is another release than the one that this package was held to."""
    from importlib import metadata  # takes long, and a sealed process asks for nothing

    if (release := metadata.version("tinygrad")) != TINYGRAD:
        raise ExecutionError(
            f"tinygrad {release} is installed, {TINYGRAD} is expected", fix=f"pip install tinygrad=={TINYGRAD}"
        )
