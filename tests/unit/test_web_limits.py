"""How much of requests is in memory: of one, of a caller's, of everybody's."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from eigentensor.merkle import PIECE
from eigentensor.web import limits
from eigentensor.web.bodies import pieces
from eigentensor.web.limits import BodyLimit

LIMIT, TOTAL = 100, 400


class Sender:
    """A request whose body comes when somebody gives it."""

    def __init__(self, app: BodyLimit, caller: str, path: str = "/", kind: str = "application/json") -> None:
        self._parts: asyncio.Queue[Message] = asyncio.Queue()
        self._messages: list[Message] = []
        self._scope = {
            "type": "http", "method": "POST", "path": path, "query_string": b"", "client": (caller, 1),
            "headers": [(b"content-type", kind.encode())],
        }  # fmt: skip
        self.answer = asyncio.create_task(app(self._scope, self._parts.get, self._keep))

    async def _keep(self, message: Message) -> None:
        self._messages.append(message)

    async def give(self, data: bytes, *, more: bool = True) -> None:
        await self._parts.put({"type": "http.request", "body": data, "more_body": more})
        for _ in range(8):  # until the app has read it
            await asyncio.sleep(0)

    @property
    def status(self) -> int:
        return self._messages[0]["status"] if self._messages else 0

    @property
    def problem(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(b"".join(m.get("body", b"") for m in self._messages))
        return body


async def reads(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(str(len(await Request(scope, receive).body())))(scope, receive, send)


def limited() -> BodyLimit:
    return BodyLimit(reads, lambda _: LIMIT, TOTAL, lambda scope: scope["path"] == "/stream")


def test_open_bodies_have_a_bound_together_and_those_of_one_caller_half_of_it() -> None:
    async def story() -> None:
        app = limited()
        open_ = [Sender(app, caller) for caller in "aabb"]
        for sender in open_:
            await sender.give(bytes(LIMIT))
        late = Sender(app, "a")  # which has its half
        await late.give(bytes(1))
        assert (late.status, late.problem["code"]) == (503, "ServiceBusy")
        await open_[0].give(b"", more=False)
        assert open_[0].status == 200
        open_[2].answer.cancel()  # its sender is gone
        await asyncio.gather(open_[2].answer, return_exceptions=True)
        for caller in "ac":
            again = Sender(app, caller)
            await again.give(bytes(LIMIT), more=False)
            assert again.status == 200
        for sender in open_:
            sender.answer.cancel()

    asyncio.run(story())


def test_who_trickles_makes_room_for_who_sends() -> None:
    """All of it is taken by bodies that go on for ever: whoever comes last is served, at the cost of the first one of
    a caller who has most."""

    async def story() -> None:
        app = limited()
        slow = [Sender(app, caller) for caller in "abbc"]
        for sender in slow:
            await sender.give(bytes(LIMIT))
        for number in range(2):
            late = Sender(app, "d")
            await late.give(bytes(LIMIT), more=False)
            assert late.status == 200
            assert not number or slow[1].problem["code"] == "ServiceBusy"
        assert [sender.status for sender in slow] == [0, 503, 0, 0]
        assert slow[1].answer.done() and not slow[1].answer.cancelled()
        for sender in slow:
            sender.answer.cancel()

    asyncio.run(story())


def test_a_body_that_is_there_whole_makes_no_room() -> None:
    """It is being worked on: who comes meanwhile is refused."""

    async def story() -> None:
        done = asyncio.Event()

        async def works(scope: Scope, receive: Receive, send: Send) -> None:
            await Request(scope, receive).body()
            await done.wait()
            await PlainTextResponse("done")(scope, receive, send)

        app = BodyLimit(works, lambda _: LIMIT, TOTAL)
        whole = [Sender(app, caller) for caller in "aabb"]
        for sender in whole:
            await sender.give(bytes(LIMIT), more=False)
        late = Sender(app, "c")
        await late.give(bytes(1))
        assert (late.status, late.problem["code"]) == (503, "ServiceBusy")
        done.set()
        await asyncio.gather(*(sender.answer for sender in whole))
        assert [sender.status for sender in whole] == [200] * 4

    asyncio.run(story())


def test_a_stream_has_no_more_in_memory_than_the_piece_that_is_coming() -> None:
    """Pieces of three that rest begin one after the other; the one that began first makes room for one that sends,
    however many pieces that has, and the others go on."""

    async def streams(scope: Scope, receive: Receive, send: Send) -> None:
        size = sum([len(piece) async for piece in pieces(Request(scope, receive).stream())])
        await PlainTextResponse(str(size))(scope, receive, send)

    async def story() -> None:
        app = BodyLimit(streams, lambda _: 16 * PIECE, 6 * PIECE, lambda _: True)
        slow = [Sender(app, caller) for caller in "aaabbb"]
        for sender in slow:
            await sender.give(bytes(PIECE - 1))
        await slow[0].give(bytes(2))  # what it had is a whole piece: of those that are coming its next began last
        await slow[0].give(bytes(PIECE - 2))
        fast = Sender(app, "c")
        for _ in range(4):
            await fast.give(bytes(PIECE // 2))
            await fast.give(bytes(PIECE))
        await fast.give(b"", more=False)
        assert fast.status == 200
        assert [sender.status for sender in slow] == [0, 503, 0, 0, 0, 0]
        for sender in slow[:1] + slow[2:]:
            await sender.give(b"", more=False)
            assert sender.status == 200

    asyncio.run(story())


def test_a_stream_makes_no_room_while_a_piece_of_it_is_worked_on() -> None:
    """It would be ended in the middle of that: only one of which more is waited for is."""

    async def story() -> None:
        done = asyncio.Event()

        async def works(scope: Scope, receive: Receive, send: Send) -> None:
            async for _ in Request(scope, receive).stream():
                await done.wait()
            await PlainTextResponse("done")(scope, receive, send)

        app = BodyLimit(works, lambda _: LIMIT, TOTAL, lambda _: True)
        busy = [Sender(app, caller) for caller in "aabb"]
        for sender in busy:
            await sender.give(bytes(LIMIT))
        late = Sender(app, "c")
        await late.give(bytes(1))
        assert (late.status, [sender.status for sender in busy]) == (503, [0] * 4)
        done.set()
        for sender in busy:
            await sender.give(b"", more=False)
            assert sender.status == 200

    asyncio.run(story())


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 60), max_size=4), st.booleans()), max_size=20)
)
def test_whatever_callers_send_no_more_is_held_and_nothing_stays(
    requests: Sequence[tuple[str, list[int], bool]],
) -> None:
    async def story() -> None:
        app, most = limited(), 0
        senders = []
        for caller, sizes, ends in requests:
            sender = Sender(app, caller)
            senders.append(sender)
            for size in sizes:
                if not sender.answer.done():
                    await sender.give(bytes(size))
                most = max(most, app._held)
                assert all(held <= TOTAL // 2 for held in app._held_by.values())
            if ends and not sender.answer.done():
                await sender.give(b"", more=False)
        assert most <= TOTAL
        for sender in senders:
            sender.answer.cancel()
        await asyncio.gather(*(sender.answer for sender in senders), return_exceptions=True)
        assert not app._held and not app._held_by and not app._bodies

    asyncio.run(story())


@pytest.mark.parametrize("element", [b"[]", b"{}", b"1", b'""'])
def test_json_of_too_many_values_is_refused_while_it_comes(element: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "VALUES", 1000)
    monkeypatch.setattr(limits, "LISTS", 100)
    most = 90 if element in (b"[]", b"{}") else 900

    async def answered(count: int, **options: str) -> Sender:
        sender = Sender(BodyLimit(reads, lambda _: 1 << 20, 1 << 22), "a", **options)
        await sender.give(b"[" + b",".join([element] * (count // 2)) + b",")
        if not sender.answer.done():
            await sender.give(b",".join([element] * (count // 2)) + b"]", more=False)
        return sender

    async def story() -> None:
        assert (await answered(most)).status == 200
        refused = await answered(2 * most)
        assert (refused.status, refused.problem["code"]) == (413, "BlobTooLarge")
        assert "base64" in refused.problem["fix"]
        assert (await answered(2 * most, kind="application/octet-stream")).status == 200

    asyncio.run(story())
