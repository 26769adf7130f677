"""A chat in a terminal: OpenAI's route of a service, asked message by message."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

from eigentensor import connecting
from eigentensor.errors import BindingError, ConfigError, NoResponse
from eigentensor.web import server
from eigentensor_serve.apps.registry import App
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.settings import Settings

_SECONDS = httpx.Timeout(10, read=600)  # a paid answer takes as long as its tasks


@dataclass(slots=True)
class Conversation:
    """What was said so far, to one model of the service at `base`; `options` are those of OpenAI's request."""

    base: str
    model: str
    token: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    messages: list[dict[str, str]] = field(default_factory=list)
    proof: dict[str, Any] = field(default_factory=dict)

    def ask(self, content: str) -> Iterator[str]:
        """The answer, piece by piece. What was said stays only if the answer came to its end.

        Raises BindingError for what the service refuses, NoResponse if it is away or ends in the middle.
        """
        messages = [*self.messages, {"role": "user", "content": content}]
        body = {"model": self.model, "messages": messages, "stream": True, **self.options}
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        url, pieces = f"{self.base}/v1/chat/completions", []
        try:
            with (
                connecting.client(url, timeout=_SECONDS) as http,
                http.stream("POST", url, json=body, headers=headers) as response,
            ):
                if response.status_code != httpx.codes.OK:
                    raise _refused(json.loads(response.read()))
                for event in _events(response):
                    if "error" in event:
                        raise _refused(event)
                    for choice in event["choices"]:
                        if piece := choice["delta"].get("content"):
                            pieces.append(piece)
                            yield piece
                    self.proof = event.get("eigentensor", self.proof)
        except (httpx.HTTPError, ValueError) as error:
            raise NoResponse(f"the service at {self.base} does not answer: {error}", fix="Say it again.") from None
        self.messages = [*messages, {"role": "assistant", "content": "".join(pieces)}]


def _events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


def _refused(answer: dict[str, Any]) -> BindingError:
    error = answer.get("error") or {}
    return BindingError(str(error.get("message") or answer), fix="Say something else, or begin a new chat.")


def answers(base: str) -> bool:
    """Whether a service answers there."""
    try:
        with connecting.client(base, timeout=2) as http:
            return http.get(f"{base}/version").status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


@contextmanager
def served_by(base: str, app: App, data: Path) -> Iterator[str]:
    """Where a service answers for an app until the block ends: at `base`, or in this process, if the app was deployed
    for this machine. Raises ConfigError where nobody serves an app that is paid for."""
    if answers(base):
        yield base
    elif app.market is None:
        with _serving_here(data) as here:
            yield here
    else:
        raise ConfigError(
            f"app {app.name!r} is paid for, and no service answers at {base}",
            fix="Start `eigentensor serve --budget TOKENS` beside this.",
        )


@contextmanager
def _serving_here(data: Path) -> Iterator[str]:
    """A service of this process that executes on this machine, until the block ends; where it answers.

    Raises ServiceBusy if another process serves that folder.
    """
    settings = Settings(local=True, data=data, port=0)
    with assembled(settings) as service, server.listen(settings.host, 0) as listening:
        host, port = listening.getsockname()[:2]
        running = server.server(create_app(service))
        thread = Thread(target=running.run, kwargs={"sockets": [listening]}, name="chat", daemon=True)
        thread.start()
        try:
            yield f"http://{host}:{port}"
        finally:
            running.should_exit = True
            thread.join()
