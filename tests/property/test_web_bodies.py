"""Bodies are cut into the same pieces however they arrive."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from eigentensor.merkle import PIECE
from eigentensor.web.bodies import pieces

SIZES = st.integers(0, 3 * PIECE) | st.sampled_from([0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE])


@given(sizes=st.lists(SIZES, max_size=6))
def test_a_stream_is_cut_into_pieces_however_it_arrives(sizes: list[int]) -> None:
    data = b"".join(bytes([number + 1]) * size for number, size in enumerate(sizes))
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]

    async def stream() -> AsyncIterator[bytes]:
        for start, end in zip([0, *ends], ends, strict=False):
            yield data[start:end]

    async def run() -> list[bytes]:
        return [piece async for piece in pieces(stream())]

    assert asyncio.run(run()) == [data[at : at + PIECE] for at in range(0, len(data), PIECE)]


def test_bytes_that_arrive_one_by_one_take_no_more_memory_than_a_piece() -> None:
    async def stream() -> AsyncIterator[bytes]:
        for number in range(100_000):
            yield bytes([number % 251])

    async def run() -> list[bytes]:
        return [piece async for piece in pieces(stream())]

    tracemalloc.start()
    try:
        (piece,) = asyncio.run(run())
        assert tracemalloc.get_traced_memory()[1] < PIECE
    finally:
        tracemalloc.stop()
    assert piece == bytes(number % 251 for number in range(100_000))


def test_a_sender_that_rests_keeps_no_more_than_it_has_sent_of_a_piece() -> None:
    """Nothing of the piece before, nor of the bytes that came with the last of it."""
    resting, over = asyncio.Event(), asyncio.Event()

    async def stream() -> AsyncIterator[bytes]:
        yield bytes(PIECE + 1)
        resting.set()
        await over.wait()

    async def receive() -> int:
        seen = 0
        async for piece in pieces(stream()):
            seen += len(piece)
            del piece
        return seen

    async def run() -> int:
        receiving = asyncio.create_task(receive())
        await resting.wait()
        kept = tracemalloc.get_traced_memory()[0]
        over.set()
        assert await receiving == PIECE + 1
        return kept

    tracemalloc.start()
    try:
        assert asyncio.run(run()) < PIECE // 4
    finally:
        tracemalloc.stop()
