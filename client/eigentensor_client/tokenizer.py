"""What makes tokens of text and text of tokens, whoever does it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol


class Decoding(Protocol):
    """Text out of tokens as they come."""

    def take(self, token: int, *, is_last: bool) -> str:
        """The text that is certain with this token and was not before: whole characters; all that is left with the
        last one."""

    def finish(self) -> str:
        """All that is left."""


class Tokenizer(Protocol):
    """Text as numbers below `size`, and back."""

    @property
    def size(self) -> int:
        """How many tokens there are."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text that begins there. Raises UnicodeEncodeError for half of a surrogate pair."""

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens; what is no character is U+FFFD."""

    def decoding(self) -> Decoding:
        """The same, of tokens as they come."""

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int] | None:
        """The tokens of a chat, up to where the answer begins; None if the model says in turns what a chat is.

        Raises BindingError for messages that the model does not take.
        """
