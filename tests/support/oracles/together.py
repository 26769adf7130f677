"""Object code of many bodies from few runs of a compiler, for tests of thousands of programs.

Starting a compiler and reading the scalar semantics takes longer than a small kernel itself. Kernels that read the same
semantics are put into one text, each in a section of its own, and the object is cut: what comes out for a body is the
code that it has alone.
"""

import ctypes
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from tinygrad.runtime.autogen import cuda
from tinygrad.runtime.ops_cuda import check

from eigentensor.cache import Cache
from eigentensor.program.model import Body
from eigentensor.runtime.build.compilers import Build
from eigentensor.runtime.cpu.toolchain import Toolchain
from eigentensor.runtime.gpu.cuda import Cuda
from eigentensor.runtime.gpu.gridded import Gridded, Queue
from eigentensor.runtime.gpu.opencl import OpenCL
from eigentensor.runtime.gpu.simt import NAME

#: Kernels in one text.
MOST = 128
#: Where a kernel begins in its text, behind the scalar semantics; the last words are its name.
HEADS = {Toolchain: re.compile(r"^i64 kernel\b", re.M), Gridded: re.compile(r"^KERNEL\(\d+\) void compute\b", re.M)}
SECTION = np.dtype(
    [("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"), ("size", "<u8"),
     ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry", "<u8")]
)  # fmt: skip
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
CODE, SYMBOLS, RELOCATIONS = 1, 2, 4  # types of sections


class Together(Cache):
    """Object code in memory, for as long as a few programs need it."""

    def __init__(self) -> None:
        self.codes: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.codes.get(key)

    def put(self, key: str, code: bytes) -> None:
        self.codes[key] = code

    def prune(self, most: int = 0) -> None:
        """Nothing is dropped but with the whole."""

    def fill(self, bodies: Iterable[Body], build: Build[Any]) -> None:
        """Compile what is not there. The code is for `loading(build)`."""
        head = HEADS.get(type(build))
        groups: dict[str, list[tuple[str, str, str]]] = {}
        for body in sorted(bodies, key=repr):
            text = build.source(body) if head and body.parameters[0].elements else ""
            if head and (matched := head.search(text)):
                kernel = build.key(body), text[matched.start() : matched.end()], text[matched.end() :]
                groups.setdefault(text[: matched.start()], []).append(kernel)
        for semantics, kernels in groups.items():
            for first in range(0, len(kernels), MOST):
                keys, heads, rests = zip(*kernels[first : first + MOST], strict=True)
                named = [f"{h}{n}{rest}" for n, (h, rest) in enumerate(zip(heads, rests, strict=True))]
                self.codes |= zip(keys, compiled(semantics, named, build), strict=True)


def compiled(semantics: str, kernels: Sequence[str], build: Build[Any]) -> list[bytes]:
    """The code of each kernel; they are named by their number."""
    if isinstance(build, Gridded):
        code = build.compile(semantics + "".join(kernels))
        return [b"compute%d\0" % n + code for n in range(len(kernels))]
    named = (f'__attribute__((section("{_section(n)}"))) {text}' for n, text in enumerate(kernels))
    code = build.compile(semantics + "".join(named))
    return [cut(code, _section(n)) for n in range(len(kernels))]


def loading(build: Build[Any]) -> Build[Any]:
    """What loads the code: for devices with work items, one kernel of the program of many."""
    return replace(build, queue=partial(_queue, build.device)) if isinstance(build, Gridded) else build


@cache
def _queue(device: str) -> Queue:
    return _OfManyCL() if device == "CL" else _OfManyCuda()


class _OfManyCL(OpenCL):
    """Finds a kernel by name in the program of many, which is loaded once."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded = lru_cache(maxsize=8)(super().kernel)

    def kernel(self, code: bytes, name: str = NAME) -> Any:
        named, rest = _named(code)
        return _Kernel(self.loaded(rest), named) if named else super().kernel(code, name)


class _OfManyCuda(Cuda):
    """The same on CUDA, where the module of many is loaded once."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded = lru_cache(maxsize=8)(super().kernel)

    def kernel(self, code: bytes, name: str = NAME) -> Any:
        named, rest = _named(code)
        return _Function(self.loaded(rest, f"{NAME}0"), named) if named else super().kernel(code, name)


def _named(code: bytes) -> tuple[str, bytes]:
    """The name of a kernel in the program of many, and that program; no name if there is one kernel alone."""
    named = re.match(rb"(compute\d+)\0", code)
    return (named[1].decode(), code[named.end() :]) if named else ("", code)


class _Kernel(NamedTuple):
    program: Any
    name: str

    @property
    def opaque(self) -> Any:
        return self.program.opaque


class _Function:
    """A function of a module, which it keeps loaded."""

    def __init__(self, first: Any, name: str) -> None:
        self.first, self.prg = first, cuda.CUfunction()
        check(cuda.cuModuleGetFunction(ctypes.byref(self.prg), first.module, name.encode()))


def _section(number: int) -> str:
    return f".text.kernel{number}"


def cut(code: bytes, section: str) -> bytes:
    """An object with one section of code, first, and the data that it may refer to."""
    offset, count, names = *struct.unpack_from("<Q", code, 0x28), *struct.unpack_from("<HH", code, 0x3C)
    sections = np.frombuffer(code, SECTION, count, offset).copy()
    start = int(sections[names]["offset"])
    called = [code[start + int(s["name"]) : code.index(0, start + int(s["name"]))].decode() for s in sections]
    first = called.index(section)
    data = [
        n for n, s in enumerate(sections) if s["type"] == CODE and s["flags"] & 2 and not called[n].startswith(".text")
    ]
    kept = [first, *data]
    kept += [n for n, s in enumerate(sections) if s["type"] == RELOCATIONS and int(s["info"]) in kept]
    table = next(n for n, s in enumerate(sections) if s["type"] == SYMBOLS)
    order = [0, *kept, table, names]
    moved = {old: new for new, old in enumerate(order)}
    contents = {n: code[int(s["offset"]) : int(s["offset"] + s["size"])] for n, s in enumerate(sections)}
    symbols = np.frombuffer(contents[table], SYMBOL).copy()
    for n in (n for n in kept if sections[n]["type"] == RELOCATIONS):  # tables of other kernels refer to their code
        entries = np.frombuffer(contents[n], RELOCATION)
        known = np.isin(symbols["section"][entries["symbol"]], list(moved))
        contents[n], sections["size"][n] = entries[known].tobytes(), RELOCATION.itemsize * known.sum()
    symbols["section"] = [moved.get(int(n), 0) for n in symbols["section"]]
    contents[table] = symbols.tobytes()
    new = sections[order].copy()
    image = bytearray(code[:0x40])
    for s, old in zip(new[1:], order[1:], strict=True):
        image += bytes(-len(image) % 16)
        s["offset"], s["link"], s["info"] = len(image), moved.get(int(s["link"]), 0), moved.get(int(s["info"]), 0)
        image += contents[old]
    image += bytes(-len(image) % 16)
    struct.pack_into("<Q", image, 0x28, len(image))
    struct.pack_into("<HH", image, 0x3C, len(order), len(order) - 1)
    return bytes(image + new.tobytes())
