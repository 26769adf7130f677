"""The contracts as Python sees them: their committed ABIs, their functions as bytes, and what their refusals mean."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import requests
from eth_abi.abi import decode
from eth_abi.codec import ABICodec
from eth_abi.decoding import AddressDecoder
from eth_abi.encoding import AddressEncoder
from eth_abi.exceptions import DecodingError
from eth_abi.registry import registry
from eth_typing import ABI, ABIError, ABIFunction
from eth_utils.abi import (
    abi_to_signature,
    function_abi_to_4byte_selector,
    function_signature_to_4byte_selector,
    get_abi_input_types,
    get_abi_output_types,
)
from eth_utils.address import to_checksum_address
from web3 import Web3
from web3.exceptions import BadFunctionCallOutput, ContractLogicError, Web3RPCError

from eigentensor.chain.answers import nonsense
from eigentensor.chain.fixes import FIXES, MOVE, NO_REASON, TOPICS, UNKNOWN, UNUSUAL
from eigentensor.chain.words import words_of
from eigentensor.errors import ChainError, EigenTensorError, Reverted, Unreachable
from eigentensor.talk import waiting_for

NAMES = (
    "TaskMarket",
    "Channels",
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
    except (DecodingError, UnicodeDecodeError):
        pass
    if not data:
        return Reverted("UnknownError", words="a contract refused, and gives no reason", fix=NO_REASON)
    shown = "0x" + data[:_SHOWN].hex() + ("…" if len(data) > _SHOWN else "")
    words = f"a contract refused for a reason that is not known here, {shown}"
    return Reverted("UnknownError", ("0x" + data.hex(),), words=words, fix=UNKNOWN)


class _Checksummed(AddressDecoder):
    decoder_fn = staticmethod(to_checksum_address)


def _reading() -> ABICodec:
    types = registry.copy()  # type: ignore[no-untyped-call]
    types.unregister("address")
    types.register("address", AddressEncoder, _Checksummed, label="address")
    return ABICodec(types)


_WRITES, _READS = Web3().codec, _reading()


@dataclass(frozen=True, slots=True)
class Function:
    """A contract's function as bytes, there and back: as web3 has them, which looks through the whole ABI each time.

    Its selector, and the types of its arguments and of what it returns, as the ABI spells them.
    """

    selector: bytes
    inputs: Sequence[str]
    outputs: Sequence[str]

    def data(self, arguments: Sequence[Any]) -> bytes:
        """The calldata of a call. Raises EncodingError for arguments of other types."""
        return self.selector + _WRITES.encode(self.inputs, arguments)

    def values(self, answer: bytes) -> Any:
        """The values returned: one value, or a tuple of several. Raises BadFunctionCallOutput."""
        try:
            values = _READS.decode(self.outputs, answer)
        except DecodingError as error:
            raise BadFunctionCallOutput(f"{len(answer)} bytes are no ({', '.join(self.outputs)})") from error
        return values[0] if len(values) == 1 else values


def function_of(abi: ABI, name: str) -> Function:
    """The function of an ABI by its name, or by its signature where several have the name."""
    functions: list[ABIFunction] = [entry for entry in abi if entry["type"] == "function"]
    (one,) = (entry for entry in functions if name in (entry["name"], abi_to_signature(entry)))
    return Function(function_abi_to_4byte_selector(one), get_abi_input_types(one), get_abi_output_types(one))


@contextmanager
def talking_to(url: str) -> Iterator[None]:
    """Errors of a conversation with a node: whatever fails in it, and whatever cannot be made of its responses, raises
    Unreachable, Reverted or ChainError."""
    try:
        with waiting_for(f"the chain's node at {url}"):
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
            fix="Is the chain running? The network file names its rpc_url.",
            topic="network",
        ) from error
    except ContractLogicError as error:
        raise _refusal(error.data, error.message or "") from None
    except Web3RPCError as error:
        response = error.rpc_response if isinstance(error.rpc_response, dict) else {}
        detail = response.get("error")
        reason: Mapping[str, Any] = detail if isinstance(detail, dict) else {}
        if isinstance(reason.get("data"), str) and reason["data"].startswith("0x"):
            raise _refusal(reason["data"], "") from None
        raise ChainError(
            f"the node refused: {reason.get('message') or error}",
            fix="Try again, or ask another node.",
        ) from error
    except Exception as error:
        raise nonsense(f"{type(error).__name__}: {error}") from error


def _refusal(data: object, text: str) -> Reverted:
    """The error of a refusal as a node reports it: bytes in hex, or else a text."""
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
