"""clang: what it is, what it compiles for, and C text to object code."""

import json
import platform
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigentensor import clang
from eigentensor.errors import ExecutionError, LimitError
from eigentensor.program.model import Body
from eigentensor.runtime.build.compilers import SECONDS, SEMANTICS, Build, check_release, with_headers
from eigentensor.runtime.cpu.choice import candidates, choose
from eigentensor.runtime.cpu.features import features
from eigentensor.runtime.cpu.schedule import Schedule, Target
from eigentensor.runtime.cpu.source import write
from eigentensor.runtime.reach import NOTHING, Reach
from eigentensor.scratch import scratch
from eigentensor.system import LINUX

FLAGS = (
    "-c", "-x", "c", "-O2", "-fPIC", "-ffreestanding", "-nostdlib", "-fno-ident", "-fno-asynchronous-unwind-tables",
    # bits: no contraction, integers wrap, sqrt is the instruction
    "-ffp-contract=off", "-fwrapv", "-fno-math-errno", "-fno-strict-aliasing",
    # the text has its vectors; looking for more, clang 14 ends with a signal at some kernels of bools
    "-fno-slp-vectorize",
)  # fmt: skip
#: Flags of a family of processors, by tinygrad's name, with clang's name of the processor.
OF_MACHINE = {
    # clang 14 computes wrong bits with the instructions for halves, which nothing here needs
    "x86_64": ("-march={}", "-mprefer-vector-width=512", "-mno-avx512fp16"),
    "arm64": ("-ffixed-x18", "-mcpu={}"),  # the register belongs to the system
    # code stays as long as it is, so that places in it are known
    "riscv64": ("-march={}", "-mno-relax"),
}
HERE = Path(__file__).parent
ALIKE = 3  #: texts of which it pays to read what they begin with once


