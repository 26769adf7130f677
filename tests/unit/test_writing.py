"""Steps of programs that write: cut into parts, and read again from their beginning."""

from typing import Any

import numpy as np
import pytest

from eigentensor.merkle import kind_root
from eigentensor.program import Kind
from eigentensor.runtime import CompiledGraph
from eigentensor_client.writing import Sampling, Step, step
from support.programs.texts import TINY, chatting

SAMPLING = Sampling(0.9, least=0.05, seed=11)


class Executed:
    """The program, each time from the states that it left before, and their root."""

    def __init__(self) -> None:
        self.graph = chatting()
        self.compiled = CompiledGraph(self.graph.program, dict(self.graph.weights))
        self.states: dict[str, Any] = dict(self.graph.states)

    def __call__(self, one: Step) -> np.ndarray[Any, Any]:
        results = self.compiled.run({**one.inputs, **self.states}, one.variables, one.repeat)
        self.states = dict(results.states)
        return results.outputs["output"]

    @property
    def root(self) -> bytes:
        return kind_root(self.graph.program, Kind.STATE, self.states)


@pytest.fixture(scope="module")
def prompt() -> list[int]:
    return [5, 270, 31, 7]


def test_parts_do_what_the_step_does(prompt: list[int]) -> None:
    whole, parted = Executed(), Executed()
    one = step(TINY.context, 0, prompt, 9, SAMPLING)
    tokens = whole(one)
    for most in (1, 3, 5, 99):
        parted.states = dict(parted.graph.states)
        done, repeats = 0, []
        while done < one.repeat:
            part = one.part(done, most)
            written, done = parted(part), done + part.repeat
            repeats.append(part.repeat)
        assert sum(repeats) == one.repeat and max(repeats) <= most
        assert written.tobytes() == tokens.tobytes() and parted.root == whole.root
        assert one.new(written) == one.new(tokens) and len(one.new(tokens)) == 9


def test_what_was_written_before_is_read_to_the_same_states(prompt: list[int]) -> None:
    first, other = Executed(), Executed()
    tokens = first(step(TINY.context, 0, prompt, 4, SAMPLING))
    later = step(TINY.context, len(prompt) + 4, (), 5, SAMPLING)
    read = later.before(tokens)
    assert (read.variables, read.repeat, read.new(other(read))) == ({"position": 0}, len(prompt) + 4, [])
    assert other.root == first.root
    assert other(later).tobytes() == first(later).tobytes()
