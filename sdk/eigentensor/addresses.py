"""Addresses of accounts as text, with the checksum in the case of their letters (EIP-55)."""

import re
from functools import lru_cache
from typing import Any

from eigentensor.keccak import keccak

_ADDRESS = re.compile("(?:0x)?[0-9a-fA-F]{40}")
_HIGH = 8  # of a digit of the hash: its letter is a capital


def is_address(value: Any) -> bool:
    """Whether a value is the text of an address, with or without 0x, its letters in whichever case."""
    return isinstance(value, str) and _ADDRESS.fullmatch(value) is not None


def is_checksum_address(value: Any) -> bool:
    """Whether a value is an address as `to_checksum_address` writes it."""
    return is_address(value) and value == to_checksum_address(value)


@lru_cache(8192)
def to_checksum_address(address: str | bytes) -> str:
    """An address, as text or as 20 bytes, with 0x and its checksum. Raises ValueError for what is none."""
    text = address if isinstance(address, str) else address.hex()
    if not is_address(text):
        raise ValueError(f"{address!r} is no address")
    # Kept, since the accounts of a market are few, and are named again and again.
    digits = text.lower().removeprefix("0x")
    hashed = keccak(digits.encode()).hex()
    return "0x" + "".join(c.upper() if int(h, 16) >= _HIGH else c for c, h in zip(digits, hashed, strict=False))
