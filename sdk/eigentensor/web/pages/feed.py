"""Server-sent events: what pages are told of while they are open."""

import asyncio
import threading
from collections.abc import AsyncIterator
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from eigentensor.errors import ServiceBusy
from eigentensor.web.server import ENDLESS

MOST = 1024  #: pages that may listen at a time
GAP = 2.0  #: seconds between two messages to one page at least: what happens meanwhile is told together
_SILENCE = 20.0  # seconds after which a comment keeps the connection open
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}


class Feed:
    """The last word on each of some topics, told to whoever listens. `tell` is for any thread."""

    def __init__(self) -> None:
        self._words: dict[str, tuple[int, str]] = {}
        self._serial = 0
        self._wakes: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._lock = threading.Lock()

    def tell(self, topic: str, word: str) -> None:
        """Wakes the listeners, if the word is new. A topic has letters, a word no line breaks."""
        with self._lock:
            if self._words.get(topic, (0, None))[1] == word:
                return
            self._serial += 1
            self._words[topic] = self._serial, word
            for loop, wake in self._wakes:
                loop.call_soon_threadsafe(wake.set)

    async def messages(self) -> AsyncIterator[str]:
        """What is told from now on, in the format of `text/event-stream`. Raises ServiceBusy if too many listen."""
        listener = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            if len(self._wakes) >= MOST:
                raise ServiceBusy(f"{MOST:,} pages are listening already", fix="Load the page again when you need it.")
            self._wakes.add(listener)
            seen = self._serial
        try:
            yield "retry: 2000\n\n"
            while True:
                try:
                    await asyncio.wait_for(listener[1].wait(), _SILENCE)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                listener[1].clear()
                with self._lock:
                    news = [(topic, word) for topic, (serial, word) in self._words.items() if serial > seen]
                    seen = self._serial
                yield "".join(f"event: {topic}\ndata: {word}\n\n" for topic, word in news)
                await asyncio.sleep(GAP)
        finally:
            with self._lock:
                self._wakes.discard(listener)

    def router(self) -> APIRouter:
        """`GET /events`, which no OpenAPI document has."""
        routes = APIRouter(include_in_schema=False)

        @routes.get("/events")
        async def listen(request: Request) -> StreamingResponse:
            messages = self.messages()
            first = await anext(messages)
            request.scope[ENDLESS] = True

            async def all_of_them() -> AsyncIterator[str]:
                try:
                    yield first
                    async for message in messages:
                        yield message
                finally:
                    await messages.aclose()  # type: ignore[attr-defined]

            return StreamingResponse(all_of_them(), HTTPStatus.OK, _HEADERS, media_type="text/event-stream")

        return routes
