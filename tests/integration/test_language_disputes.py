"""A wrong bit anywhere in what a language model computes while it writes: found, played to its end, convicted."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from eigentensor.chain import Network
from eigentensor_local.anvil import Anvil
from language import decoder
from language.decoder import Shape
from support.programs import models
from support.stories.game_table import Table, laid
from support.stories.planted import Subject

#: A sixteenth of the weights of Qwen3-0.6B's shape; as many tokens as it is asked for.
SIXTEENTH = Shape(9, 320, 4, 1, 80, 960, vocabulary=80_000, context=96, window=48, full_every=3)
FEW, TOKENS = 8, 64


@pytest.fixture
def place(anvil: Anvil, network: Network) -> Iterator[Table]:
    with laid(anvil, network) as table:
        yield table


def writing(shape: Shape, tokens: int) -> Subject:
    model = models.writer(shape, "writer")
    graph = model.captured()
    program = replace(graph.program, max_repeat=tokens)
    return Subject.of(program, {**graph.weights, **graph.states, **model.inputs}, {"position": 0}, tokens)


def convict(table: Table, subject: Subject, random: Random, count: int) -> None:
    """So many plants that show in the outputs; one that does not harms nobody."""
    seen = 0
    for _ in range(20 * count):
        plant = subject.plant(random)
        if (played := subject.played(table, plant)) is not None:
            assert played.convicted, plant
            seen += 1
        if seen == count:
            return
    raise AssertionError(f"only {seen} of {20 * count} bits show")


def test_wrong_bits_of_a_small_writer_are_convicted(place: Table) -> None:
    convict(place, writing(replace(decoder.SMALL, layers=2, context=2 * FEW), FEW), Random(3), 2)


@pytest.mark.slow
@pytest.mark.timeout(6000)
@pytest.mark.parametrize("seed", range(10))
def test_wrong_bits_of_a_writer_are_convicted(place: Table, seed: int) -> None:
    convict(place, writing(SIXTEENTH, TOKENS), Random(seed), 10)
