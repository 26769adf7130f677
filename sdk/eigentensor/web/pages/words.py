"""How values are written on pages. Pure; what is unsafe in HTML is escaped by the templates."""

import unicodedata
from dataclasses import dataclass

from eigentensor.chain.units import from_wei, shown
from eigentensor.pace import UNKNOWN, Pace

_HIDDEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")  # what changes how a text is seen, and is not seen itself


@dataclass(frozen=True, slots=True)
class Money:
    """The token of a market, in which amounts are written."""

    symbol: str = "TETH"
    decimals: int = 18

    def number(self, wei: int | str) -> str:
        """In whole tokens, short enough to be read."""
        return shown(int(wei), self.decimals)

    def exact(self, wei: int | str) -> str:
        """In whole tokens, every digit."""
        return from_wei(int(wei), self.decimals)


@dataclass(frozen=True, slots=True)
class Now:
    """The block as of which a page is told, and how long blocks take."""

    block: int = 0
    pace: Pace = UNKNOWN

    def distance(self, block: int) -> str:
        """How far a block is from now, as people say it: `in about 24 s`; in blocks where nobody knows their pace."""
        away = abs(block - self.block)
        if away == 0:
            return "now"
        if self.pace.seconds and away * self.pace.seconds < 1:
            return "in a moment" if block > self.block else "a moment ago"
        words = self.pace.about(away) or self.pace.blocks(away)
        return f"in {words}" if block > self.block else f"{words} ago"


def short(name: str) -> str:
    """A root, uuid or address so that it fits a line; what is short already stays."""
    head = 8 if name.startswith("0x") else 6
    return name if len(name) <= 16 else f"{name[:head]}…{name[-4:]}"


def visible(text: object) -> str:
    """A text of somebody else with all that would not be seen written out: `\\u202e` for a mark that turns the line."""
    return "".join(_escaped(c) if unicodedata.category(c) in _HIDDEN else c for c in str(text))


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def count(number: int) -> str:
    """A number with its thousands apart."""
    return f"{number:,}"


def size(count: int) -> str:
    """A number of bytes in the largest unit that leaves at least one of it."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    power = max(0, min(len(units) - 1, (int(count).bit_length() - 1) // 10))
    if power == 0:
        return "1 byte" if count == 1 else f"{count:,} bytes"
    return f"{count / 1024**power:.1f} {units[power]}"
