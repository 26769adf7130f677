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
            name, types = known
            return Reverted(name, tuple(_readable(value) for value in decode(types, rest)), fix=FIXES.get(name, ""))
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
def _errors() -> dict[bytes, tuple[str, list[str]]]:
    errors: dict[bytes, tuple[str, list[str]]] = {}
    for name in NAMES:
        for entry in abi(name):
            if entry["type"] == "error":
                error: ABIError = entry
                selector = function_signature_to_4byte_selector(abi_to_signature(error))
                errors[selector] = (error["name"], get_abi_input_types(error))
    return errors


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return tuple(map(_readable, value)) if isinstance(value, (list, tuple)) else value


#: What to do about a refusal, by the name of its error.
FIXES = {
    "AcceptanceOver": "Sign a new order with a later accept_by.",
    "AlreadyAnswered": "One answer of each operator counts.",
    "AlreadyDemanded": "A demand is made once: it names all leaves.",
    "AlreadyPosted": "The order is a task already; another nonce makes another task.",
    "ClockNotOver": "Wait for the other side, until its clock is over.",
    "ClockOver": "The move came too late: the other side may end the game by `timeout`.",
    "CollateralCapExceeded": "Wait for open tasks, or let the operator's owner raise the cap.",
    "ERC20InsufficientAllowance": "Approve the tokens first.",
    "ERC20InsufficientBalance": "The account has too few tokens.",
    "GamesOpen": "Wait for the end of the open games: each side's clock is bounded.",
    "InsufficientBalance": "Deposit what is missing into the market.",
    "InsufficientStake": "Wait for open tasks, or deposit and allocate more stake.",
    "LockNotOver": "The lock ends by itself at the block that the error names.",
    "NoSeed": "Record the seed first: `seed`, from the block after the seed block on.",
    "NotAMember": "Join the operator set first: `eigentensor operator join`.",
    "NotASeedBlock": "Seed blocks are multiples of the market's grid.",
    "NotDrawn": "The task is not checked: it becomes final by itself.",
    "NotEnoughSeats": "More operators must join and enlist seats before tasks are accepted.",
    "NotThePlayer": "Only the player whose move it is, or its registered signer, may send this.",
    "NotTheSigner": "Only the operator's registered signer may send this.",
    "NotYourSeat": "The seat that is drawn for this index is another operator's, or is younger than the commit.",
    "NothingToSettle": "The answer is settled already, or there is none.",
    "OutlivesStake": "Ask for fewer blocks of execution.",
    "SeatsNotCovered": "Deposit and allocate more stake, or ask for fewer seats.",
    "StakeCapExceeded": "Wait for open tasks, or let the operator's owner raise the cap.",
    "TooEarly": "Wait for the block that the error names.",
    "TooLate": "The last block for this is over.",
    "WrongCheckFee": "Offer at least what the error names to each verifier.",
    "WrongCheckRate": "Choose a rate of checks between the market's floor and 1.",
    "WrongHeader": "The node's block is not the chain's: a reorganisation may have come between. Try again.",
    "WrongOpening": "Root or salt are not those of the commitment.",
    "WrongPosition": "Somebody has moved already: read the game again.",
    "WrongVerifiers": "Ask for 1 to 4 verifiers.",
}
