"""Bodies and heads that no client of ours would send, and an app that is sent them without a socket between."""

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from urllib.parse import quote, urlencode

from fastapi import FastAPI
from starlette.types import ASGIApp, Message

#: What stands for a value where a parser may stumble.
_ODD = (
    b"null", b"true", b"-1", b"0", b"1e400", b"-0.0", b"NaN", b"Infinity", b'""', b'"\\u0000"', b'"\\ud800"',
    b"[]", b"{}", b"[" * 3000, b'{"a":' * 3000, b'"' + b"f" * 64 + b'"', b'"0x"', b"9" * 400, b"\xff\xfe",
)  # fmt: skip
#: In a query or a header: bytes that HTTP lets through.
_ODD_WORDS = (
    b"", b"\xb2", b"\xff\xfe", b"\xc2\xb2", b"\xd9\xa3", b"-1", b"1e9", b"nan", b"9" * 400, b"a\tb", b"../..", b"[",
    b"%", b"wait=\xb2", b"wait=" + b"9" * 400, b"respond-async,wait=", b"bytes=\xb2-", b"bytes=-" + b"9" * 40,
    b"bytes 0-\xb2/9", b"Bearer \xff", b"application/json; charset=\xff", b"http://[", b"gzip", b'W/"x"', b"3f" * 32,
)  # fmt: skip
#: In a path or a query, as they are when they are decoded.
_ODD_TEXTS = ("", "\0", "a\0b", "²", "٣", "İ" * 64, "\r\nX: 1", "..", "9" * 400, "-1", "3f" * 32, "\N{GRINNING FACE}")
_HEADERS = (
    b"accept", b"accept-encoding", b"authorization", b"content-length", b"content-range", b"content-type", b"cookie",
    b"expect", b"if-modified-since", b"if-range", b"idempotency-key", b"last-event-id", b"origin", b"prefer", b"range",
)  # fmt: skip
_READ = (b"content-range", b"idempotency-key", b"prefer")
HANGS = 30.0  # seconds after which an answer is none


@dataclass(frozen=True, slots=True)
class Seed:
    """A request that is as it should be."""

    method: str
    path: str
    kind: str
    body: bytes
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


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
    place = value
    while isinstance(place, dict | list) and place:
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
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

    present = {name for name, _ in seed.headers}
    plain = [(b"host", b"localhost"), (b"content-type", seed.kind.encode())]
    headers = [*seed.headers, *(header for header in plain if header[0] not in present)]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": seed.method, "scheme": "http",
        "path": seed.path, "raw_path": quote(seed.path).encode(), "root_path": "",
        "query_string": seed.query, "headers": headers, "client": ("127.0.0.1", 1), "server": ("localhost", 80),
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


def survive_heads(app: FastAPI, seeds: Sequence[Seed], count: int, seed: int) -> Counter[int]:
    """As `survive`, of requests with odd paths, queries and headers: what is as it should be with every odd word where
    this service reads one, and so many requests to all that the app has."""
    rng, statuses = random.Random(seed), Counter[int]()
    asked = [replace(s, headers=(header,)) for s in seeds for header in product(_READ, _ODD_WORDS)]
    asked += [_odd_head(rng, *rng.choice(_operations(app, seeds))) for _ in range(count)]

    async def all_of_them() -> None:
        for head in asked:
            try:
                status = await answered(app, head, head.body)
            except Exception as error:
                raise AssertionError(f"{head}: {error!r}") from error
            assert status and status != 500, str(head)
            statuses[status] += 1

    asyncio.run(all_of_them())
    return statuses


def _operations(app: FastAPI, seeds: Sequence[Seed]) -> list[tuple[Seed, list[str]]]:
    """Requests with holes in their paths, and the names that their queries may have."""
    operations = [(seed, list[str]()) for seed in seeds]
    for path, methods in app.openapi()["paths"].items():
        for method, of in methods.items():
            if not path.endswith("/events"):
                names = [p["name"] for p in of.get("parameters", ()) if p["in"] == "query"]
                operations.append((Seed(method.upper(), path, "application/json", b""), names))
    return operations


def _odd_head(rng: random.Random, seed: Seed, queries: Sequence[str]) -> Seed:
    path = re.sub(r"{[^}]*}", lambda _: rng.choice(_ODD_TEXTS), seed.path)
    if rng.random() < 0.2:
        parts = path.split("/")
        parts[rng.randrange(len(parts))] = rng.choice(_ODD_TEXTS)
        path = "/".join(parts)
    pairs = [(name, rng.choice(_ODD_TEXTS)) for name in queries if rng.random() < 0.5]
    query = rng.choice(_ODD_WORDS) if rng.random() < 0.1 else seed.query or urlencode(pairs).encode()
    names = rng.sample(_HEADERS, rng.choice((0, 1, 1, 2)))
    return replace(seed, path=path, query=query, headers=tuple((name, rng.choice(_ODD_WORDS)) for name in names))
