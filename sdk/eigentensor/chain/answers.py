"""What a node may answer: the result of each method has its form, in numbers and bytes. Anything else is nonsense."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from eigentensor.addresses import to_checksum_address
from eigentensor.errors import ChainError

FIX = "Check the rpc_url in the network file: it is to name a node's JSON-RPC, and no other service."
_QUANTITY, _ADDRESS = (re.compile(rf"0x{digits}") for digits in ("[0-9a-fA-F]{1,64}", "[0-9a-fA-F]{40}"))
_WORD = 32  # bytes
_SHOWN = 80  # characters

#: Reads a part of an answer. Raises ValueError for what has another form.
Form = Callable[[Any], Any]


class Question(NamedTuple):
    """A request of JSON-RPC: its number, by which its answer is known, its method and parameters, which are JSON."""

    number: int
    method: str
    parameters: Sequence[Any]

    @property
    def json(self) -> dict[str, Any]:
        """What a node is sent."""
        return {"jsonrpc": "2.0", "id": self.number, "method": self.method, "params": self.parameters}


class Refusal(Exception):
    """A node's error: its number, its words, and what it adds; of what a contract refuses that is bytes in hex."""

    def __init__(self, code: int, words: str, data: object = None) -> None:
        super().__init__(words)
        self.code, self.words, self.data = code, words, data


def _text(digits: re.Pattern[str], value_of: Callable[[str], Any]) -> Form:
    def read(value: Any) -> Any:
        if not isinstance(value, str) or digits.fullmatch(value) is None:
            raise ValueError(value)
        return value_of(value)

    return read


def _data(value: Any) -> bytes:
    if not isinstance(value, str) or value[:2] != "0x":
        raise ValueError(value)
    data = bytes.fromhex(value[2:])
    if 2 * len(data) + 2 != len(value):  # there are spaces, which Python skips
        raise ValueError(value)
    return data


def _word(value: Any) -> bytes:
    data = _data(value)
    if len(data) != _WORD:
        raise ValueError(value)
    return data


def _many(item: Form) -> Form:
    def read(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(value)
        return [item(one) for one in value]

    return read


def _members(forms: Mapping[str, Form], others: Mapping[str, Form] | None = None) -> Form:
    """An object with these members, and perhaps with `others`. What else it has stays as it is."""
    known = {**forms, **(others or {})}

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not forms.keys() <= value.keys():
            raise ValueError(value)
        return {name: known[name](item) if name in known else item for name, item in value.items()}

    return read


def _perhaps(form: Form) -> Form:
    return lambda value: None if value is None else form(value)


def _some(form: Form) -> Form:
    def read(value: Any) -> Any:
        if not value:
            raise ValueError(value)
        return form(value)

    return read


_quantity = _text(_QUANTITY, lambda text: int(text, 16))
_address = _text(_ADDRESS, to_checksum_address)
_HEADER = {
    **dict.fromkeys(
        ("difficulty", "gasLimit", "gasUsed", "baseFeePerGas", "blobGasUsed", "excessBlobGas"), _perhaps(_quantity)
    ),
    **dict.fromkeys(
        (
            "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom", "extraData", "mixHash",
            "nonce", "withdrawalsRoot", "parentBeaconBlockRoot", "requestsHash",
        ),
        _perhaps(_data),
    ),
    "transactions": _many(_word),
}  # fmt: skip
_BLOCK = _perhaps(_members({"number": _quantity, "timestamp": _quantity, "hash": _word, "parentHash": _word}, _HEADER))
_TRANSACTION = _perhaps(
    _members(
        {"hash": _word},
        {
            **dict.fromkeys(
                (
                    "type", "chainId", "nonce", "gasPrice", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "value", "v",
                    "yParity", "r", "s",
                ),
                _perhaps(_quantity),
            ),
            **dict.fromkeys(("to", "input"), _perhaps(_data)),
        },
    )
)  # fmt: skip
_LOG = _members(
    {
        "address": _address, "topics": _many(_word), "data": _data, "blockNumber": _quantity, "logIndex": _quantity,
        "blockHash": _word, "transactionHash": _word,
    }
)  # fmt: skip
_RECEIPT = _members(
    {
        "status": _quantity, "blockNumber": _quantity, "gasUsed": _quantity, "blockHash": _word,
        "transactionHash": _word, "from": _address, "logs": _many(_LOG),
    }
)  # fmt: skip
_QUANTITIES = (
    "eth_chainId", "eth_blockNumber", "eth_gasPrice", "eth_maxPriorityFeePerGas", "eth_getBalance",
    "eth_getTransactionCount", "eth_estimateGas",
)  # fmt: skip
_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(_QUANTITIES, _quantity),
    "eth_call": _data,
    "eth_getCode": _data,
    "eth_sendRawTransaction": _word,
    "eth_getBlockByNumber": _BLOCK,
    "eth_getTransactionByHash": _TRANSACTION,
    "eth_getTransactionReceipt": _perhaps(_RECEIPT),
    "eth_getLogs": _many(_LOG),
    "eth_feeHistory": _members({"baseFeePerGas": _some(_many(_quantity))}),
    "eth_simulateV1": _many(_members({"calls": _many(_members({"status": _quantity}))})),
}


def nonsense(response: object) -> ChainError:
    """The error for what is no answer, with the beginning of it."""
    shown = " ".join(str(response).split())
    short = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return ChainError(f"the node's answer makes no sense: {short or 'it is empty'}", fix=FIX)


def read(question: Question, response: bytes) -> Any:
    """The result in the answer to a question: quantities as numbers, data as bytes, objects with the members that
    JSON-RPC names. Raises Refusal for the node's error, ChainError for nonsense, the answer to another question too."""
    return _result(question, _json(response))


def read_all(questions: Sequence[Question], response: bytes) -> list[Any]:
    """The results in the answer to questions that were asked together, in their order. Raises what `read` raises."""
    answers = _json(response)
    if isinstance(answers, dict):  # all of them are refused at once
        _result(questions[0], {**answers, "id": None})
    if not isinstance(answers, list):
        raise nonsense(answers)
    by_number = {a["id"]: a for a in answers if isinstance(a, dict) and type(a.get("id")) is int}
    return [_result(question, by_number.get(question.number)) for question in questions]


def _json(response: bytes) -> Any:
    try:
        return json.loads(response)
    except (ValueError, RecursionError):
        raise nonsense(response[: 4 * _SHOWN].decode(errors="replace")) from None


def _result(question: Question, answer: Any) -> Any:
    number, method, _ = question
    if not isinstance(answer, dict):
        raise nonsense(answer)
    error, name = answer.get("error"), answer.get("id")
    if (type(name) is not int or name != number) and not (error is not None and name is None):
        raise nonsense(f"an answer to question {name!r} where {number} was asked")
    if error is not None:
        if isinstance(error, dict) and isinstance(error.get("message"), str) and type(error.get("code")) is int:
            if method == "eth_getBlockByNumber" and "not found" in error["message"]:  # instead of null
                return None
            raise Refusal(error["code"], error["message"], error.get("data"))
        raise nonsense(error)
    if "result" not in answer:
        raise nonsense(answer)
    result = answer["result"]
    try:
        return _FORMS[method](result) if method in _FORMS else result
    except ValueError:
        raise nonsense(f"{method} gave {json.dumps(result)[: 4 * _SHOWN]}") from None
