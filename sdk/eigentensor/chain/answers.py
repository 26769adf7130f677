"""What a node may answer: bounded in bytes and time, of the shape that its method gives. Anything else is nonsense."""

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import requests
from eth_typing import URI
from urllib3.exceptions import HTTPError, ReadTimeoutError
from web3 import HTTPProvider
from web3.types import RPCEndpoint, RPCError, RPCResponse

from eigentensor.errors import ChainError

#: Bytes of an answer: the logs of many blocks fit.
MOST = 64 << 20
_PIECE = 1 << 16
_SLOW = 3  # times the time-out is an answer's whole time
_QUANTITY, _DATA, _WORD = (
    re.compile(rf"0x{form}") for form in ("[0-9a-fA-F]{1,64}", "(?:[0-9a-fA-F]{2})*", "[0-9a-fA-F]{64}")
)
_SHOWN = 80  # characters

Shape = Callable[[Any], bool]


def _text(form: re.Pattern[str]) -> Shape:
    return lambda value: isinstance(value, str) and form.fullmatch(value) is not None


def _many(item: Shape) -> Shape:
    return lambda value: isinstance(value, list) and all(map(item, value))


def _members(**members: Shape) -> Shape:
    return lambda value: (
        isinstance(value, dict) and all(name in value and fits(value[name]) for name, fits in members.items())
    )


def _perhaps(shape: Shape) -> Shape:
    return lambda value: value is None or shape(value)


_quantity, _data, _word = map(_text, (_QUANTITY, _DATA, _WORD))
_BLOCK = _perhaps(_members(number=_quantity, timestamp=_quantity, hash=_word, parentHash=_word))
_LOG = _members(
    address=_data, topics=_many(_word), data=_data, blockNumber=_quantity, logIndex=_quantity, blockHash=_word,
    transactionHash=_word,
)  # fmt: skip
_RECEIPT = _members(
    status=_quantity, blockNumber=_quantity, gasUsed=_quantity, blockHash=_word, transactionHash=_word, logs=_many(_LOG)
)
_CALLED = _members(status=_quantity)
_QUANTITIES = (
    "eth_chainId", "eth_blockNumber", "eth_gasPrice", "eth_maxPriorityFeePerGas", "eth_getBalance",
    "eth_getTransactionCount", "eth_estimateGas",
)  # fmt: skip
_SHAPES: Mapping[str, Shape] = {
    **dict.fromkeys(_QUANTITIES, _quantity),
    "eth_call": _data,
    "eth_getCode": _data,
    "eth_sendRawTransaction": _word,
    "eth_getBlockByNumber": _BLOCK,
    "eth_getBlockByHash": _BLOCK,
    "eth_getTransactionByHash": _perhaps(_members(hash=_word)),
    "eth_getTransactionReceipt": _perhaps(_RECEIPT),
    "eth_getLogs": _many(_LOG),
    "eth_feeHistory": _members(baseFeePerGas=lambda fees: _many(_quantity)(fees) and bool(fees)),
    "eth_simulateV1": _many(_members(calls=_many(_CALLED))),
}


class NodeProvider(HTTPProvider):
    """JSON-RPC over HTTP with a node that may say anything. Raises what requests raise, and ChainError for nonsense."""

    def __init__(self, url: str, timeout: float) -> None:
        """`timeout` in seconds is for each silence; a whole answer has a few times as long."""
        super().__init__(url, request_kwargs={"timeout": timeout}, exception_retry_configuration=None)
        self._url, self._timeout = url, timeout

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Asks the node, once more where a kept connection has ended."""
        asked = self.encode_rpc_request(method, params)
        try:
            response = self._exchange(asked)
        except requests.exceptions.ConnectionError:  # a connection that was kept, and has ended meanwhile
            response = self._exchange(asked)
        return read(method, response)

    def _exchange(self, asked: bytes) -> bytes:
        session = self._request_session_manager.cache_and_return_session(URI(self._url))
        until = time.monotonic() + _SLOW * self._timeout
        response = bytearray()
        with session.post(self._url, data=asked, stream=True, **self.get_request_kwargs()) as answer:
            answer.raise_for_status()
            while piece := _piece(answer):
                response += piece
                if len(response) > MOST:
                    raise ChainError(f"the node's answer has more than {MOST >> 20} MiB", fix=_FIX)
                if time.monotonic() > until:
                    raise requests.exceptions.ReadTimeout(f"no whole answer in {_SLOW * self._timeout:.0f} s")
        return bytes(response)


_FIX = "Check the rpc_url in the network file: it is to name a node's JSON-RPC, and no other service."


def _piece(answer: requests.Response) -> bytes:
    """What has come by now of an answer, without waiting for more; empty at its end."""
    try:
        piece: bytes = answer.raw.read1(_PIECE, decode_content=True)
    except ReadTimeoutError as error:
        raise requests.exceptions.ReadTimeout(str(error)) from error
    except HTTPError as error:
        raise requests.exceptions.ConnectionError(str(error)) from error
    return piece


def nonsense(response: object) -> ChainError:
    """The error for what is no answer, with the beginning of it."""
    shown = " ".join(str(response).split())
    short = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return ChainError(f"the node's answer makes no sense: {short or 'it is empty'}", fix=_FIX)


def read(method: str, response: bytes) -> RPCResponse:
    """An answer to a method: its result has the method's shape, its error a number and a message. Raises ChainError."""
    try:
        answer = json.loads(response)
    except (ValueError, RecursionError):
        raise nonsense(response[: 4 * _SHOWN].decode(errors="replace")) from None
    error = answer.get("error") if isinstance(answer, dict) else None
    if error is not None:
        if isinstance(error, dict) and isinstance(error.get("message"), str) and type(error.get("code")) is int:
            return {"jsonrpc": "2.0", "id": 0, "error": cast("RPCError", error)}
        raise nonsense(error)
    if not isinstance(answer, dict) or "result" not in answer:
        raise nonsense(answer)
    shape = _SHAPES.get(method)
    if shape is not None and not shape(answer["result"]):
        raise nonsense(f"{method} gave {json.dumps(answer['result'])[: 4 * _SHOWN]}")
    return {"jsonrpc": "2.0", "id": 0, "result": answer["result"]}
