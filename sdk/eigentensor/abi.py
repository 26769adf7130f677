"""Values as contracts take and give them, by the names of their types: Solidity's ABI.

Tests hold it to eth_abi, which takes longer to import than most commands to run. Numbers are int, structs and lists are
tuples, addresses have their checksums. What is written has one form; what is read has nothing where padding belongs,
and points nowhere outside. Both raise ValueError.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from eigentensor.addresses import is_address, to_checksum_address
from eigentensor.keccak import keccak

#: A function, an event, an error or a parameter, as an ABI's JSON has it.
Entry = Mapping[str, Any]

_WORD = 32  # bytes
_NUMBER = re.compile(r"(u?)int(\d+)")
_BYTES = re.compile(r"bytes(\d+)")


@dataclass(frozen=True, slots=True, eq=False)
class _Type:
    """How values of a type are written, and read from a place in some bytes. Where it stands among others it takes
    `size` bytes: itself, or if it is dynamic the distance to where it is."""

    write: Callable[[Any], bytes]
    read: Callable[[bytes, int], Any]
    size: int = _WORD
    is_dynamic: bool = False


def encode(types: Sequence[str], values: Sequence[Any]) -> bytes:
    """Values of these types. Raises ValueError for others."""
    return _write_all([_type(name) for name in types], values)


def decode(types: Sequence[str], data: bytes) -> tuple[Any, ...]:
    """The values of these types that some bytes begin with. Raises ValueError where they do not."""
    return _read_all([_type(name) for name in types], bytes(data), 0)


def writer(name: str) -> Callable[[Any], bytes]:
    """What writes values of one type; a static one as its words. It raises ValueError for others."""
    return _type(name).write


def type_of(entry: Entry) -> str:
    """The name of a parameter's type in an ABI's JSON: structs are spelled out."""
    kind: str = entry["type"]
    if not kind.startswith("tuple"):
        return kind
    return f"({','.join(map(type_of, entry['components']))}){kind.removeprefix('tuple')}"


def signature_of(entry: Entry) -> str:
    """The signature of a function, an event or an error of an ABI's JSON."""
    return f"{entry['name']}({','.join(map(type_of, entry['inputs']))})"


def selector_of(entry: Entry) -> bytes:
    """The four bytes that name a function or an error."""
    return topic_of(entry)[:4]


def topic_of(entry: Entry) -> bytes:
    """The word that names an event."""
    return keccak(signature_of(entry).encode())


# ---- Types ----


@cache
def _type(name: str) -> _Type:
    if name.endswith("]"):
        item, _, length = name[:-1].rpartition("[")
        return _fixed([_type(item)] * int(length)) if length else _list(_type(item))
    if name.startswith("("):
        return _fixed([_type(part) for part in _parts(name[1:-1])])
    if number := _NUMBER.fullmatch(name):
        return _number(int(number[2]), is_signed=not number[1])
    if size := _BYTES.fullmatch(name):
        return _Type(*_word_of_bytes(int(size[1])))
    return _NAMED[name]


def _parts(names: str) -> Iterator[str]:
    """The types of a struct's members, which may be structs."""
    depth, start = 0, 0
    for at, letter in enumerate(names):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            yield names[start:at]
            start = at + 1
    if names:
        yield names[start:]


def _number(bits: int, *, is_signed: bool) -> _Type:
    low, high = (-(1 << bits - 1), 1 << bits - 1) if is_signed else (0, 1 << bits)

    def write(value: Any) -> bytes:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value < high:
            raise ValueError(f"{value!r} is no number of {bits} bits")
        return value.to_bytes(_WORD, "big", signed=is_signed)

    def read(data: bytes, at: int) -> int:
        value = int.from_bytes(_taken(data, at, _WORD), "big", signed=is_signed)
        if not low <= value < high:
            raise ValueError(f"a number has more than {bits} bits")
        return value

    return _Type(write, read)


def _word_of_bytes(size: int) -> tuple[Callable[[Any], bytes], Callable[[bytes, int], bytes]]:
    def write(value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray)) or len(value) != size:  # a root that is too short is none
            raise ValueError(f"{value!r} are not {size} bytes")
        return bytes(value).ljust(_WORD, b"\0")

    return write, lambda data, at: _unpadded(data, at, size)


