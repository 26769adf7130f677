"""Generated programs: the runtime gives the reference's bits, for the schedule that it chooses and for every other."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from eigentensor.program.model import Body
from eigentensor.runtime import toolchain
from eigentensor.runtime.cache import Cache
from eigentensor.runtime.schedule import Schedule, Target, candidates
from eigentensor.runtime.toolchain import Toolchain
from eigentensor.testing.agreement import disagreements
from eigentensor.testing.programs import generate


@dataclass(frozen=True)
class AnySchedule(Toolchain):
    """Compiles every body with a schedule drawn at random from all that are possible."""

    seed: int = 0

    def schedule(self, body: Body) -> Schedule:
        random = Random(f"{self.seed} {body!r}")
        return random.choice(candidates(body, Target(random.choice((1, 4, 8, 16)), random.choice((8, 32)))))

    def name(self, what: str) -> str:
        return super().name(f"{self.seed} {what}")


def compiler(kind: type[Toolchain] = Toolchain, **extra: object) -> Toolchain:
    here = toolchain.local()
    return kind(here.identity, here.target, here.command, **extra)


@pytest.mark.parametrize("seed", range(30))
def test_generated_programs_give_the_bits_of_the_reference(seed: int, tmp_path: Path) -> None:
    example = generate(seed)
    assert disagreements(*vars_of(example), cache=Cache(tmp_path)) == []


@pytest.mark.parametrize("seed", range(100, 125))
def test_every_schedule_gives_the_same_bits(seed: int, tmp_path: Path) -> None:
    example = generate(seed)
    chosen = compiler(AnySchedule, seed=seed)
    assert disagreements(*vars_of(example), cache=Cache(tmp_path), toolchain=chosen) == []


def vars_of(example: object) -> tuple[object, ...]:
    return example.program, example.tensors, example.variables, example.repeat
