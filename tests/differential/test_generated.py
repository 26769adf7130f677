"""Generated programs: the runtime gives the reference's bits, for the schedule that it chooses and for every other."""

import ctypes
import mmap
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest

from eigentensor.cache import Cache
from eigentensor.program.model import Body
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.choice import candidates
from eigentensor.runtime.cpu.schedule import Schedule, Target
from eigentensor.runtime.cpu.toolchain import Toolchain
from support.generated.programs import generate
from support.oracles.agreement import disagreements


@dataclass(frozen=True)
class AnySchedule(Toolchain):
    """Compiles every body with a schedule drawn at random from all that are possible."""

    seed: int = 0

    def schedule(self, body: Body) -> Schedule:
        random = Random(f"{self.seed} {body!r}")
        return random.choice(candidates(body, Target(random.choice((1, 4, 8, 16)), random.choice((8, 32)))))

    def name(self, what: str) -> str:
        return super().name(f"{self.seed} {what}")


@pytest.mark.parametrize("seed", range(30))
def test_generated_programs_give_the_bits_of_the_reference(seed: int, tmp_path: Path) -> None:
    agrees(seed, cache=Cache(tmp_path))


@pytest.mark.parametrize("seed", range(100, 125))
def test_every_schedule_gives_the_same_bits(seed: int, tmp_path: Path) -> None:
    here = toolchain.local()
    agrees(seed, cache=Cache(tmp_path), toolchain=AnySchedule(here.identity, here.target, here.command, seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_many_more_programs(seed: int, tmp_path: Path) -> None:
    test_every_schedule_gives_the_same_bits(seed, tmp_path)


def agrees(seed: int, **options: object) -> None:
    """A read beside a tensor, one byte before it or behind it, ends the test process."""
    example = generate(seed)
    tensors = {name: fenced(array, behind=seed % 2 == 0) for name, array in example.tensors.items()}
    assert disagreements(example.program, tensors, example.variables, example.repeat, **options) == []


def fenced(array: np.ndarray, *, behind: bool) -> np.ndarray:
    """A copy that touches a page which cannot be read: behind its last byte, or before its first."""
    size = -(-max(1, array.nbytes) // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = np.frombuffer(mmap.mmap(-1, size + 2 * mmap.PAGESIZE), np.uint8)
    for page in (0, size + mmap.PAGESIZE):
        address = ctypes.c_void_p(pages.ctypes.data + page)
        assert ctypes.CDLL(None).mprotect(address, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    start = mmap.PAGESIZE + (size - array.nbytes if behind else 0)
    copy = pages[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
