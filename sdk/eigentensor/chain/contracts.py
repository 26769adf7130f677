"""The contracts as Python sees them: their committed ABIs, and what their refusals mean."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import requests
from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_typing import ABI, ABIError
from eth_utils.abi import abi_to_signature, function_signature_to_4byte_selector, get_abi_input_types
from web3.exceptions import ContractLogicError, Web3RPCError

from eigentensor.chain.answers import nonsense
from eigentensor.chain.fixes import FIXES, MOVE, NO_REASON, UNKNOWN, UNUSUAL
from eigentensor.chain.words import words_of
from eigentensor.errors import ChainError, EigenTensorError, Reverted, Unreachable

NAMES = (
    "TaskMarket",
    "DisputeGame",
    "Referee",
    "ServiceManager",
    "Bounty",
    "AllocationManager",
    "DelegationManager",
    "StrategyManager",
    "Strategy",
    "TestToken",
)
_PLAYED = ("DisputeGame", "Referee")
_TEXT = bytes.fromhex("08c379a0")
_SHOWN = 36  # bytes of a reason that is not known
_PANIC = bytes.fromhex("4e487b71")


@cache
def abi(name: str) -> ABI:
    """The ABI of a contract, as scripts/abi wrote it."""
    value: ABI = json.loads((files("eigentensor.chain") / "abi" / f"{name}.json").read_text())
    return value


def reverted(data: bytes) -> Reverted:
    """What a contract said when it refused: a custom error of any of our contracts, a text, or a panic."""
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
            return Reverted(name, tuple(values), words=words, fix=fix)
    except (DecodingError, UnicodeDecodeError):
        pass
    if not data:
        return Reverted("UnknownError", words="a contract refused, and gives no reason", fix=NO_REASON)
    said = "0x" + data[:_SHOWN].hex() + ("…" if len(data) > _SHOWN else "")
    words = f"a contract refused for a reason that is not known here, {said}"
    return Reverted("UnknownError", ("0x" + data.hex(),), words=words, fix=UNKNOWN)


@contextmanager
def talking_to(url: str) -> Iterator[None]:
    """Turns the ways in which a node fails, and all that cannot be made of what it says, into Unreachable, Reverted and
    ChainError."""
    try:
        yield
    except EigenTensorError:
        raise
    except requests.HTTPError as error:
        status = error.response.status_code if error.response is not None else "an error"
        raise Unreachable(
            f"the node at {url} answered with HTTP {status}",
            fix="Ask again later, or name another node: the network file names its rpc_url.",
        ) from error
    except (requests.RequestException, ConnectionError, TimeoutError) as error:
        raise Unreachable(
            f"no answer from the node at {url}: {type(error).__name__}",
            fix="Is the chain running (`eigentensor devnet`)? The network file names its rpc_url.",
        ) from error
    except ContractLogicError as error:
        raise _refusal(error.data, error.message or "") from None
    except Web3RPCError as error:
        response = error.rpc_response if isinstance(error.rpc_response, dict) else {}
        detail = response.get("error")
        said: Mapping[str, Any] = detail if isinstance(detail, dict) else {}
        if isinstance(said.get("data"), str) and said["data"].startswith("0x"):
            raise _refusal(said["data"], "") from None
        raise ChainError(
            f"the node refused: {said.get('message') or error}", fix="Run the same command again, or ask another node."
        ) from error
    except Exception as error:
        raise nonsense(f"{type(error).__name__}: {error}") from error


def _refusal(data: object, text: str) -> Reverted:
    """What a contract said, out of what the node tells of it: bytes in hex, or else a text."""
    if isinstance(data, str) and data.startswith("0x"):
        try:
            return reverted(bytes.fromhex(data[2:]))
        except ValueError:
            pass
    words = f"a contract refused: {text}" if text else "a contract refused, and gives no reason"
    return Reverted("UnknownError", (text,) if text else (), words=words, fix=NO_REASON)


@cache
def _errors() -> dict[bytes, tuple[str, list[str], list[str], str]]:
    """Names, the arguments' names and types, and fixes by selector."""
    errors: dict[bytes, tuple[str, list[str], list[str], str]] = {}
    for contract in NAMES:
        for entry in abi(contract):
            if entry["type"] == "error":
                error: ABIError = entry
                fix = FIXES.get(error["name"], MOVE if contract in _PLAYED else UNUSUAL)
                names = [one["name"] for one in error["inputs"]]
                selector = function_signature_to_4byte_selector(abi_to_signature(error))
                errors.setdefault(selector, (error["name"], names, get_abi_input_types(error), fix))
    return errors


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return tuple(map(_readable, value)) if isinstance(value, (list, tuple)) else value
