"""`/v1/chat/completions` and `/v1/completions`, decided: requests become tokens, tokens become an answer. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from eigentensor.errors import BindingError
from eigentensor_client.tokenizer import Tokenizer
from eigentensor_client.writing import SEEDS, Sampling
from eigentensor_serve.apps.models import CONTENT, Chat
from eigentensor_serve.openai.errors import Unsupported

Number = Annotated[float, Field(allow_inf_nan=False)]


class TextPart(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """`name` and the like are accepted if they are null alone: the model would not see them."""

    model_config = ConfigDict(extra="allow")

    role: str
    content: str | list[TextPart]


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    include_usage: bool = False
    include_obfuscation: bool = False


class TextRequest(BaseModel):
    """What an app that writes is asked. Of all other parameters of OpenAI's only such values are accepted as change
    nothing."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(max_length=80)
    max_tokens: int | None = Field(None, ge=1)
    temperature: Number | None = Field(None, ge=0, le=2)
    top_p: Number | None = Field(None, ge=0, le=1, description="only the likeliest tokens that are so likely together")
    top_k: int | None = Field(None, ge=0, lt=1 << 31, description="only so many of the likeliest tokens; 0: all")
    min_p: Number | None = Field(None, ge=0, le=1, description="only tokens at least so likely, beside the likeliest")
    seed: int | None = Field(None, ge=-(SEEDS // 2), lt=SEEDS)
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class ChatRequest(TextRequest):
    """Messages, in a text as the model's `turns` have it. Without `max_tokens` the answer may fill the context."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "page", "messages": [{"role": "user", "content": "A program"}], "max_tokens": 16}]
        }
    )

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)


class PlainRequest(TextRequest):
    """A text as it is, or its tokens, to go on from. Without `max_tokens` 16 follow."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "page", "prompt": "A program", "max_tokens": 16}]}
    )

    prompt: str | list[str] | list[int] | list[list[int]]


#: Values of other parameters that mean what is done anyway; whatever else they are is refused.
_HARMLESS: Mapping[str, tuple[Any, ...]] = {
    "n": (1,), "frequency_penalty": (0,), "presence_penalty": (0,), "logprobs": (False,),
    "top_logprobs": (0,), "logit_bias": ({},), "response_format": ({"type": "text"},), "store": (False,),
    "modalities": (["text"],), "service_tier": ("auto", "default"), "tools": ([],), "tool_choice": ("none",),
    "parallel_tool_calls": (True, False),
    "best_of": (1,), "echo": (False,), "suffix": ("",),
}  # fmt: skip
_ABOUT_THE_CALLER = ("user", "metadata", "safety_identifier", "prompt_cache_key")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request, read: the tokens of its text, how many may follow, how they are drawn, what ends them."""

    prompt: tuple[int, ...]
    most: int
    sampling: Sampling
    stops: tuple[str, ...]


def read(
    request: TextRequest, chat: Chat, pairs: Tokenizer, context: int, chance: int, names: Collection[str]
) -> Wanted:
    """`chance` is the seed of a request that has none, `names` are the inputs of the app's program.

    Raises Unsupported for a parameter that would not be honoured, BindingError for what is no text.
    """
    for name, value in (request.model_extra or {}).items():
        harmless = value is None or name in _ABOUT_THE_CALLER or any(_same(value, v) for v in _HARMLESS.get(name, ()))
        if not harmless:
            raise Unsupported(name)
    stops = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
    if not all(stops) or len(stops) > 4:
        raise Unsupported("stop", "has up to four texts, none of them empty", fix="Leave the others out.")
    prompt = _prompt(request, chat, pairs)
    room = context - len(prompt)
    most = _most(request, room)
    if room < 1 or most > room:
        raise Unsupported(
            ("messages" if isinstance(request, ChatRequest) else "prompt") if room < 1 else "max_tokens",
            f"do not fit: the text has {len(prompt)} tokens and the answer up to {max(most, 1)}, the context {context}",
            fix="Send a shorter text, or ask for fewer tokens.",
        )
    temperature = 1.0 if request.temperature is None else request.temperature
    seed = (chance if request.seed is None else request.seed) % SEEDS
    top_p = 1.0 if request.top_p is None else request.top_p
    sampling = Sampling(temperature, request.min_p or 0.0, seed, request.top_k or 0, top_p)
    for name in sampling.limits():
        if name not in names:
            raise Unsupported(name, "is no input of the model's program")
    return Wanted(prompt, most, sampling, stops)


def _most(request: TextRequest, room: int) -> int:
    if isinstance(request, ChatRequest):
        return request.max_completion_tokens or request.max_tokens or room
    return request.max_tokens or min(16, room)  # as OpenAI has it


def _prompt(request: TextRequest, chat: Chat, pairs: Tokenizer) -> tuple[int, ...]:
    if isinstance(request, ChatRequest):
        return tuple(_chat(request.messages, chat, pairs))
    assert isinstance(request, PlainRequest)
    prompt: str | list[Any] = request.prompt
    if isinstance(prompt, list) and (not prompt or not isinstance(prompt[0], int)):
        if len(prompt) != 1:
            raise Unsupported("prompt", f"has {len(prompt)} texts", fix="Send a request for each.")
        (prompt,) = prompt
    return tuple(tokens_of(prompt, pairs, "prompt"))


def _chat(messages: Sequence[Message], chat: Chat, pairs: Tokenizer) -> list[int]:
    """The tokens of messages, by the tokenizer's template, or by the model's turns."""
    shown = []
    for message in messages:
        for name, value in (message.model_extra or {}).items():
            if value:
                raise Unsupported("messages", f"have a {name!r}, which the model would not see")
        parts = [message.content] if isinstance(message.content, str) else [part.text for part in message.content]
        shown.append({"role": message.role, "content": "".join(parts)})
    try:
        tokens = pairs.chat(shown)
        return pairs.encode(text_of(shown, chat)) if tokens is None else tokens
    except UnicodeEncodeError:
        raise BindingError("the messages have half of a surrogate pair", fix="Send valid Unicode.") from None


def tokens_of(text: str | list[Any], pairs: Tokenizer, parameter: str) -> list[int]:
    """The tokens of a text that may be tokens already. Raises Unsupported, which names the parameter."""
    if not isinstance(text, str):
        if any(not 0 <= token < pairs.size for token in text):
            raise Unsupported(parameter, f"has a token that is not one of {pairs.size}", fix="Use this model's tokens.")
        return text
    try:
        return pairs.encode(text)
    except UnicodeEncodeError:
        raise Unsupported(parameter, "has half of a surrogate pair", fix="Send valid Unicode.") from None


def text_of(messages: Sequence[Mapping[str, str]], chat: Chat) -> str:
    """What the program reads of messages, each with `role` and `content`. Raises Unsupported for a role that the model
    does not know."""
    text = ""
    for message in messages:
        role = message["role"]
        if role not in chat.turns:
            known = ", ".join(sorted(chat.turns))
            raise Unsupported("messages", f"have a role {role!r}; the model knows {known}", fix="Use those.")
        text += chat.turns[role].replace(CONTENT, message["content"])
    return text + chat.reply


class Answer:
    """Text out of tokens as they come: whole characters, never beyond what ends it, at most `most` tokens."""

    def __init__(self, pairs: Tokenizer, ends: Sequence[int], most: int, stops: Sequence[str] = ()) -> None:
        self.ends, self.most, self.stops = frozenset(ends), most, tuple(stops)
        self.tokens = 0
        self.finish: str | None = None  # `stop` or `length`, once it has ended
        self._decoding = pairs.decoding()
        self._held = ""  # what may be the beginning of a stop

    def take(self, tokens: Iterable[int]) -> str:
        """The text that is certain now and was not before. Tokens after the end are not looked at."""
        for token in tokens:
            if self.finish is None:
                self._take(token)
        certain = len(self._held) if self.finish else len(self._held) - self._open()
        text, self._held = self._held[:certain], self._held[certain:]
        return text

    def _take(self, token: int) -> None:
        self.tokens += 1
        is_end = token in self.ends
        is_last = is_end or self.tokens == self.most
        self._held += self._decoding.finish() if is_end else self._decoding.take(token, is_last=is_last)
        ends = [(place + len(stop), place) for stop in self.stops if (place := self._held.find(stop)) >= 0]
        if ends:
            self._held = self._held[: min(ends)[1]]  # the stop that was complete first
        if ends or is_last:
            self.finish = "stop" if ends or is_end else "length"

    def _open(self) -> int:
        """How many of the last characters may belong to a stop that is not complete."""
        held = self._held
        return max((n for stop in self.stops for n in range(1, len(stop)) if held.endswith(stop[:n])), default=0)


def _same(value: Any, other: Any) -> bool:
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)
