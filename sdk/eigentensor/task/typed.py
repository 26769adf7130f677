"""Typed data (EIP-712): structs of static fields as contracts hash them, and which values the fields take.

A struct is a dataclass whose fields end their annotation with their Solidity type, in Solidity's order.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from eth_hash.backends.pysha3 import keccak256 as keccak  # half as long as eth_hash.auto's choice
from eth_utils.address import is_address, to_checksum_address

from eigentensor.wire import hints

_DOMAIN_TYPE = keccak(b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
_NAMES = keccak(b"EigenTensor") + keccak(b"1")
_WORD = 32  # bytes


def kinds(struct: Any) -> Mapping[str, str]:
    """The Solidity types of a struct's static fields, in their order."""
    return _kinds(struct)


@cache
def _kinds(struct: Any) -> Mapping[str, str]:
    annotated = {name: getattr(hint, "__metadata__", (None,))[-1] for name, hint in hints(struct).items()}
    return {name: kind for name, kind in annotated.items() if isinstance(kind, str) and _STATIC.fullmatch(kind)}


def fit(value: Any, what: str) -> None:
    """Raises ValueError unless the fields of a struct fit their Solidity types; gives addresses their checksums. `what`
    names the struct in texts, with its article."""
    for name, kind in kinds(type(value)).items():
        field = getattr(value, name)
        if kind == "address":
            checked = _checked(field) if isinstance(field, str) else None
            fits = checked is not None
        elif kind == "bytes32":
            fits = isinstance(field, bytes) and len(field) == _WORD
        else:
            fits = type(field) is int and field >= 0 and field.bit_length() <= _bits(kind)
        if not fits:
            raise ValueError(f"{name} of {what} must be a {kind}, not {field!r}")
        if kind == "address" and checked != field:
            object.__setattr__(value, name, checked)


@lru_cache(1024)
def _checked(address: str) -> str | None:
    """An address with its checksum; None for what is none. Those that pay and serve call after call are the same."""
    return str(to_checksum_address(address)) if is_address(address) else None


def type_hash(struct: Any) -> bytes:
    """The hash of a struct's type, which its name and its fields spell."""
    fields = ",".join(f"{kind} {_camel(name)}" for name, kind in kinds(struct).items())
    return keccak(f"{struct.__name__}({fields})".encode())


def struct_hash(value: Any) -> bytes:
    """The hash of a struct whose fields fit."""
    struct: Any = type(value)
    head, fields = _layout(struct)
    return keccak(head + b"".join([word(kind, getattr(value, name)) for name, kind in fields]))


def word(kind: str, value: Any) -> bytes:
    """A value of a Solidity type as a word. Raises ValueError or OverflowError for one that is none."""
    if kind == "address":
        return bytes.fromhex(value[2:]).rjust(_WORD, b"\0")
    if kind != "bytes32":
        return int(value).to_bytes(_WORD, "big")
    if len(value) != _WORD:
        raise ValueError(f"{len(value)} bytes are no bytes32")
    return bytes(value)


def signed_hash(chain_id: int, contract: str, hash_: bytes) -> bytes:
    """What is signed of a struct with this hash, for one contract of ours on one chain."""
    return keccak(_separated(chain_id, contract) + hash_)


@cache
def _separated(chain_id: int, contract: str) -> bytes:
    domain = keccak(_DOMAIN_TYPE + _NAMES + word("uint256", chain_id) + word("address", contract))
    return b"\x19\x01" + domain


@cache
def _layout(struct: Any) -> tuple[bytes, tuple[tuple[str, str], ...]]:
    return type_hash(struct), tuple(kinds(struct).items())


@cache
def _bits(kind: str) -> int:
    return int(kind.removeprefix("uint"))


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda letter: letter[1].upper(), name)


_STATIC = re.compile(r"address|bytes32|uint\d+")
