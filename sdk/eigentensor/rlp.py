"""RLP, in which the chain writes transactions and headers: strings of bytes, and lists of them."""

from collections.abc import Sequence
from typing import TypeAlias

Item: TypeAlias = "bytes | Sequence[Item]"

_STRING, _LIST = 0x80, 0xC0
_SHORT = 55  # bytes whose count fits the first byte
_DEEPEST = 16  # lists in lists: transactions have four


def encode(item: Item) -> bytes:
    """The one way to write an item."""
    if isinstance(item, bytes):
        return item if len(item) == 1 and item[0] < _STRING else _head(_STRING, len(item)) + item
    content = b"".join(map(encode, item))
    return _head(_LIST, len(content)) + content


def decode(data: bytes) -> Item:
    """The item that some bytes are, all of them, as `encode` writes it. Raises ValueError for anything else."""
    item, end = _read(data, 0, len(data), _DEEPEST)
    if end != len(data):
        raise ValueError("bytes follow the item")
    return item


def _head(kind: int, count: int) -> bytes:
    if count <= _SHORT:
        return bytes((kind + count,))
    size = count.to_bytes((count.bit_length() + 7) // 8, "big")
    return bytes((kind + _SHORT + len(size),)) + size


def _read(data: bytes, at: int, end: int, depth: int) -> tuple[Item, int]:
    """The item that begins at a place, and where it ends; nothing of it lies beyond `end`."""
    if at >= end:
        raise ValueError("an item is missing")
    first = data[at]
    if first < _STRING:
        return data[at : at + 1], at + 1
    kind = _LIST if first >= _LIST else _STRING
    begin, stop = _content(data, at, first - kind)
    if stop > end:
        raise ValueError("an item is cut off")
    if kind == _STRING:
        if stop - begin == 1 and data[begin] < _STRING:
            raise ValueError("a byte is written as a string")
        return data[begin:stop], stop
    if not depth:
        raise ValueError("lists are nested too deep")
    items, place = list[Item](), begin
    while place < stop:
        item, place = _read(data, place, stop, depth - 1)
        items.append(item)
    return items, stop


def _content(data: bytes, at: int, code: int) -> tuple[int, int]:
    """Where the content of a string or a list begins and ends, whose first byte says `code`."""
    if code <= _SHORT:
        return at + 1, at + 1 + code
    begin = at + 1 + code - _SHORT
    size = data[at + 1 : begin]
    count = int.from_bytes(size, "big")
    if len(size) != code - _SHORT or size[0] == 0 or count <= _SHORT:
        raise ValueError("a length is written in too many bytes, or cut off")
    return begin, begin + count
