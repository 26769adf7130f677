"""Texts that begin alike: the beginning is read once, and each has the tokens that it has when all of it is read."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor_client import writing
from eigentensor_client.writing import LIMITS, SAMPLED, Sampling
from eigentensor_models import writing as models
from eigentensor_models.folder import read_network
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.apps.deployment import Parts, deploy_local
from eigentensor_serve.apps.registry import App, Apps
from eigentensor_serve.openai import decoding
from eigentensor_serve.openai.decoding import Decoding
from eigentensor_serve.openai.here import Here
from eigentensor_serve.openai.prefixes import Prefixes
from eigentensor_serve.openai.programs import Programs
from eigentensor_serve.openai.texts import Writers
from eigentensor_serve.server import assembled
from eigentensor_serve.settings import Settings
from support.vectors.models import FOLDER

CONTEXT, COUNT, CHUNK = 96, 12, 8
NAMES, SAMPLING = (*SAMPLED, *LIMITS), Sampling(0.8, seed=5, top_p=0.9)
SYSTEM, FIRST, SECOND, THIRD = ([int(n) for n in np.random.default_rng(s).integers(3, 90, 13 + s)] for s in range(4))


class Chats:
    """Texts of a model, which remember each other."""

    def __init__(self, name: str) -> None:
        both = models.programs(read_network(FOLDER / name), CONTEXT)
        app = App("x", 1, "", "writer", reader="reader")
        self.programs = Programs(app, both.writer.program, both.reader.program)
        weights, first = dict(both.writer.weights), dict(both.writer.states)
        self.decoding = Decoding(self.programs, weights, first, asyncio.Lock())
        self.prefixes = Prefixes[Any](1 << 20)

    def written(self, *parts: Sequence[int], alone: bool = False, caller: str = "") -> tuple[int, list[int]]:
        """From where on a prompt was read, and what was written after it."""
        prefixes = Prefixes[Any](0) if alone else self.prefixes
        return asyncio.run(self.write([token for part in parts for token in part], prefixes, caller))

    async def write(
        self,
        prompt: list[int],
        prefixes: Prefixes[Any],
        caller: str = "",
        sampling: Sampling = SAMPLING,
        piece: int = 12,
    ) -> tuple[int, list[int]]:
        """The same, so many tokens with each step."""
        async with self.decoding.room() as room:
            here, tokens = Here(self.decoding, room, caller, prefixes), list[int]()
            begun = position = await here.begin(prompt)
            read = writing.reading(CONTEXT, prompt, position, self.programs.chunk, sampling, NAMES)
            if read is not None:
                tokens, position = read.new(await here.write(read)), read.last
            rest = prompt[position:]
            while len(tokens) < COUNT:
                step = writing.step(CONTEXT, position, rest, min(piece, COUNT - len(tokens)), sampling, NAMES)
                tokens += step.new(await here.write(step))
                position, rest = step.last, []
            return begun, tokens


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


@pytest.mark.parametrize(
    ("name", "prompt"), [("llama3", SECOND), pytest.param("gemma3", THIRD, marks=pytest.mark.slow)]
)
def test_the_token_after_a_prompt_waits_for_nothing_that_is_kept(
    name: str, prompt: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is kept is what was there when the prompt was read, whether its text ends then or goes on."""
    monkeypatch.setattr(models, "CHUNK", CHUNK)
    chats = Chats(name)
    chunk = chats.programs.chunk

    async def kept(*, goes_on: bool) -> tuple[list[int], dict[str, bytes], dict[str, bytes]]:
        prefixes = Prefixes[Any](1 << 20)
        async with chats.decoding.room() as room:
            here = Here(chats.decoding, room, "", prefixes)
            read = writing.reading(CONTEXT, prompt, await here.begin(prompt), chunk, SAMPLING, NAMES)
            assert read is not None
            tokens = read.new(await here.write(read))
            assert prefixes.longest(here._of, prompt, chunk) is None
            left = {of: array.tobytes() for of, array in room.items()}
            if goes_on:
                await here.write(writing.step(CONTEXT, read.last, (), 2, SAMPLING, NAMES))
                assert left != {of: array.tobytes() for of, array in room.items()}
            else:
                await here.end()
            found = prefixes.longest(here._of, prompt, chunk)
            assert found is not None and found[0] == len(prompt) // chunk * chunk
            return tokens, left, {of: array.tobytes() for of, array in found[1].items()}

    tokens, left, there = asyncio.run(kept(goes_on=False))
    assert there == left
    assert asyncio.run(kept(goes_on=True)) == (tokens, left, left)


def test_a_text_that_ends_with_its_prompt_is_known_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "CHUNK", CHUNK)
    monkeypatch.setenv("EIGENTENSOR_CACHE_DIR", str(tmp_path / "blobs"))
    apps, prompt = Apps(tmp_path), SECOND
    both = models.programs(read_network(FOLDER / "llama3"), CONTEXT)
    weights, states, reader = dict(both.writer.weights), dict(both.writer.states), both.reader.program
    deploy_local(apps, "x", Parts(both.writer.program, weights, states, None, reader=reader))

    async def begun(writers: Writers, programs: Programs) -> int:
        async with writers.writer(programs, "", None) as writer:
            position = await writer.begin(prompt)
            read = writing.reading(CONTEXT, prompt, position, CHUNK, SAMPLING, NAMES)
            assert read is not None
            await writer.write(read)
            return position

    async def twice(deployed: Deployed) -> tuple[int, int]:
        writers, programs = Writers(deployed), Programs.of(deployed, deployed.app("x"))
        return await begun(writers, programs), await begun(writers, programs)

    with assembled(Settings(local=True, data=tmp_path)) as service:
        assert asyncio.run(twice(Deployed(service))) == (0, len(prompt) // CHUNK * CHUNK)


@pytest.mark.parametrize("name", ["llama3", pytest.param("gemma3", marks=pytest.mark.slow)])
def test_chats_that_are_decoded_together_have_the_tokens_of_each_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come and go, write pieces of different lengths at different places, and each reads its prompt meanwhile."""
    monkeypatch.setattr(models, "CHUNK", CHUNK)
    monkeypatch.setattr(decoding, "WIDTHS", (3,))
    monkeypatch.setattr(decoding, "AT_ONCE", 3)
    chats, nothing = Chats(name), Prefixes[Any](0)
    asked = [
        ((SYSTEM, FIRST, SECOND, THIRD)[n % 4] + [n], Sampling(0.9, seed=n, top_k=20 * (n % 2)), 1 + n % 5)
        for n in range(8)
    ]
    alone = [asyncio.run(chats.write(prompt, nothing, "", sampling, piece))[1] for prompt, sampling, piece in asked]
    chats.decoding.widen(3)
    runs = Counter[int]()
    run = Decoding._run

    def counted(self: Decoding, group: Sequence[Any], repeat: int) -> Any:
        runs[len(group)] += 1
        return run(self, group, repeat)

    monkeypatch.setattr(Decoding, "_run", counted)

    async def together() -> list[list[int]]:
        started = []
        for number, (prompt, sampling, piece) in enumerate(asked):
            if number > 4:
                await asyncio.sleep(0.01)  # others are in the middle of their texts
            started.append(asyncio.create_task(chats.write(prompt, nothing, "", sampling, piece)))
        started.append(left := asyncio.create_task(chats.write(FIRST, nothing)))
        await asyncio.sleep(0.02)
        left.cancel()
        return [(await task)[1] for task in started[:-1]]

    assert asyncio.run(together()) == alone
    assert runs[1] and runs[3], runs
