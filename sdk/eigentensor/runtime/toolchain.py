"""clang: what it is, what it compiles for, and C text to object code. tinygrad's CPU device says which processor."""

import hashlib
import json
import platform
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from tinygrad.runtime.support.compiler_cpu import ClangCompiler

from eigentensor.errors import ExecutionError, LimitError
from eigentensor.program.model import Body
from eigentensor.runtime.choice import candidates, choose
from eigentensor.runtime.grid import Grid
from eigentensor.runtime.schedule import Schedule, Target
from eigentensor.runtime.source import write
from eigentensor.runtime.tuning.database import Place, default_path
from eigentensor.runtime.tuning.decide import tuned
from eigentensor.runtime.tuning.features import features
from eigentensor.runtime.tuning.names import body_name

TINYGRAD = "0.14.0"
SECONDS = 120  #: for compiling one body
FLAGS = (
    "-c", "-x", "c", "-O2", "-fPIC", "-ffreestanding", "-nostdlib", "-fno-ident", "-fno-asynchronous-unwind-tables",
    # bits: no contraction, integers wrap, sqrt is the instruction
    "-ffp-contract=off", "-fwrapv", "-fno-math-errno", "-fno-strict-aliasing",
    # the text has its vectors; looking for more, clang 14 ends with a signal at some kernels of bools
    "-fno-slp-vectorize",
)  # fmt: skip
HERE = Path(__file__).parent


@cache
def generator() -> str:
    """Changes with the code of the runtime, as it was when it was first asked for."""
    files = hashlib.sha256()
    for file in sorted([*HERE.glob("*.py"), *HERE.glob("*.[ch]")]):
        files.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return files.hexdigest()


S = TypeVar("S", Schedule, Grid)  #: how a body is spread over a device


@dataclass(frozen=True)
class Build(ABC, Generic[S]):
    """All that object code depends on besides the body: `identity` changes with compiler and device.

    `schedules` are those that are not the heuristic's, as texts by `body_name`; with None the tuning database of this
    user is asked for them.
    """

    identity: str
    device: str = field(default="CPU", kw_only=True)
    schedules: Mapping[str, str] | None = field(default=None, kw_only=True)

    @cached_property
    def version(self) -> str:
        """Changes with the identity, and with the code generator."""
        return hashlib.sha256(f"{self.identity} {generator()}".encode()).hexdigest()

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
    def place(self) -> Place:
        return Place(self.device, self.version)

    def tuned(self, body: Body) -> S | None:
        """A schedule that is known to be better than the heuristic's, if there is one."""
        if self.schedules is None:
            return tuned(default_path(), self, body)
        text = self.schedules.get(body_name(body))
        return None if text is None else self.parse(text)

    def schedule(self, body: Body) -> S:
        return self.tuned(body) or self.heuristic(body)

    def settled(self, bodies: Iterable[Body]) -> Self:
        """The same, which asks no database: the schedules of these bodies are decided now, others are heuristic."""
        found = {body_name(body): self.tuned(body) for body in bodies}
        return replace(self, schedules={key: str(schedule) for key, schedule in found.items() if schedule})


def with_headers(text: str, names: Iterable[str]) -> str:
    """The text of a body, complete: these files stand for semantics.h."""
    return text.replace('#include "semantics.h"\n', "".join((HERE / name).read_text() for name in names))


@dataclass(frozen=True)
class Toolchain(Build[Schedule]):
    """A compiler and the processor it compiles for.

    Without a command it names and finds what is compiled, and compiles nothing.
    """

    target: Target
    command: tuple[str, ...]
    needs: ClassVar[tuple[Path, ...]] = ()  #: files besides libraries

    @property
    def can_compile(self) -> bool:
        return bool(self.command)

    @property
    def driver(self) -> str:
        """The C text of what runs a table of calls."""
        return (HERE / "driver.c").read_text()

    def heuristic(self, body: Body) -> Schedule:
        return choose(body, self.target)

    def candidates(self, body: Body) -> list[Schedule]:
        return candidates(body, self.target)

    def parse(self, text: str) -> Schedule:
        return Schedule.parse(text)

    def features(self, body: Body, schedules: Sequence[Schedule]) -> NDArray[np.float64]:
        return features(body, schedules)

    def source(self, body: Body) -> str:
        """The C text of a body, complete."""
        return with_headers(write(body, self.schedule(body)), ("c.h", "semantics.h", "vectors.h"))

    def compile(self, text: str, confine: Sequence[str] = ()) -> bytes:
        """Object code of C text. `confine` is a command that runs the compiler, for example in a sandbox.

        Raises ExecutionError if the compiler fails and LimitError if it takes too long.
        """
        try:
            done = subprocess.run(
                [*confine, *self.command], input=text.encode(), capture_output=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise LimitError(f"compiling a kernel took more than {SECONDS} s") from None
        if done.returncode:
            raise ExecutionError(f"clang ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")
        return done.stdout

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Toolchain":
        fields = json.loads(text)
        fields |= {"target": Target(**fields["target"]), "command": tuple(fields["command"])}
        return cls(**fields)


#: What gives the toolchain of each device, as module:function; it is imported when the device is asked for.
MAKERS = {
    "CPU": f"{__name__}:local",
    "CPU:LLVM": "eigentensor.runtime.llvm:toolchain",
    "CL": "eigentensor.runtime.opencl:toolchain",
    "CUDA": "eigentensor.runtime.cuda:toolchain",
}


def of(device: str) -> Build[Any]:
    """What compiles for a device, by tinygrad's name.

    Raises ExecutionError if there is no such device, or if it cannot be used.
    """
    maker = MAKERS.get(device)
    if maker is None:
        raise ExecutionError(f"there is no device {device!r}", fix=f"Use one of {', '.join(MAKERS)}.")
    module, function = maker.split(":")
    made: Build[Any] = getattr(import_module(module), function)()
    return made


def check_release() -> None:
    """Raises ExecutionError if tinygrad is another release than the one that this package was held to."""
    if (found := metadata.version("tinygrad")) != TINYGRAD:
        raise ExecutionError(
            f"tinygrad {found} is installed, {TINYGRAD} is expected", fix=f"pip install tinygrad=={TINYGRAD}"
        )


@cache
def local() -> Toolchain:
    """The compiler of this machine for its processor. Raises ExecutionError if there is none."""
    check_release()
    clang = shutil.which("clang")
    if clang is None:
        raise ExecutionError("clang is not installed", fix="Install it, on Debian with `apt-get install clang`.")
    machine = {"amd64": "x86_64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine().lower())
    flags = (*FLAGS, f"--target={machine}-none-unknown-elf", *ClangCompiler([machine, "native"]).args)
    if machine == "x86_64":
        # clang 14 computes wrong bits with the instructions for halves, which nothing here needs
        flags = (*flags, "-mprefer-vector-width=512", "-mno-avx512fp16")
    # what `native` means here, in full; from a fixed folder, since clang names the one in which it was started
    shown = subprocess.run([clang, *flags, "-###", "-"], capture_output=True, text=True, check=True, cwd="/").stderr
    resolved = [line for line in shown.splitlines() if "-cc1" in line or "version" in line]
    wide = '"+avx512dq"' in shown
    target = Target(16 if wide else 8 if '"+fma"' in shown else 4, 32 if wide or machine == "arm64" else 16)
    return Toolchain("\n".join(resolved), target, (clang, *flags, "-", "-o", "-"))
