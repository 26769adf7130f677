"""What OpenAI's routes answer: OpenAI's objects, and in `eigentensor` the tasks behind them."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from eigentensor.texts import documented
from eigentensor_serve.schemas import Proof


@documented
class ChatProof(TypedDict):
    """What repeats an answer, and who computed it."""

    seed: int
    """With it the same is answered whenever it is asked for."""
    tasks: list[Proof]
    """The tasks behind the answer, in order."""


@documented
class EmbeddingsProof(TypedDict):
    """Who computed vectors."""

    tasks: list[Proof]
    """The tasks behind the answer, in order."""


@documented
class ChatMessage(TypedDict):
    """What the model says."""

    role: Literal["assistant"]
    """Who says it."""
    content: str
    """The text."""
    refusal: None
    """A model here refuses nothing."""


@documented
class Choice(TypedDict):
    """An answer; there is one."""

    index: int
    """Counts answers."""
    message: ChatMessage
    """What it says."""
    logprobs: None
    """Not told."""
    finish_reason: Literal["stop", "length"] | None
    """Whether it ended by itself, or at `max_tokens`."""


@documented
class PromptTokens(TypedDict):
    """What became of the tokens that were given."""

    cached_tokens: int
    """Those that were read for another text, and are not paid for again."""


@documented
class Usage(TypedDict):
    """Tokens that were counted."""

    prompt_tokens: int
    """Those that were given."""
    completion_tokens: NotRequired[int]
    """Those that were written."""
    total_tokens: int
    """All of them."""
    prompt_tokens_details: NotRequired[PromptTokens]
    """Of a text, how many of those that were given need not be read."""


@documented
class ChatCompletion(TypedDict):
    """OpenAI's `chat.completion`."""

    object: Literal["chat.completion"]
    """Says what this object is."""
    id: str
    """Names the answer."""
    created: int
    """When it was asked for: seconds since 1970."""
    model: str
    """The app that was asked, as it was named."""
    system_fingerprint: str
    """Of program and weights."""
    choices: list[Choice]
    """The answer."""
    usage: Usage
    """Tokens."""
    eigentensor: ChatProof
    """What OpenAI's answers do not have."""


@documented
class TextChoice(TypedDict):
    """How a text goes on; there is one."""

    index: int
    """Counts answers."""
    text: str
    """What follows."""
    logprobs: None
    """Not told."""
    finish_reason: Literal["stop", "length"] | None
    """Whether it ended by itself, or at `max_tokens`."""


@documented
class TextCompletion(TypedDict):
    """OpenAI's `text_completion`."""

    object: Literal["text_completion"]
    """Says what this object is."""
    id: str
    """Names the answer."""
    created: int
    """When it was asked for: seconds since 1970."""
    model: str
    """The app that was asked, as it was named."""
    system_fingerprint: str
    """Of program and weights."""
    choices: list[TextChoice]
    """The answer."""
    usage: Usage
    """Tokens."""
    eigentensor: ChatProof
    """What OpenAI's answers do not have."""


@documented
class Embedding(TypedDict):
    """The vector of a text."""

    object: Literal["embedding"]
    """Says what this object is."""
    index: int
    """Counts the texts."""
    embedding: list[float] | str
    """The vector; with `encoding_format` of base64 its float32 bytes."""


@documented
class EmbeddingList(TypedDict):
    """OpenAI's list of embeddings."""

    object: Literal["list"]
    """Says what this object is."""
    data: list[Embedding]
    """In the order of the texts."""
    model: str
    """The app that was asked, as it was named."""
    usage: Usage
    """Tokens."""
    eigentensor: EmbeddingsProof
    """What OpenAI's answers do not have."""


@documented
class Model(TypedDict):
    """An app that speaks text."""

    id: str
    """Its name."""
    object: Literal["model"]
    """Says what this object is."""
    created: int
    """When it was deployed: seconds since 1970."""
    owned_by: str
    """eigentensor."""


@documented
class ModelList(TypedDict):
    """Apps that speak text."""

    object: Literal["list"]
    """Says what this object is."""
    data: list[Model]
    """By their names."""


@documented
class ErrorObject(TypedDict):
    """What OpenAI's clients read of a refusal."""

    message: str
    """What is wrong, and what to do."""
    type: str
    """Its kind: invalid_request_error, rate_limit_error, …"""
    param: str | None
    """The parameter that is wrong, where it is one."""
    code: str | None
    """The error's name."""


class OpenAIError(TypedDict):
    """A refusal in OpenAI's form. Beside `error` may stand the members of the problem (RFC 9457) that it is."""

    error: Annotated[ErrorObject, Field(description="What is wrong.")]
