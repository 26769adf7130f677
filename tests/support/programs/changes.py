"""Tensors of which a region is changed, and what that does to all buffers of a program."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.program import Program, bind
from eigentensor.regions.boxes import Box, inside, slices, whole_box
from eigentensor.regions.dependence import shape_of

Tensors = Mapping[str, NDArray[Any]]


def random_box(random: Random, shape: Sequence[int]) -> Box:
    """Some elements, often few; none of the extents is zero."""
    box = []
    for extent in shape:
        size = random.choice((1, 1, 2, random.randint(1, extent), extent))
        start = random.randint(0, max(0, extent - size))
        box.append((start, min(start + size, extent) - 1))
    return tuple(box)


def with_changes(random: Random, program: Program, tensors: Tensors, most: int = 2) -> dict[str, NDArray[Any]]:
    """The same tensors, with the elements of up to so many boxes exchanged for others of the same tensor."""
    changed = {name: array.copy() for name, array in tensors.items()}
    wide = [b.name for b in program.buffers if b.name and b.elements]
    for name in random.choices(wide, k=random.randint(min(1, most), most) if wide else 0):
        array = changed[name].reshape(tensors[name].shape or (1,))
        part = slices(random_box(random, array.shape))
        array[part] = np.random.default_rng(random.randrange(1 << 32)).choice(array.reshape(-1), array[part].shape)
    return changed


def buffers_of(program: Program, tensors: Tensors, variables: Mapping[str, int]) -> list[NDArray[Any]]:
    """All buffers after one iteration of the reference, each in the shape along which its boxes lie."""
    buffers = bind(program, tensors, variables)
    reference.execute(program, tensors, variables, observe=lambda _, result: buffers.append(result))
    return [array.reshape(shape_of(program, number)) for number, array in enumerate(buffers)]


def differing(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(old.view(f"u{old.itemsize}") != new.view(f"u{new.itemsize}"))


def once(program: Program) -> Program:
    return replace(program, max_repeat=1)


def covered(shape: Sequence[int], boxes: Sequence[Box]) -> NDArray[np.bool_]:
    """Which elements lie in one of the boxes."""
    mask = np.zeros(shape, np.bool_)
    for box in boxes:
        assert inside(whole_box(tuple(shape)), box) == box
        mask[slices(box)] = True
    return mask


def poisoned(noise: np.random.Generator, array: NDArray[Any], kept: Sequence[Box] = ()) -> NDArray[Any]:
    """Random bits but for these boxes; bools stay 0 or 1."""
    bits = np.frombuffer(noise.bytes(array.nbytes), np.uint8).copy()
    poison = (bits & 1).view(np.bool_) if array.dtype == np.bool_ else bits.view(array.dtype)
    mixed = poison.reshape(array.shape)
    for box in kept:
        mixed[slices(box)] = array[slices(box)]
    return mixed
