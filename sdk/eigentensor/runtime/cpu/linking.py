"""Object code as it lies in memory: ELF of 64 bits, as clang writes it for the processors here, linked with nothing.

tinygrad has a loader, too. This one is so small because it needs no library to link with, and spares a sealed process,
which is started for each stranger's program, tinygrad's import: half of the time until it is ready.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from eigentensor.errors import ExecutionError

MAGIC = b"\x7fELF\x02\x01"  #: 64 bits, lowest byte first
PROGBITS, SYMTAB, RELA = 1, 2, 4  #: types of sections
ALLOCATED = 2  #: a flag of sections that lie in memory
X86, ARM, RISCV = 62, 183, 243
#: R_X86_64_PC32, …PLT32.
NEAR = {2, 4}
#: R_AARCH64_ADR_PREL_PG_HI21, …CALL26; and …ADD_ABS_LO12_NC, …LDST16…, 32, 64, 128: by how many bits they are shifted.
PAGE, CALL = 275, 283
IN_PAGE = {277: 0, 284: 1, 285: 2, 286: 3, 299: 4}
#: R_RISCV_PCREL_HI20, …LO12_I, …LO12_S.
HIGH, LOW, STORED = 23, 24, 25


class Section(NamedTuple):
    """A line of the table of sections."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    each: int


class Relocation(NamedTuple):
    """What is still to be written at a place, of which kind: how far a target is from there."""

    place: int
    kind: int
    target: int


def linked(code: bytes) -> bytes:
    """An object's sections, to be put at the beginning of any page; the first one begins there.

    Raises ExecutionError for a function of a library, for a relocation that is not known, and for what is no object.
    """
    try:
        machine, image, relocations = _placed(code)
        if machine == RISCV:
            relocations = _together(relocations)
        for place, kind, target in relocations:
            (word,) = struct.unpack_from("<I", image, place)
            struct.pack_into("<I", image, place, _relocated(machine, word, kind, place, target))
    except (struct.error, LookupError, ValueError) as error:
        raise _refused(f"it is damaged: {error}") from error
    return bytes(image)


def _refused(why: str) -> ExecutionError:
    return ExecutionError(f"object code cannot be loaded: {why}")


def _placed(code: bytes) -> tuple[int, bytearray, list[Relocation]]:
    """The family of processors, the sections one after the other, and what is to be written in them."""
    if code[: len(MAGIC)] != MAGIC:
        raise _refused("it is not ELF of 64 bits")
    (machine,) = struct.unpack_from("<H", code, 18)
    (table,), (count, names) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<2H", code, 60)
    sections = [Section(*struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * i)) for i in range(count)]
    image, places = bytearray(), dict[int, int]()
    for number, section in enumerate(sections):
        unwinding = _text(code, sections[names].offset + section.name) == ".eh_frame"  # nothing here does that
        if section.kind == PROGBITS and section.flags & ALLOCATED and not unwinding:
            image += bytes(-len(image) % max(1, section.alignment))
            places[number] = len(image)
            image += code[section.offset : section.offset + section.size]
    return machine, image, list(_relocations(code, sections, places))


def _relocations(code: bytes, sections: list[Section], places: dict[int, int]) -> Iterator[Relocation]:
    for section in sections:
        if section.kind != RELA or section.info not in places:
            continue
        symbols = sections[section.link]
        for at in range(section.offset, section.offset + section.size, 24):
            offset, kind, symbol, more = struct.unpack_from("<QIIq", code, at)
            name, _, _, home, value, _ = struct.unpack_from("<IBBHQQ", code, symbols.offset + 24 * symbol)
            if home == 0:
                raise _refused(f"it calls {_text(code, sections[symbols.link].offset + name)!r} of a library")
            if home not in places:
                raise _refused("it writes memory of its own")
            yield Relocation(places[section.info] + offset, kind, places[home] + value + more)


def _text(code: bytes, at: int) -> str:
    return code[at : code.index(b"\0", at)].decode()


def _together(relocations: list[Relocation]) -> list[Relocation]:
    """On RISC-V lower bits stand in instructions of their own, which name the one with the upper bits: they get the
    distance from that."""
    far = {place: target - place for place, kind, target in relocations if kind == HIGH}
    return [
        Relocation(place, kind, far[target] if kind in (LOW, STORED) else target) for place, kind, target in relocations
    ]


def _relocated(machine: int, word: int, kind: int, place: int, target: int) -> int:
    """Four bytes of code with what was to be written there."""
    far = target - place
    if machine == X86 and kind in NEAR:
        return far & 0xFFFFFFFF
    if machine == ARM and kind == PAGE:
        pages = (target >> 12) - (place >> 12)
        return word | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    if machine == ARM and kind in IN_PAGE:
        return word | (target & 0xFFF) >> IN_PAGE[kind] << 10
    if machine == ARM and kind == CALL:
        return word | far >> 2 & 0x3FFFFFF
    if machine == RISCV and kind == HIGH:
        return word | far + 0x800 & 0xFFFFF000
    if machine == RISCV and kind == LOW:
        return word | (target & 0xFFF) << 20
    if machine == RISCV and kind == STORED:
        return word | (target >> 5 & 0x7F) << 25 | (target & 0x1F) << 7
    raise _refused(f"relocation {kind} of machine {machine} is not known")
