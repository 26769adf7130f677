"""What `eigentensor serve` and the verbs about it alone tell, beside the objects of `eigentensor.schemas`."""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.texts import Address, Name, Size, Wei, documented
from eigentensor.wire import Json
from eigentensor_client.orders import Terms


@documented
class Urls(TypedDict):
    """Where to ask about a task: paths of this service."""

    task: str
    """How it stands: `eigentensor.task/1`."""
    events: str
    """What happens to it, as server-sent events."""
    result: str
    """Its outputs."""
    explain: str
    """Why it is where it is."""
    cancel: str
    """POST takes it back while nobody has accepted it."""
    receipt: str
    """Who signed what."""


@documented
class Accepted(TypedDict):
    """`eigentensor.accepted/1`: a task that goes on, and where to ask for more."""

    schema: Literal["eigentensor.accepted/1"]
    """Says what this object is."""
    task: Name
    """The task's uuid; posted again it keeps this name here."""
    stage: str
    """Where it stands."""
    urls: Urls
    """Where to ask for more."""


@documented
class AppMarket(TypedDict):
    """The market that an app's tasks are posted in."""

    network: str
    """The network's name."""
    chain_id: int
    """The chain, as EIP-155 counts."""
    market: Address
    """The contract TaskMarket."""


class AppTerms(Terms):
    """What an app offers for a task: amounts in wei, rates in WAD (10¹⁸ is 1), times in blocks."""


@documented
class AppModel(TypedDict):
    """How an app speaks text; the members beside `kind` and `tokenizer` are those of its kind."""

    kind: Literal["chat", "embeddings"]
    """Which of OpenAI's routes it answers."""
    tokenizer: str
    """The blob root of its tokenizer."""
    turns: NotRequired[dict[str, str]]
    """For each role how a message stands in the text, with {content} for what it says (chat)."""
    reply: NotRequired[str]
    """With what the text ends that an answer continues (chat)."""
    step: NotRequired[int]
    """Tokens in one execution (chat)."""
    end: NotRequired[int]
    """The token that ends an answer (chat)."""
    ends: NotRequired[list[int]]
    """Other tokens that end one, too (chat)."""
    pooling: NotRequired[Literal["mean", "first", "none"]]
    """How a text's vector is made of its tokens' (embeddings)."""
    normalise: NotRequired[bool]
    """Whether vectors have length 1 (embeddings)."""


@documented
class AppRows(TypedDict):
    """Which tensors of an app have rows that keep apart."""

    count: int
    """How many rows a request has at most: those of the program, along first axes."""
    inputs: list[str]
    """Inputs of which a request gives 1 to `count` rows, as many of each."""
    outputs: list[str]
    """Outputs of which it is answered with as many."""


@documented
class AppOutput(TypedDict):
    """A tensor that an app answers with."""

    name: str
    """Its name in the program."""
    dtype: str
    """float32, int32, bool, …"""
    shape: list[Size]
    """Its extents, outermost first."""


@documented
class App(TypedDict):
    """`eigentensor.app/1`: a version of an app, which never changes. Roots are 64 hex digits."""

    schema: Literal["eigentensor.app/1"]
    """Says what this object is."""
    name: str
    """By which it is asked."""
    version: int
    """Counts its versions from 1."""
    created: str
    """When it was deployed (RFC 3339)."""
    program: Name
    """The program root."""
    weights: Name | None
    """The bindings root of its weights."""
    states: Name | None
    """The bindings root of the states that every execution begins with."""
    model: AppModel | None
    """How it speaks text; null for an app of tensors."""
    market: AppMarket | None
    """Where its tasks are posted; null where this machine executes it."""
    terms: Annotated[dict[str, Any], Json(AppTerms)] | None
    """What it offers for a task; null where this machine executes it."""
    stage: str
    """What an answer waits for: result, checked or final."""
    budget: Wei | None
    """Wei that a day (UTC) may cost; null: no limit of its own."""
    rows: NotRequired[AppRows | None]
    """Which rows a request may leave out; null: none."""
    reader: NotRequired[Name | None]
    """The program that reads prompts for a model that writes; null: none does."""
    served: NotRequired[int]
    """The version that is served now."""
    versions: NotRequired[list[int]]
    """All versions, rising."""
    input: NotRequired[dict[str, Any]]
    """The JSON Schema of a request."""
    example: NotRequired[dict[str, Any] | None]
    """A request; null where it would be a large one."""
    outputs: NotRequired[list[AppOutput]]
    """What a request is answered with."""
    url: NotRequired[str]
    """Where to ask it: a path of the service."""
    docs: NotRequired[str]
    """The same for people: a path of the service."""
    openapi: NotRequired[str]
    """The same as OpenAPI of this app alone: a path of the service."""
    curl: NotRequired[str]
    """A command that asks it, as it is; where it is to show a token, `$TOKEN` is one."""


@documented
class Apps(TypedDict):
    """`eigentensor.apps/1`: every app, in the version that is served."""

    schema: Literal["eigentensor.apps/1"]
    """Says what this object is."""
    apps: list[App]
    """By their names, without what they take and give."""


@documented
class Version(TypedDict):
    """`eigentensor.version/1`: what serves."""

    schema: Literal["eigentensor.version/1"]
    """Says what this object is."""
    version: str
    """The version of this software."""
    local: bool
    """Whether this machine executes itself: nothing is paid, nobody checks."""


@documented
class Health(TypedDict):
    """Whether a service can do its work."""

    status: Literal["ok", "stale", "away"]
    """With 503: `stale` if the chain or the gateway does not answer, `away` if the ledger or the folders do not."""


@documented
class AppRemoved(TypedDict):
    """`eigentensor.app-removed/1`: an app that is gone; told by the command."""

    schema: Literal["eigentensor.app-removed/1"]
    """Says what this object is."""
    name: str
    """By which it was asked."""
    versions: list[int]
    """The versions that it had, rising."""


@documented
class Token(TypedDict):
    """`eigentensor.token/1`: a new bearer token; told by the command, once."""

    schema: Literal["eigentensor.token/1"]
    """Says what this object is."""
    name: str
    """Whose it is."""
    token: str
    """What `Authorization: Bearer` is to say."""


@documented
class Proof(TypedDict):
    """A task behind an answer."""

    task: Name
    """The task's uuid."""
    state: str
    """Where it stands: its `stage`."""
    price: Wei | None
    """Wei for the executor; null where nobody is paid."""
    receipt: str | None
    """Where its receipt is; null where there is none."""


@documented
class Answer(TypedDict):
    """`eigentensor.answer/1`: what a model says to one message of a chat; told by the command."""

    schema: Literal["eigentensor.answer/1"]
    """Says what this object is."""
    model: str
    """Which one."""
    answer: str
    """Its text."""
    seed: int
    """With it the same is answered again."""
    tasks: list[Proof]
    """The tasks behind it, in order; none where this machine executes."""


@documented
class TokenNames(TypedDict):
    """`eigentensor.token-names/1`: for whom tokens were made; told by the command."""

    schema: Literal["eigentensor.token-names/1"]
    """Says what this object is."""
    names: list[str]
    """Their names, in order."""


@documented
class TokenRemoved(TypedDict):
    """`eigentensor.token-removed/1`: a token that is worthless now; told by the command."""

    schema: Literal["eigentensor.token-removed/1"]
    """Says what this object is."""
    name: str
    """Whose it was."""
