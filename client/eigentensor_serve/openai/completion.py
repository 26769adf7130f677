"""One answer of an app that writes: as it is written, as a stream of events, as a whole."""

import hashlib
import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import numpy as np
import structlog

from eigentensor.errors import EigenTensorError
from eigentensor.program import Role
from eigentensor.web.problems import of_error
from eigentensor_client import writing
from eigentensor_client.writing import SEEDS, Step
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.apps.models import Chat
from eigentensor_serve.apps.registry import App
from eigentensor_serve.ledger import Job
from eigentensor_serve.openai.chat import Answer, ChatRequest, TextRequest, read
from eigentensor_serve.openai.errors import of_problem
from eigentensor_serve.openai.programs import Programs
from eigentensor_serve.openai.texts import Writers

_log = structlog.get_logger(__name__)


class Completion:
    """Read `pieces` to its end, then `whole` and `headers` say all; or give them to `events` after the first."""

    def __init__(self, deployed: Deployed, app: App, request: TextRequest, key: str | None) -> None:
        """Raises what is wrong with the request. One that is repeated under its `key` is the same, its seed too."""
        assert isinstance(app.model, Chat)
        self.deployed, self.app, self.chat, self.request, self.key = deployed, app, app.model, request, key
        self.is_chat = isinstance(request, ChatRequest)
        self.programs, pairs = Programs.of(deployed, app), deployed.tokenizer(app)
        chance = secrets.randbelow(SEEDS) if key is None else int(hashlib.sha256(key.encode()).hexdigest()[:16], 16)
        self.context = self.chat.context(self.programs.writer)
        self.inputs = self.programs.writer.named(Role.INPUT)
        self.wanted = read(request, self.chat, pairs, self.context, chance, self.inputs)
        self.answer = Answer(pairs, (self.chat.end, *self.chat.ends), self.wanted.most, self.wanted.stops)
        self.jobs: list[Job] = []
        self.text = ""
        self.known = 0  # tokens of the prompt that need not be read again
        self.named = {
            "id": f"{'chatcmpl' if self.is_chat else 'cmpl'}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": request.model,
            "system_fingerprint": f"fp_{app.program[:8]}{(app.weights or '')[:8]}",
        }

    async def pieces(self, writers: Writers, caller: str) -> AsyncGenerator[str]:
        """The text as it becomes certain, a piece for each execution, empty ones too."""
        prompt, sampling = self.wanted.prompt, self.wanted.sampling
        async with writers.writer(self.programs, caller, self.key) as writer:
            self.jobs = writer.jobs
            position = self.known = await writer.begin(prompt)
            read = writing.reading(self.context, prompt, position, self.programs.chunk, sampling, self.inputs)
            if read is not None:
                most = await writer.most(read.stride)
                for done in range(0, read.repeat, most):
                    yield self._taken(part := read.part(done, most), await writer.write(part))
                position = read.last
            prompt = prompt[position:]
            while self.answer.finish is None:
                most = await writer.most()
                # As many as fill its last execution: so the first ones are there soon.
                count = min(self.chat.step, self.wanted.most - self.answer.tokens, most - len(prompt) % most)
                step = writing.step(self.context, position, prompt, count, sampling, self.inputs)
                yield self._taken(step, await writer.write(step))
                position, prompt = step.last, ()

    def _taken(self, step: Step, tokens: np.ndarray[Any, Any]) -> str:
        """The text that is certain now and was not before."""
        piece = self.answer.take(step.new(tokens))
        self.text += piece
        return piece

    def whole(self) -> dict[str, Any]:
        """The answer in one object."""
        message: dict[str, Any] = {"text": self.text}
        if self.is_chat:
            message = {"message": {"role": "assistant", "content": self.text, "refusal": None}}
        own = {"usage": self._usage(), "eigentensor": self._proof()}
        kind = "chat.completion" if self.is_chat else "text_completion"
        return {"object": kind, **self.named, "choices": [self._choice(message, self.answer.finish)], **own}

    async def events(self, first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
        """The lines of an event stream. What fails on the way is told as its last event."""
        try:
            yield self._chunk(first, {"role": "assistant"})
            async for piece in rest:
                if piece:
                    yield self._chunk(piece)
            yield self._chunk(None, finish=self.answer.finish, eigentensor=self._proof())
            if self.request.stream_options and self.request.stream_options.include_usage:
                yield self._event([], usage=self._usage())
            yield "data: [DONE]\n\n"
        except EigenTensorError as error:
            yield _event(of_problem(of_error(error)))
        except Exception as error:  # the status is told already: the stream must say that it is no answer
            _log.error("an answer failed", exc_info=error)
            yield _event(of_problem({"status": 500, "code": "Bug", "detail": "This service has a fault."}))

    def headers(self) -> dict[str, str]:
        """About the last task so far; where this machine executes there is none, and the state says so."""
        if not self.jobs:
            return {"EigenTensor-State": "local"}
        service = self.deployed.service
        return service.headers(service.backend.show(self.jobs[-1]))

    def _chunk(
        self, text: str | None, more: Mapping[str, str] | None = None, finish: str | None = None, **own: Any
    ) -> str:
        delta = {**(more or {}), **({} if text is None else {"content": text})}
        message: dict[str, Any] = {"delta": delta} if self.is_chat else {"text": text or ""}
        return self._event([self._choice(message, finish)], **own)

    def _event(self, choices: list[dict[str, Any]], **own: Any) -> str:
        kind = "chat.completion.chunk" if self.is_chat else "text_completion"
        return _event({"object": kind, **self.named, "choices": choices, **own})

    @staticmethod
    def _choice(message: dict[str, Any], finish: str | None) -> dict[str, Any]:
        return {"index": 0, **message, "logprobs": None, "finish_reason": finish}

    def _usage(self) -> dict[str, Any]:
        prompt, written = len(self.wanted.prompt), self.answer.tokens
        known = {"cached_tokens": self.known}
        return {
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "total_tokens": prompt + written,
            "prompt_tokens_details": known,
        }

    def _proof(self) -> dict[str, Any]:
        """What OpenAI's answers do not have: the tasks behind this one, and what repeats it."""
        return {"seed": self.wanted.sampling.seed, "tasks": proofs(self.deployed, self.jobs)}


def proofs(deployed: Deployed, jobs: list[Job]) -> list[dict[str, Any]]:
    """Each task as it stands, and where its receipt is."""
    listed = []
    for job in jobs:
        response, has_receipt = deployed.service.backend.show(job), not deployed.service.backend.is_local
        url = f"/v1/tasks/{response['task']}/receipt" if has_receipt else None
        listed.append(
            {"task": response["task"], "state": response["stage"], "price": response["price"], "receipt": url}
        )
    return listed


def _event(fields: dict[str, Any]) -> str:
    return f"data: {json.dumps(fields)}\n\n"
