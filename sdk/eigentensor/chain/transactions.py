"""Signed transactions: the messages of accounts, in bytes that prove who signed them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eigentensor import rlp
from eigentensor.addresses import to_checksum_address
from eigentensor.errors import ChainError
from eigentensor.keccak import keccak
from eigentensor.task.signatures import Signer, recover

#: Bytes of a transaction that public pools take (128 KiB), and some for what carries it.
MOST = 160 << 10

# Fields in the order in which they are hashed, by type: of 4 EIP-7702, of 2 EIP-1559, of 1 EIP-2930, of 0 EIP-155.
_FIELDS = {
    4: (
        "chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value", "input", "accessList",
        "authorizationList",
    ),
    2: ("chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value", "input", "accessList"),
    1: ("chainId", "nonce", "gasPrice", "gas", "to", "value", "input", "accessList"),
    0: ("nonce", "gasPrice", "gas", "to", "value", "input"),
}  # fmt: skip
_LISTS = ("accessList", "authorizationList")
_NO_NUMBERS = (*_LISTS, "to", "input")
_FEES = 2
_LEGACY = 0xC0  # the first byte of a transaction without a type is that of an RLP list
_EIP155 = 35
_UPDATE = "This chain has transactions that this version does not know: update it."


@dataclass(frozen=True, slots=True)
class Transaction:
    """A signed transaction. `to` is None where it makes a contract; `chain_id` is None where it counts on any chain."""

    hash: bytes
    sender: str
    to: str | None
    data: bytes
    chain_id: int | None


def raw_of(transaction: Mapping[str, Any]) -> bytes:
    """The bytes of a transaction as a node describes it. Raises ChainError for a type that is not known here."""
    kind = transaction.get("type", 0)
    if kind not in _FIELDS:
        raise ChainError(f"transaction 0x{bytes(transaction['hash']).hex()} is of type {kind}", fix=_UPDATE)
    fields = [_item(transaction[name]) for name in _FIELDS[kind]]
    fields += [_number(int(transaction["yParity" if kind else "v"]))]
    fields += [_number(_integer(transaction[name])) for name in ("r", "s")]
    raw = (bytes((kind,)) if kind else b"") + rlp.encode(fields)
    if keccak(raw) != bytes(transaction["hash"]):
        raise ChainError(f"transaction 0x{bytes(transaction['hash']).hex()} does not hash to its name", fix=_UPDATE)
    return raw


def signed(fields: Mapping[str, Any], account: Signer) -> bytes:
    """The bytes of a transaction by EIP-1559, signed: its fields are named as nodes name them, numbers and bytes.
    Raises NotSigned."""
    items = [_item(fields[name]) for name in _FIELDS[_FEES]]
    signature = account.sign(bytes((_FEES,)) + rlp.encode(items))
    r, s, parity = signature[:32], signature[32:64], signature[64] - 27
    return bytes((_FEES,)) + rlp.encode([*items, _number(parity), r.lstrip(b"\0"), s.lstrip(b"\0")])


def fields_of(raw: bytes) -> dict[str, Any]:
    """The inverse of `signed` for bytes that it wrote, without the signature."""
    items: Any = rlp.decode(raw[1:])
    fields = dict(zip(_FIELDS[_FEES], items, strict=False))
    return {n: item if n in _NO_NUMBERS else int.from_bytes(item, "big") for n, item in fields.items()}


def read_transaction(raw: bytes) -> Transaction:
    """The transaction in signed bytes, with who signed it. Raises ChainError unless it is one of a known type."""
    try:
        return _read(raw)
    except ValueError as error:
        raise ChainError(f"these bytes are no signed transaction: {error}") from None


def _read(raw: bytes) -> Transaction:
    if not 0 < len(raw) <= MOST:
        raise ValueError(f"{len(raw)} bytes")
    kind = 0 if raw[0] >= _LEGACY else raw[0]
    if kind not in _FIELDS or (kind == 0 and raw[0] < _LEGACY):
        raise ValueError(f"type {raw[0]}")
    fields: Any = rlp.decode(raw[1:] if kind else raw)
    names = _FIELDS[kind]
    if not isinstance(fields, list) or len(fields) != len(names) + 3:
        raise ValueError("wrong number of fields")
    values = dict(zip(names, fields, strict=False))
    *signed, parity, r, s = fields
    if not all(isinstance(field, bytes) for field in (parity, r, s, *(values[n] for n in names if n not in _LISTS))):
        raise ValueError("a field is no string of bytes")
    numbers = (parity, r, s, *(values[name] for name in names if name not in _NO_NUMBERS))
    if any(number.startswith(b"\0") for number in numbers):
        raise ValueError("a number begins with zeros")  # or one signature would make transactions of many hashes
    v = int.from_bytes(parity, "big")
    chain_id: int | None = int.from_bytes(values.get("chainId", b""), "big")
    if kind == 0:
        chain_id, v = ((v - _EIP155) // 2, (v - _EIP155) % 2) if v >= _EIP155 else (None, v - 27)
        signed += [] if chain_id is None else [_number(chain_id), b"", b""]
    prefix = bytes((kind,)) if kind else b""
    sender = None
    if len(r) <= 32 and len(s) <= 32 and v in (0, 1):
        sender = recover(
            keccak(prefix + rlp.encode(signed)), r.rjust(32, b"\0") + s.rjust(32, b"\0") + bytes((27 + v,))
        )
    if sender is None or len(values["to"]) not in (0, 20):
        raise ValueError("its signature or its receiver is malformed")
    to = to_checksum_address(values["to"]) if values["to"] else None
    return Transaction(keccak(raw), sender, to, values["input"], chain_id)


def _item(value: Any) -> Any:
    """A field as RLP takes it."""
    if value is None:
        return b""
    if isinstance(value, int):
        return _number(value)
    if isinstance(value, str):
        return bytes.fromhex(value.removeprefix("0x"))
    if isinstance(value, Mapping):
        if "storageKeys" in value:
            return [_item(value["address"]), _item(value["storageKeys"])]
        numbers = [_number(_integer(value[name])) for name in ("yParity", "r", "s")]
        return [
            _number(_integer(value["chainId"])),
            _item(value["address"]),
            _number(_integer(value["nonce"])),
            *numbers,
        ]
    return bytes(value) if isinstance(value, bytes) else [_item(item) for item in value]


def _integer(value: Any) -> int:
    if isinstance(value, bytes):
        return int.from_bytes(value, "big")
    return int(value, 16) if isinstance(value, str) else int(value)


def _number(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")
