"""Typed data (EIP-712): structs of static fields as contracts hash them, and which values the fields take.

A struct is a dataclass whose fields end their annotation with their Solidity type, in Solidity's order.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import methodcaller
from typing import Any

from eigentensor import abi
from eigentensor.addresses import is_address, to_checksum_address
from eigentensor.keccak import keccak
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
    struct: Any = type(value)
    for name, kind, fits in _checks(struct):
        field = getattr(value, name)
        if not fits(field):
            raise ValueError(f"{name} of {what} must be a {kind}, not {field!r}")
        if kind == "address" and (checked := to_checksum_address(field)) != field:
            object.__setattr__(value, name, checked)


@cache
def _checks(struct: Any) -> tuple[tuple[str, str, Callable[[Any], bool]], ...]:
    return tuple((name, kind, _check(kind)) for name, kind in kinds(struct).items())


def _check(kind: str) -> Callable[[Any], bool]:
    if kind == "address":
        return is_address
    if kind == "bytes32":
        return lambda value: isinstance(value, bytes) and len(value) == _WORD
    end = 1 << int(kind.removeprefix("uint"))
    return lambda value: type(value) is int and 0 <= value < end


def type_hash(struct: Any) -> bytes:
    """The hash of a struct's type, which its name and its fields spell."""
    fields = ",".join(f"{kind} {_camel(name)}" for name, kind in kinds(struct).items())
    return keccak(f"{struct.__name__}({fields})".encode())


def struct_hash(value: Any) -> bytes:
    """The hash of a struct whose fields fit."""
    struct: Any = type(value)
    head, fields = _layout(struct)
    return keccak(head + b"".join([write(getattr(value, name)) for name, write in fields]))


def word(kind: str, value: Any) -> bytes:
    """A value of a Solidity type as a word. Raises ValueError for one that is none."""
    return abi.writer(kind)(value)


def signed_bytes(chain_id: int, contract: str, hash_: bytes) -> bytes:
    """The message that is signed of a struct with this hash, for one contract of ours on one chain."""
    return _separated(chain_id, contract) + hash_


@cache
def _separated(chain_id: int, contract: str) -> bytes:
    domain = keccak(_DOMAIN_TYPE + _NAMES + word("uint256", chain_id) + word("address", contract))
    return b"\x19\x01" + domain


@cache
def _layout(struct: Any) -> tuple[bytes, tuple[tuple[str, Callable[[Any], bytes]], ...]]:
    return type_hash(struct), tuple((name, _writer(kind)) for name, kind in kinds(struct).items())


def _writer(kind: str) -> Callable[[Any], bytes]:
    """The word of a value that fits: nothing is checked a second time."""
    if kind == "address":
        return abi.writer(kind)
    return bytes if kind == "bytes32" else methodcaller("to_bytes", _WORD, "big")


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda letter: letter[1].upper(), name)


_STATIC = re.compile(r"address|bytes32|uint\d+")
