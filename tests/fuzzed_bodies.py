"""Bodies that no client of ours would send, and an app that is sent them without a socket between."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.types import ASGIApp, Message

#: What stands for a value where a parser may stumble.
_ODD = (
    b"null", b"true", b"-1", b"0", b"1e400", b"-0.0", b"NaN", b"Infinity", b'""', b'"\\u0000"', b'"\\ud800"',
    b"[]", b"{}", b"[" * 3000, b'{"a":' * 3000, b'"' + b"f" * 64 + b'"', b'"0x"', b"9" * 400, b"\xff\xfe",
)  # fmt: skip
HANGS = 30.0  # seconds after which an answer is none


@dataclass(frozen=True, slots=True)
class Seed:
    """A request that is as it should be."""

    method: str
    path: str
    kind: str
    body: bytes
    query: bytes = b""


def mutated(rng: random.Random, body: bytes) -> bytes:
    """Another body: with bits flipped, parts cut out, doubled, swapped for odd values, lengths changed."""
    data = bytearray(body)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + rng.choice((1, 2, 8, 64, len(data)))]
            case 2:
                data[at:at] = data[at : at + rng.choice((1, 8, 64, 512))]
            case 3:
                data[at:at] = rng.randbytes(rng.choice((1, 4, 33)))
            case 4:
                data[at : at + rng.randrange(12)] = rng.choice(_ODD)
            case 5:
                data[:] = _swapped(rng, bytes(data))
            case 6:
                data[: min(8, len(data))] = rng.choice((0, 8, 1 << 31, (1 << 64) - 1)).to_bytes(8, "little")
    return bytes(data[: 1 << 18])


def _swapped(rng: random.Random, data: bytes) -> bytes:
    """JSON with one of its values swapped for an odd one; anything else as it is."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    place, found = value, [value]
    while isinstance(place, dict | list) and place:
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        found.append(place)
        if rng.random() < 0.4 or not isinstance(place[key], dict | list):
            place[key] = "\0odd\0"
            return json.dumps(value).encode().replace(b'"\\u0000odd\\u0000"', rng.choice(_ODD))
        place = place[key]
    return data


async def answered(app: ASGIApp, seed: Seed, body: bytes, chunks: int = 1) -> int:
    """The status that an app answers with. Raises TimeoutError if it does not."""
    size = -(-len(body) // chunks) or 1
    rest = [body[at : at + size] for at in range(0, max(1, len(body)), size)]
    status = 0

    async def receive() -> Message:
        if not rest:
            return {"type": "http.disconnect"}
        part = rest.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(rest)}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)

    headers = [(b"host", b"localhost"), (b"content-type", seed.kind.encode())]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": seed.method, "scheme": "http",
        "path": seed.path, "raw_path": seed.path.encode(), "root_path": "", "query_string": seed.query,
        "headers": headers, "client": ("127.0.0.1", 1), "server": ("localhost", 80),
    }  # fmt: skip
    async with asyncio.timeout(HANGS):
        await app(scope, receive, send)
    return status


def survive(app: ASGIApp, seeds: Sequence[Seed], count: int, seed: int) -> Counter[int]:
    """How often which status came for so many fuzzed bodies. Raises AssertionError with one that was too much."""
    rng, statuses = random.Random(seed), Counter[int]()

    async def all_of_them() -> None:
        for number in range(count):
            chosen = rng.choice(seeds)
            body = mutated(rng, chosen.body)
            try:
                status = await answered(app, chosen, body, rng.choice((1, 1, 1, 3)))
            except Exception as error:
                raise AssertionError(f"body {number} of {chosen.path}: {body[:500]!r}: {error!r}") from error
            assert status and status != 500, f"body {number} of {chosen.method} {chosen.path}: {body[:500]!r}"
            statuses[status] += 1

    asyncio.run(all_of_them())
    return statuses
