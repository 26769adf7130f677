"""Object code as it lies in memory: tinygrad's loader, and what it lacks of RISC-V."""

import struct
from collections.abc import Iterable

from tinygrad.runtime.support.elf import elf_loader, jit_loader

RISCV = 243  #: in the head of an object
HIGH, LOW, STORED = 23, 24, 25  #: R_RISCV_PCREL_HI20, …LO12_I, …LO12_S


def linked(code: bytes, base: int) -> bytes:
    """An object's sections, to be put at `base`. It is linked with nothing.

    Raises RuntimeError for a function of a library, NotImplementedError for a relocation that is not known, and
    StopIteration or ValueError for what is no object.
    """
    if code[18:20] != struct.pack("<H", RISCV):
        return bytes(jit_loader(code, base=base))
    image, _, relocations = elf_loader(code)
    return _riscv(bytearray(image), relocations)


def _riscv(image: bytearray, relocations: Iterable[tuple[int, int, int, int]]) -> bytes:
    """How far something is from an instruction: its upper bits stand there, the lower ones in others, which name it."""
    relocations = list(relocations)
    far = {place: target + more - place for place, target, kind, more in relocations if kind == HIGH}
    for place, target, kind, _ in relocations:
        if kind == HIGH:
            bits = far[place] + 0x800 & 0xFFFFF000
        elif kind == LOW:
            bits = (far[target] & 0xFFF) << 20
        elif kind == STORED:
            bits = (far[target] >> 5 & 0x7F) << 25 | (far[target] & 0x1F) << 7
        else:
            raise NotImplementedError(f"relocation {kind} of RISC-V")
        struct.pack_into("<I", image, place, struct.unpack_from("<I", image, place)[0] | bits)
    return bytes(image)
