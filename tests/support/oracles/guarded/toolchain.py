"""The second way as a Toolchain, so that whatever executes and compares programs does so with it, too."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from threading import Lock

from eigentensor.program.model import Body
from eigentensor.runtime.cpu import llvm as llvm_device
from eigentensor.runtime.cpu import toolchain as toolchains
from eigentensor.runtime.cpu.toolchain import Toolchain
from support.oracles.guarded.lowering import lower
from support.oracles.guarded.pipeline import lines, order_preserving
from support.oracles.guarded.renderers import LLVM, C

NESTED = "-fbracket-depth=16384"  # C text has parentheses around everything
_tinygrad = Lock()  # its nodes are shared by the whole process


@dataclass(frozen=True)
class Guarded(Toolchain):
    """Compiles bodies through tinygrad's code generation. Without a seed loops stay as they are; with one, output loops
    are taken apart at random, which changes no bit."""

    seed: int | None = None
    triple: str = ""  #: of LLVM's text; C text if there is none
    assembler: tuple[str, ...] = ()

    @cached_property
    def version(self) -> str:
        files = sorted(Path(__file__).parent.glob("*.py"))
        generator = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        return hashlib.sha256(f"{super().version} {generator} {self.triple} {self.seed}".encode()).hexdigest()

    def source(self, body: Body) -> str:
        with _tinygrad:
            renderer, kernel = LLVM(self.triple) if self.triple else C(), lower(body)
            opts = order_preserving(kernel, renderer, Random(f"{self.seed} {body!r}")) if self.seed is not None else ()
            return str(renderer.render(lines(kernel, renderer, opts)))

    def compile(self, text: str, confine: Sequence[str] = ()) -> bytes:
        reader = replace(self, command=self.assembler) if text.startswith("target triple") else self
        return Toolchain.compile(reader, text, confine)


def clang(seed: int | None = None) -> Guarded:
    """Through C text and clang."""
    here = toolchains.local()
    return Guarded(here.identity, here.target, (*here.command, NESTED), seed=seed)


def llvm(seed: int | None = None) -> Guarded:
    """Through LLVM's text and libLLVM."""
    device = llvm_device.toolchain()
    triple = next(flag.partition("=")[2] for flag in device.command if flag.startswith("--target="))
    return Guarded(device.identity, device.target, device.command, seed, triple, llvm_device.command("object"))
