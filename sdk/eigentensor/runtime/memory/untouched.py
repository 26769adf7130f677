"""Arrays that are zero for the most part: a page that was never written takes no memory, and no time to get any."""

from collections.abc import Callable, Iterator
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BLOCK = 1 << 16  #: bytes that are compared together: they and the outcome stay near the processor


def same(block: Array) -> Array:
    """The elements as they are."""
    return block


def rewrite(target: Array, source: Array, stored: Callable[[Array], Array] = same) -> None:
    """Writes the bits of an array of the same shape and type where they differ, each block as `stored` gives it.

    Neither need be in memory as a whole: what is zero in both is not touched. Raises ValueError for others.
    """
    if target.shape != source.shape or target.dtype != source.dtype or not target.flags.c_contiguous:
        raise ValueError("an array is rewritten with one of its shape and type, in order")
    word = _word(target)
    for there, given in _blocks(target, source):
        if (there.view(word) != given.view(word)).any():
            there[:] = stored(given)


def copied(array: Array) -> Array:
    """A copy in memory of its own, of which only what is not zero is there, or was looked at: to read a page for the
    first time takes longer than to compare it."""
    copy = np.zeros(array.shape, array.dtype)
    word = _word(copy)
    for there, given in _blocks(copy, array):
        if given.view(word).any():
            there[:] = given
    return copy


def _blocks(target: Array, source: Array) -> Iterator[tuple[Array, Array]]:
    """Those of two arrays of a shape and type, the one in order, side by side."""
    old, new = target.reshape(-1), np.ascontiguousarray(source).reshape(-1)
    count = BLOCK // target.itemsize
    for start in range(0, target.size, count):
        yield old[start : start + count], new[start : start + count]


def _word(array: Array) -> np.dtype[Any]:
    """Integers of which each block has a whole number."""
    return np.dtype(f"u{gcd(array.nbytes, 8)}")