@dataclass(frozen=True)
class Toolchain(Build[Schedule]):
    """A compiler and the processor it compiles for.

    Without a command it names and finds what is compiled, and compiles nothing.
    """

    target: Target
    command: tuple[str, ...]
    compiling: ClassVar[Reach] = NOTHING
    reach: ClassVar[Reach] = NOTHING

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
        return with_headers(write(body, self.schedule(body)), (HERE / "c.h", SEMANTICS, HERE / "vectors.h"))

    def compile(self, text: str, confine: Sequence[str] = ()) -> bytes:
        """Object code of C text. `confine` is a command that runs the compiler, for example in a sandbox.

        Raises ExecutionError if the compiler fails and LimitError if it takes too long.
        """
        try:
            done = _run([*confine, *self.command], text.encode())
        except subprocess.TimeoutExpired:
            raise LimitError(f"compiling a kernel took more than {SECONDS} s") from None
        if done.returncode:
            raise ExecutionError(f"clang ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")
        return done.stdout

    def compile_all(self, texts: Sequence[str]) -> list[bytes]:
        """As `compile`, of several texts together: starting clang takes a third of what most of them take, and the
        beginning that they have in common another third. What it fails at is compiled text by text, so that an error is
        of one of them."""
        several = _of_files(self.command) if len(texts) > 1 else ()
        if not several:
            return super().compile_all(texts)
        alike: dict[str, list[int]] = {}
        for number, text in enumerate(texts):
            alike.setdefault(beginning(text), []).append(number)
        with suppress(subprocess.TimeoutExpired, OSError), scratch() as folder:
            if all(_together(several, folder, head, {n: texts[n] for n in some}) for head, some in alike.items()):
                return [(folder / f"{number}.o").read_bytes() for number in range(len(texts))]
        return super().compile_all(texts)

    def to_json(self) -> str:
        """A description for the child process, which must name the same code without asking any compiler."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Toolchain":
        """The toolchain of a description."""
        fields = json.loads(text)
        fields |= {"target": Target(**fields["target"]), "command": tuple(fields["command"])}
        return cls(**fields)


@cache
def _vectors() -> str:
    return (HERE / "vectors.h").read_text()


def beginning(text: str) -> str:
    """What many texts begin with: their lanes and indices, and the headers."""
    return "".join(text.partition(_vectors())[:2]) if _vectors() in text else ""


def _together(command: Sequence[str], folder: Path, head: str, texts: Mapping[int, str]) -> bool:
    """Compiles texts that begin with `head` to files of their numbers; whether that succeeded. What some begin with
    clang reads once."""
    if head and len(texts) >= ALIKE:
        (folder / "head.h").write_text(head)
        precompile = ["c-header" if before == "-x" else "-emit-pch" if word == "-emit-obj" else word
                      for before, word in pairwise(["", *command])]  # fmt: skip
        if _run([*precompile, "head.h", "-o", "head.pch"], b"", cwd=str(folder)).returncode:
            return False
        command, texts = [*command, "-include-pch", "head.pch"], {n: text[len(head) :] for n, text in texts.items()}
    for number, text in texts.items():
        (folder / f"{number}.c").write_text(text)
    return _run([*command, *(f"{number}.c" for number in texts)], b"", cwd=str(folder)).returncode == 0


def _run(command: Sequence[str], text: bytes, cwd: str | None = None) -> "subprocess.CompletedProcess[bytes]":
    """What a compiler says. Ctrl-C is for who waits for it: it is in a group of its own, and is started again if it was
    met before it was there. Raises subprocess.TimeoutExpired."""
    for _ in range(2):
        done = subprocess.run(
            command, input=text, capture_output=True, timeout=SECONDS, check=False, cwd=cwd, process_group=0
        )
        if done.returncode != -signal.SIGINT:
            break
    return done


@cache
def local() -> Toolchain:
    """The compiler of this machine for its processor. Raises ExecutionError if there is none."""
    check_release()
    if not LINUX:
        raise ExecutionError(f"the device CPU runs on Linux, not on {platform.system()}")
    machine = platform.machine().lower()
    return compiling_for({"amd64": "x86_64", "aarch64": "arm64"}.get(machine, machine), "native")


def compiling_for(machine: str, processor: str) -> Toolchain:
    """The compiler of this machine for any: `machine` is tinygrad's name of a family, `processor` clang's of one in it.

    Raises ExecutionError if there is no clang, or if it or clang does not know the processor.
    """
    command = clang.path()
    if command is None:
        raise ExecutionError("clang is not installed", fix=clang.FIX)
    if machine not in OF_MACHINE:
        raise ExecutionError(f"the CPU device does not know the processor {machine}")
    if (machine, processor) == ("riscv64", "native"):
        processor = "rv64g"  # clang 14 does not ask
    of_machine = (flag.format(processor) for flag in OF_MACHINE[machine])
    flags = (*FLAGS, f"--target={machine}-none-unknown-elf", *of_machine)
    # what `native` means here, in full; from a fixed folder, since clang names the one in which it was started
    done = _run([command, *flags, "-###", "-"], b"", cwd="/")
    shown = done.stderr.decode(errors="replace")
    if done.returncode:
        raise ExecutionError(f"clang ended with {done.returncode}: {shown[-2000:]}")
    resolved = [line for line in shown.splitlines() if "-cc1" in line or "version" in line]
    wide = '"+avx512dq"' in shown
    target = Target(16 if wide else 8 if '"+fma"' in shown else 4, 32 if wide or machine == "arm64" else 16)
    return Toolchain("\n".join(resolved), target, (command, *flags, "-", "-o", "-"))


@cache
def _of_files(command: tuple[str, ...]) -> tuple[str, ...]:
    """What a command of clang starts to compile its input, for any number of files, each of which becomes one that is
    named .o; empty for another command, or where clang says it in another way."""
    if command[:1] != (clang.path(),):
        return ()
    shown = _run([*command, "-###"], b"", cwd="/").stderr.decode(errors="replace")
    words = next((shlex.split(line) for line in shown.splitlines() if "-cc1" in line), [])
    if words[1:2] != ["-cc1"] or words[-1] != "-":
        return ()
    of_input = [at for at, word in enumerate(words) if word in ("-o", "-main-file-name")]
    dropped = {*of_input, *(at + 1 for at in of_input), len(words) - 1}
    return tuple(word for at, word in enumerate(words) if at not in dropped)
