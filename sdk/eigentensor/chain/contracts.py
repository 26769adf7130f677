"""The contracts as Python sees them: their committed ABIs, and what their refusals mean."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import requests
from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_typing import ABI, ABIError
from eth_utils.abi import abi_to_signature, function_signature_to_4byte_selector, get_abi_input_types
from web3.exceptions import ContractLogicError, Web3Exception, Web3RPCError

from eigentensor.chain.fixes import FIXES, MOVE
from eigentensor.errors import ChainError, Reverted, Unreachable

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
            return Reverted("Error", decode(["string"], rest))
        if selector == _PANIC:
            return Reverted("Panic", decode(["uint256"], rest))
        if (known := _errors().get(selector)) is not None:
            name, types, fix = known
            return Reverted(name, tuple(_readable(value) for value in decode(types, rest)), fix=fix)
    except DecodingError:
        pass
    return Reverted("UnknownError", ("0x" + data.hex(),) if data else ())


@contextmanager
def talking_to(url: str) -> Iterator[None]:
    """Turns the ways in which a node fails into Unreachable, Reverted and ChainError."""
    try:
        yield
    except (requests.RequestException, ConnectionError) as error:
        raise Unreachable(
            f"no answer from the node at {url}: {type(error).__name__}",
            fix="Is the chain running (`eigentensor devnet`)? The network file names its rpc_url.",
        ) from error
    except ContractLogicError as error:
        if isinstance(error.data, str) and error.data.startswith("0x"):
            raise reverted(bytes.fromhex(error.data[2:])) from None
        raise Reverted("UnknownError", (str(error.message),)) from None
    except Web3RPCError as error:
        response = error.rpc_response or {}
        detail = response.get("error") if isinstance(response, dict) else None
        if isinstance(detail, dict) and isinstance(detail.get("data"), str) and detail["data"].startswith("0x"):
            raise reverted(bytes.fromhex(detail["data"][2:])) from None
        message = detail.get("message") if isinstance(detail, dict) else None
        raise ChainError(f"the node refused: {message or error}") from error
    except Web3Exception as error:
        raise ChainError(f"the node's answer makes no sense: {error}") from error


@cache
def _errors() -> dict[bytes, tuple[str, list[str], str]]:
    """Names, types of the arguments and fixes by selector."""
    errors: dict[bytes, tuple[str, list[str], str]] = {}
    for contract in NAMES:
        for entry in abi(contract):
            if entry["type"] == "error":
                error: ABIError = entry
                fix = FIXES.get(error["name"], MOVE if contract in _PLAYED else "")
                selector = function_signature_to_4byte_selector(abi_to_signature(error))
                errors.setdefault(selector, (error["name"], get_abi_input_types(error), fix))
    return errors


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return tuple(map(_readable, value)) if isinstance(value, (list, tuple)) else value
