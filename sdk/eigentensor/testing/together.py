"""Object code of many bodies from few runs of a compiler, for tests of thousands of programs.

Starting a compiler and reading the scalar semantics takes longer than a small kernel itself. Kernels that read the same
semantics are put into one text, each in a section of its own, and the object is cut: what comes out for a body is the
code that it has alone.
"""

import struct
from collections.abc import Iterable, Sequence

import numpy as np

from eigentensor.cache import Cache
from eigentensor.program.model import Body
from eigentensor.runtime.toolchain import Toolchain

#: Kernels in one text.
MOST = 32
HEAD = "i64 kernel("
SECTION = np.dtype(
    [("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"), ("size", "<u8"),
     ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry", "<u8")]
)  # fmt: skip
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
CODE, SYMBOLS, RELOCATIONS, NAMES = 1, 2, 4, 3  # types of sections


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

    def fill(self, bodies: Iterable[Body], toolchain: Toolchain) -> None:
        """Compile what is not there."""
        texts = {toolchain.key(body): toolchain.source(body) for body in bodies if body.parameters[0].elements}
        groups: dict[str, list[tuple[str, str]]] = {}
        for key, text in texts.items():
            if key not in self.codes and HEAD in text:
                start = text.rindex(HEAD)
                groups.setdefault(text[:start], []).append((key, text[start:]))
        for semantics, kernels in groups.items():
            for first in range(0, len(kernels), MOST):
                some = dict(kernels[first : first + MOST])
                codes = compiled(semantics, list(some.values()), toolchain)
                self.codes |= zip(some, codes, strict=True)


def compiled(semantics: str, kernels: Sequence[str], toolchain: Toolchain) -> list[bytes]:
    """The object code of each kernel."""
    named = (
        f'__attribute__((section("{_section(n)}"))) {text.replace(HEAD, f"i64 kernel{n}(", 1)}'
        for n, text in enumerate(kernels)
    )
    code = toolchain.compile(semantics + "".join(named))
    return [cut(code, _section(n)) for n in range(len(kernels))]


def _section(number: int) -> str:
    return f".text.kernel{number}"


def cut(code: bytes, section: str) -> bytes:
    """An object with one section of code, first, and the data that it may refer to."""
    offset, count, names = *struct.unpack_from("<Q", code, 0x28), *struct.unpack_from("<HH", code, 0x3C)
    sections = np.frombuffer(code, SECTION, count, offset)
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
