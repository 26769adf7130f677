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
