"""What goes wrong with a node: its contracts' refusals by their bytes, and all else that is no value of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from operator import itemgetter
from typing import Any

import httpx

from eigentensor.abi import decode, selector_of, type_of
from eigentensor.chain.answers import Refusal, nonsense
from eigentensor.chain.contracts import NAMES, abi
from eigentensor.chain.fixes import FIXES, MOVE, NO_REASON, TOPICS, UNKNOWN, UNUSUAL
from eigentensor.chain.words import words_of
from eigentensor.errors import ChainError, EigenTensorError, Reverted, Unreachable
from eigentensor.talk import waiting_for

_PLAYED = ("DisputeGame", "Referee")
_TEXT = bytes.fromhex("08c379a0")
_SHOWN = 36  # bytes of a reason that is not known
_PANIC = bytes.fromhex("4e487b71")
_REVERTED = 3  # the number of a node's error for a contract's refusal


def reverted(data: bytes) -> Reverted:
    """The error of a refusal by its bytes: a custom error of any of our contracts, a text, or a panic."""
    selector, rest = data[:4], data[4:]
    try:
        if selector == _TEXT:
            (text,) = decode(["string"], rest)
            return Reverted("Error", (text,), words=f"a contract refused: {text}", fix=UNUSUAL)
        if selector == _PANIC:
            (code,) = decode(["uint256"], rest)
            return Reverted("Panic", (code,), words=f"a contract failed a check of its own, {code:#x}", fix=UNUSUAL)
        if (known := _errors().get(selector)) is not None:
            name, names, types, fix = known
            values = [_readable(value) for value in decode(types, rest)]
            words = words_of(name, dict(zip(names, values, strict=True)))
            return Reverted(name, tuple(values), words=words, fix=fix, topic=TOPICS.get(name, ""))
    except ValueError:
        pass
    if not data:
        return Reverted("UnknownError", words="a contract refused, and gives no reason", fix=NO_REASON)
    shown = "0x" + data[:_SHOWN].hex() + ("…" if len(data) > _SHOWN else "")
    words = f"a contract refused for a reason that is not known here, {shown}"
    return Reverted("UnknownError", ("0x" + data.hex(),), words=words, fix=UNKNOWN)


@contextmanager
def talking_to(url: str) -> Iterator[None]:
    """Errors of a conversation with a node: whatever fails in it, and whatever cannot be made of its responses, raises
    Unreachable, Reverted or ChainError."""
    try:
        with waiting_for(f"the chain's node at {url}"):
            yield
    except EigenTensorError:
        raise
    except httpx.HTTPStatusError as error:
        raise Unreachable(
            f"the node at {url} answered with HTTP {error.response.status_code}",
            fix="Ask again later, or name another node: the network file names its rpc_url.",
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, ConnectionError, TimeoutError) as error:
        raise Unreachable(
            f"no answer from the node at {url}: {type(error).__name__}",
            fix="Is the chain running? The network file names its rpc_url.",
            topic="network",
        ) from error
    except Refusal as error:
        raise _refused(error) from None
    except Exception as error:
        raise nonsense(f"{type(error).__name__}: {error}") from error


def _refused(refusal: Refusal) -> ChainError:
    """The error for a node's: a contract's refusal by its bytes, or else by its text."""
    if isinstance(refusal.data, str) and refusal.data.startswith("0x"):
        try:
            return reverted(bytes.fromhex(refusal.data[2:]))
        except ValueError:
            return Reverted("UnknownError", words="a contract refused, and gives no reason", fix=NO_REASON)
    if refusal.code == _REVERTED or "execution reverted" in refusal.words:
        words = f"a contract refused: {refusal.words}" if refusal.words else "a contract refused, and gives no reason"
        return Reverted("UnknownError", (refusal.words,), words=words, fix=NO_REASON)
    return ChainError(f"the node refused: {refusal.words}", fix="Try again, or ask another node.")


@cache
def _errors() -> dict[bytes, tuple[str, list[str], list[str], str]]:
    """Names, the arguments' names and types, and fixes by selector."""
    errors: dict[bytes, tuple[str, list[str], list[str], str]] = {}
    for contract in NAMES:
        for entry in abi(contract):
            if entry["type"] == "error":
                fix = FIXES.get(entry["name"], MOVE if contract in _PLAYED else UNUSUAL)
                names, types = ([of(one) for one in entry["inputs"]] for of in (itemgetter("name"), type_of))
                errors.setdefault(selector_of(entry), (entry["name"], names, types, fix))
    return errors


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return tuple(map(_readable, value)) if isinstance(value, (list, tuple)) else value
