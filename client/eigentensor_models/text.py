"""A model's text as its files have it: the tokenizer of `tokenizer.json`, special tokens, the template of chats."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from eigentensor.errors import ConfigError
from eigentensor.extras import require
from eigentensor_client.byte_pairs import BytePairs
from eigentensor_client.tokenizer import Tokenizer
from eigentensor_models.options import read_object
from eigentensor_models.rendering import renderer

if TYPE_CHECKING:
    import tokenizers

SCHEMA = "eigentensor.text/1"
LIMIT = 64 << 20  #: bytes of a tokenizer's file
NUMBERS = 1 << 32  #: that the library takes: to know which are tokens takes long before the first word of a service
_SPECIAL = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_BEGINNING = json.dumps({"schema": SCHEMA}, separators=(",", ":")).encode()[:-1]
_PENDING = 8  # tokens whose bytes may be parts of one character


@dataclass(frozen=True)
class Text:
    """A tokenizer with what belongs to it. Special tokens, by the names that templates have for them, are texts."""

    tokenizer: str  # the file tokenizer.json
    template: str | None = None
    special: Mapping[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """One file of all of it."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Reads what `to_bytes` wrote. Raises ConfigError for anything else."""
        try:
            values = json.loads(data)
            if values.pop("schema") != SCHEMA:
                raise ValueError("it is of another kind")
            text = cls(**values)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"this is not a model's text: {error}", fix=f"Its schema is {SCHEMA}.") from None
        assert text._library
        return text

    @cached_property
    def _library(self) -> "tokenizers.Tokenizer":
        """The tokenizer of the library. Raises ConfigError for a file that it does not take."""
        require("models")
        import tokenizers

        with _named("tokenizer.json cannot be read"):
            made = tokenizers.Tokenizer.from_str(self.tokenizer)
            made.no_truncation()
            made.no_padding()
        return made

    @cached_property
    def size(self) -> int:
        """How many tokens there are, added ones included: all numbers are below."""
        return max(self._library.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with what the tokenizer puts before it and behind it."""
        return self._encoded(text, special=True)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens without the special ones."""
        known = [token for token in tokens if 0 <= token < NUMBERS]  # the library leaves out which are no tokens
        with _named("tokenizer.json makes no text of tokens"):
            text: str = self._library.decode(known, skip_special_tokens=True)
        return text

    def decoding(self) -> "Decoding":
        """The same of tokens as they come."""
        return Decoding(self)

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int] | None:
        """The tokens of a chat as the template has it; None if there is no template."""
        if self.template is None:
            return None
        rendered = renderer().render(self.template, messages, self.special)
        return self._encoded(rendered, special=False)  # the template has written them

    def number(self, token: str) -> int | None:
        """The number of a token that is a text."""
        number: int | None = self._library.token_to_id(token)
        return number

    def _encoded(self, text: str, *, special: bool) -> list[int]:
        text.encode()  # the library fails on half of a surrogate pair in a way of its own
        with _named("tokenizer.json makes no tokens of a text"):
            numbers: list[int] = self._library.encode(text, add_special_tokens=special).ids
        return numbers


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Raises ConfigError for whatever the library does not take: it also raises panics, which are no exceptions."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise ConfigError(f"{what}: {str(error)[:200]}", fix="Fetch it again.") from None


class Decoding:
    """Text out of tokens as they come: what a token adds depends on those before it, and a character may need some."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._tokens: list[int] = []  # from where the last text began that was certain
        self._known = 0  # of these the ones whose text was given

    def finish(self) -> str:
        """What is left: a character that is not whole."""
        return self._text.decode(self._tokens)[len(self._text.decode(self._tokens[: self._known])) :]

    def take(self, token: int, *, is_last: bool) -> str:
        """The text that is certain with this token and was not before."""
        self._tokens.append(token)
        if is_last:
            return self.finish()
        before = self._text.decode(self._tokens[: self._known])
        text = self._text.decode(self._tokens)
        open_ = text.endswith("\ufffd") and len(self._tokens) - self._known < _PENDING
        if len(text) <= len(before) or open_:
            return ""
        self._tokens, self._known = self._tokens[self._known :], len(self._tokens) - self._known
        return text[len(before) :]


def tokenizer_of(data: bytes) -> Tokenizer:
    """The tokenizer in the file of an app: of a model that has its own, or byte pairs. Raises ConfigError."""
    return Text.from_bytes(data) if data.startswith(_BEGINNING) else BytePairs.from_bytes(data)


def read_text(folder: Path) -> Text:
    """The text of a model's folder. Raises ConfigError for files that are missing or malformed."""
    path = folder / "tokenizer.json"
    try:
        if path.stat().st_size > LIMIT:
            raise ConfigError(f"{path} has more than {LIMIT >> 20} MiB", fix="Fetch it again.")
        tokenizer = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", fix="Save the tokenizer as tokenizer.json, too.") from None
    config = folder / "tokenizer_config.json"
    values = read_object(config) if config.is_file() else {}
    special = {f"{name}_token": word for name in _SPECIAL if (word := _word(values.get(f"{name}_token")))}
    text = Text(tokenizer, _template(folder, values), special)
    text.encode("x")  # whatever the library does not take is known now
    return text


def ends_of(folder: Path, text: Text) -> list[int]:
    """The tokens that end an answer, as generation_config.json, config.json and tokenizer_config.json name them.

    Raises ConfigError if none does.
    """
    ends: list[int] = []
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        value = read_object(path).get("eos_token_id") if path.is_file() else None
        numbers = value if isinstance(value, list) else [] if value is None else [value]
        if any(type(number) is not int or number < 0 for number in numbers):
            raise ConfigError(f"{path}: eos_token_id is no token", fix="It is a number, or a list of some.")
        ends += numbers
        if ends:
            break
    if (named := text.special.get("eos_token")) and (number := text.number(named)) is not None:
        ends.append(number)
    ends = [number for number in dict.fromkeys(ends) if number < text.size]
    if not ends:
        raise ConfigError(f"{folder} says nowhere which token ends an answer", fix="Name one: eos_token_id.")
    return ends


def _template(folder: Path, values: Mapping[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(LIMIT)
    template = values.get("chat_template")
    if isinstance(template, list):  # several, by name
        default = [one for one in template if isinstance(one, dict) and one.get("name") == "default"]
        template = default[0].get("template") if default else None
    if template is not None and not isinstance(template, str):
        raise ConfigError(f"{folder}: chat_template is no text", fix="Fetch tokenizer_config.json again.")
    return template


def _word(value: Any) -> str | None:
    """A special token, which is a text or an object with one."""
    word = value.get("content") if isinstance(value, dict) else value
    return word if isinstance(word, str) else None
