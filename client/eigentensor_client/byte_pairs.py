"""Byte-pair encoding: text as numbers of frequent byte strings, and back."""

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

from eigentensor.errors import ConfigError

SCHEMA = "eigentensor.byte-pairs/1"
END = 0  #: the token before a text and after it; those of the single bytes follow
FIRST_MERGE = 257
PARTS = re.compile(r" ?\w+| ?[^\w\s]+|\s+(?!\S)|\s")  # words with the space before them: merges stay within a part


@dataclass(frozen=True)
class BytePairs:
    """A vocabulary: END, the 256 bytes, and for each merge, in order, the token of two tokens side by side."""

    merges: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """How many tokens there are: 0 to `size` - 1."""
        return FIRST_MERGE + len(self.merges)

    @cached_property
    def ranks(self) -> dict[tuple[int, int], int]:
        """The token that each pair is merged to."""
        return {pair: FIRST_MERGE + rank for rank, pair in enumerate(self.merges)}

    @cached_property
    def strings(self) -> list[bytes]:
        """The bytes of each token."""
        strings = [b"", *(bytes([byte]) for byte in range(256))]
        for left, right in self.merges:
            strings.append(strings[left] + strings[right])
        return strings

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without an end."""
        return [token for part in PARTS.findall(text) for token in self._part(part.encode())]

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens, which may begin or end within a character: what is none is shown as U+FFFD."""
        return b"".join(self.strings[token] for token in tokens).decode(errors="replace")

    def decoding(self) -> "Decoding":
        """The same, of tokens as they come."""
        return Decoding(self)

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """There is no template: turns say what a chat is."""

    def to_bytes(self) -> bytes:
        """Its file: a JSON object with `schema` and `merges`, pairs of tokens."""
        return json.dumps({"schema": SCHEMA, "merges": self.merges}, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises ConfigError for what is no such file: each merge is of tokens before it."""
        try:
            values = json.loads(data)
            merges = tuple((left, right) for left, right in values["merges"])
            if values["schema"] != SCHEMA:
                raise ValueError(f"it is of kind {values['schema']}")
            for token, pair in enumerate(merges, FIRST_MERGE):
                if not all(type(part) is int and END < part < token for part in pair):
                    raise ValueError(f"token {token} cannot be made of {pair}")
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"this is not a tokenizer: {error}", fix=f"Its schema is {SCHEMA}.") from None
        return cls(merges)

    def _part(self, part: bytes) -> list[int]:
        tokens = [1 + byte for byte in part]
        while ranks := [self.ranks[pair] for pair in pairwise(tokens) if pair in self.ranks]:
            tokens = merged(tokens, self.merges[min(ranks) - FIRST_MERGE], min(ranks))
        return tokens


class Decoding:
    """Text out of tokens as they come: whole characters."""

    def __init__(self, pairs: BytePairs) -> None:
        self._pairs = pairs
        self._bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def finish(self) -> str:
        """What is left: a character that is not whole."""
        return self._bytes.decode(b"", True)

    def take(self, token: int, *, is_last: bool) -> str:
        """The text that is certain with this token and was not before; what is no token is shown as U+FFFD."""
        strings = self._pairs.strings
        return self._bytes.decode(strings[token] if 0 <= token < len(strings) else "\ufffd".encode(), is_last)


def trained(text: str, size: int) -> BytePairs:
    """A vocabulary of `size` tokens, fewer if nothing is left to merge: the most frequent pair of the text is merged,
    of those equally frequent the one whose bytes come first, then again."""
    parts = [([1 + byte for byte in part.encode()], count) for part, count in Counter(PARTS.findall(text)).items()]
    pairs = BytePairs(())
    while pairs.size < size:
        counts: Counter[tuple[int, int]] = Counter()
        for tokens, count in parts:
            for pair in pairwise(tokens):
                counts[pair] += count
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], *(pairs.strings[token] for token in pair)))
        parts = [(merged(tokens, best, pairs.size), count) for tokens, count in parts]
        pairs = BytePairs((*pairs.merges, best))
    return pairs


def merged(tokens: Sequence[int], pair: tuple[int, int], token: int) -> list[int]:
    """The tokens with `token` wherever the pair stands, from left to right."""
    made: list[int] = []
    for after in tokens:
        if made and (made[-1], after) == pair:
            made[-1] = token
        else:
            made.append(after)
    return made