def _write_bool(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is no bool")
    return value.to_bytes(_WORD, "big")


def _read_bool(data: bytes, at: int) -> bool:
    value = _word(data, at)
    if value > 1:
        raise ValueError("a bool is neither 0 nor 1")
    return value == 1


def _write_address(value: Any) -> bytes:
    if not is_address(value):
        raise ValueError(f"{value!r} is no address")
    return bytes.fromhex(value.removeprefix("0x")).rjust(_WORD, b"\0")


def _read_address(data: bytes, at: int) -> str:
    word = _taken(data, at, _WORD)
    if any(word[:12]):
        raise ValueError("an address has more than 20 bytes")
    return to_checksum_address(word[12:])


def _write_bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray)):
        raise ValueError(f"{value!r} are no bytes")
    return len(value).to_bytes(_WORD, "big") + bytes(value) + bytes(-len(value) % _WORD)


def _read_bytes(data: bytes, at: int) -> bytes:
    return _unpadded(data, at + _WORD, _word(data, at))


def _write_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return _write_bytes(value.encode())


def _list(item: _Type) -> _Type:
    def write(value: Any) -> bytes:
        values = _items(value)
        return len(values).to_bytes(_WORD, "big") + _write_all([item] * len(values), values)

    def read(data: bytes, at: int) -> tuple[Any, ...]:
        count = _word(data, at)
        if count * item.size > len(data) - at:
            raise ValueError(f"{count} items do not fit {len(data)} bytes")
        return _read_all([item] * count, data, at + _WORD)

    return _Type(write, read, is_dynamic=True)


def _fixed(items: Sequence[_Type]) -> _Type:
    """A struct, or a list of a fixed length."""
    is_dynamic = any(item.is_dynamic for item in items)
    return _Type(
        lambda value: _write_all(items, _items(value)),
        lambda data, at: _read_all(items, data, at),
        _WORD if is_dynamic else sum(item.size for item in items),
        is_dynamic,
    )


_NAMED = {
    "bool": _Type(_write_bool, _read_bool),
    "address": _Type(_write_address, _read_address),
    "bytes": _Type(_write_bytes, _read_bytes, is_dynamic=True),
    "string": _Type(_write_text, lambda data, at: _read_bytes(data, at).decode(), is_dynamic=True),
}


# ---- Several values: what is static in place, then what is dynamic ----


def _write_all(types: Sequence[_Type], values: Sequence[Any]) -> bytes:
    if len(types) != len(values):
        raise ValueError(f"{len(values)} values, expected {len(types)}")
    heads, tails, end = [], [], sum(one.size for one in types)
    for one, value in zip(types, values, strict=True):
        part = one.write(value)
        if one.is_dynamic:
            heads.append(end.to_bytes(_WORD, "big"))
            tails.append(part)
            end += len(part)
        else:
            heads.append(part)
    return b"".join(heads + tails)


def _read_all(types: Sequence[_Type], data: bytes, start: int) -> tuple[Any, ...]:
    values, at, heads = [], start, sum(one.size for one in types)
    for one in types:
        place = at
        if one.is_dynamic:
            distance = _word(data, at)
            if not heads <= distance < len(data) - start:
                raise ValueError("a value is said to lie where there is none")
            place = start + distance
        values.append(one.read(data, place))
        at += one.size
    return tuple(values)


def _items(value: Any) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{value!r} is no list")
    return value


def _taken(data: bytes, at: int, size: int) -> bytes:
    taken = data[at : at + size]
    if len(taken) != size:
        raise ValueError(f"{size} bytes at {at} are not there")
    return taken


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(_taken(data, at, _WORD), "big")


def _unpadded(data: bytes, at: int, size: int) -> bytes:
    """So many bytes, which are filled up to whole words with zeros."""
    taken = _taken(data, at, size + -size % _WORD)
    if any(taken[size:]):
        raise ValueError("there is something where padding belongs")
    return taken[:size]
