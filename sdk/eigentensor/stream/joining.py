"""Segments that follow each other again and again, as one: what lies between them is then stored only if it is held."""

from collections.abc import Container, Mapping
from typing import NamedTuple

from eigentensor.stream.segment import INPUT, Entry, Key

#: So often a segment is followed by the same other one before the two are joined: what is new then is lowered anew.
SIGHTS = 32
#: So many segments are one at most.
MOST = 4


class Ended(NamedTuple):
    """A segment as it was sent: the session's numbers of what it read, by position, and positions of what it left, by
    their numbers."""

    key: Key
    read: Mapping[int, int]
    left: Mapping[int, int]


def joined(first: Ended, second: Ended, held: Container[int]) -> Key:
    """The key of both as they would be recorded in one run, where of what the first one left these numbers are held."""
    entries: list[Entry] = list(first.key.entries)
    known = {handle: place for place, handle in first.read.items()} | dict(first.left)
    moved: list[int] = []
    for place, entry in enumerate(second.key.entries):
        if entry[0] is INPUT and second.read.get(place) in known:
            moved.append(known[second.read[place]])
            continue
        moved.append(len(entries))
        entries.append(entry if entry[0] is INPUT else (*entry[:4], *(moved[operand] for operand in entry[4:])))
    kept = [place for handle, place in first.left.items() if handle in held]
    return Key(tuple(entries), (*kept, *(moved[place] for place in second.key.wanted)))
