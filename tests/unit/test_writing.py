"""Steps of programs that write and read: cut into parts, and where a prompt is cut."""

from typing import Any

import numpy as np
import pytest

from eigentensor.errors import BindingError
from eigentensor.merkle import kind_root
from eigentensor.program import Kind
from eigentensor.runtime import CompiledGraph
from eigentensor_client.writing import Sampling, Step, reading, step
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


def cut(length: int, position: int = 0, chunk: int = 64) -> tuple[int, int, int] | None:
    """Of a prompt of such a length: repeats of the program that reads, where it ends, tokens that it writes."""
    one = reading(1000, range(length), position, chunk, SAMPLING)
    return None if one is None else (one.repeat, one.last, max(0, one.last + 1 - one.first))


def test_where_a_prompt_is_cut_follows_from_its_length_alone() -> None:
    assert [cut(length) for length in (0, 6, 7, 62, 63, 64, 70, 71, 127, 200)] == [
        None, None, (1, 8, 1), (1, 63, 1), (1, 64, 1), (1, 64, 0), (1, 64, 0), (2, 72, 1), (2, 128, 1), (4, 201, 1),
    ]  # fmt: skip
    assert [cut(200, position) for position in (64, 128, 192)] == [(3, 201, 1), (2, 201, 1), (1, 201, 1)]
    assert cut(66, 64) is cut(9, chunk=1) is None
    with pytest.raises(BindingError, match="leaves no room"):
        cut(1000)
    whole = reading(1000, range(1, 201), 0, 64, SAMPLING)
    assert whole is not None and [whole.part(done, 3).last for done in (0, 3)] == [192, 201]
    later = reading(1000, range(1, 201), 128, 64, SAMPLING)
    assert later is not None and later.inputs["prompt"].tobytes() == whole.inputs["prompt"].tobytes()
