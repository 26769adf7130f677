"""Texts that begin alike: the beginning is read once, and each has the tokens that it has when all of it is read."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from eigentensor.runtime import CompiledGraph
from eigentensor_client import writing
from eigentensor_client.writing import LIMITS, SAMPLED, Sampling
from eigentensor_models import writing as models
from eigentensor_models.folder import read_network
from eigentensor_serve.apps.registry import App
from eigentensor_serve.openai.prefixes import Prefixes
from eigentensor_serve.openai.texts import Compiled, Here, Programs
from support.vectors.models import FOLDER

CONTEXT, COUNT, CHUNK = 96, 12, 8
NAMES, SAMPLING = (*SAMPLED, *LIMITS), Sampling(0.8, seed=5, top_p=0.9)
SYSTEM, FIRST, SECOND, THIRD = ([int(n) for n in np.random.default_rng(s).integers(3, 90, 13 + s)] for s in range(4))


class Chats:
    """Texts of a model, which remember each other."""

    def __init__(self, name: str) -> None:
        both = models.programs(read_network(FOLDER / name), CONTEXT)
        app = App("x", 1, "", "writer", reader="reader")
        self.programs, self.first = Programs(app, both.writer.program, both.reader.program), dict(both.writer.states)
        writer = CompiledGraph(both.writer.program, both.writer.weights, keep_states=True)
        self.compiled = Compiled(writer, CompiledGraph(both.reader.program, both.reader.weights))
        self.prefixes = Prefixes[Any](1 << 20)

    def written(self, *parts: Sequence[int], alone: bool = False, caller: str = "") -> tuple[int, list[int]]:
        """From where on a prompt was read, and what was written after it."""
        return asyncio.run(self._written([token for part in parts for token in part], alone, caller))

    async def _written(self, prompt: list[int], alone: bool, caller: str) -> tuple[int, list[int]]:
        prefixes = Prefixes[Any](0) if alone else self.prefixes
        here, tokens = Here(self.programs, self.compiled, self.first, caller, prefixes), list[int]()
        begun = position = await here.begin(prompt)
        read = writing.reading(CONTEXT, prompt, position, self.programs.chunk, SAMPLING, NAMES)
        if read is not None:
            tokens, position = read.new(await here.write(read)), read.last
        rest = prompt[position:]
        step = writing.step(CONTEXT, position, rest, COUNT - len(tokens), SAMPLING, NAMES)
        return begun, tokens + step.new(await here.write(step))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma3", "llama3"])
def test_what_texts_have_in_common_is_read_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "CHUNK", CHUNK)
    chats = Chats(name)
    begun, answer = chats.written(SYSTEM, FIRST)
    assert begun == 0 and chats.programs.goes_back == (name != "gemma3")
    more = SYSTEM, FIRST, answer, SECOND
    for parts, position in (
        (more, 24),  # of 27 tokens
        ((SYSTEM, SECOND), 8 if chats.programs.goes_back else 0),  # a window has forgotten what stands so far back
        ((SYSTEM, THIRD), 8),  # by now it is known that it is common
        ((SYSTEM, FIRST), 24),
        ((SYSTEM[:5],), 0),
    ):
        prompt = [token for part in parts for token in part]
        assert chats.written(prompt) == (position, chats.written(prompt, alone=True)[1]), position
    assert chats.written(SYSTEM, FIRST, caller="another")[0] == 0
