"""What a client signs. The hash of an order under its market's EIP-712 domain is the task's uuid."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from eth_abi.abi import encode
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_hash.backends.pysha3 import keccak256 as keccak  # half as long as eth_hash.auto's choice
from eth_keys.exceptions import BadSignature
from eth_typing import Hash32
from eth_utils.address import is_address, to_checksum_address

from eigentensor import economics
from eigentensor.errors import TaskError

#: The root that stands for "none" (inputs, weights, states) and "all" (operators).
NONE = bytes(32)

#: The largest s of a signature that chains and contracts take (EIP-2).
_HALF = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141 // 2
_DOMAIN_TYPE = keccak(b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")


@dataclass(frozen=True, slots=True)
class Domain:
    """Where a signature counts: one market on one chain."""

    chain_id: int
    market: str

    def hash_struct(self, type_hash: bytes, types: list[str], values: list[Any]) -> bytes:
        """The EIP-712 hash of a struct of static fields in this domain."""
        domain = keccak(
            encode(
                ["bytes32", "bytes32", "bytes32", "uint256", "address"],
                [_DOMAIN_TYPE, keccak(b"EigenTensor"), keccak(b"1"), self.chain_id, self.market],
            )
        )
        return keccak(b"\x19\x01" + domain + keccak(encode(["bytes32", *types], [type_hash, *values])))


@dataclass(frozen=True, slots=True)
class Order:
    """Prices and fees in wei of the market's token, times in blocks, `check_rate` in WAD; ITaskMarket.sol says more.

    Raises ValueError for values that do not fit their Solidity type.
    """

    client: str
    nonce: int
    semantics: int
    program: bytes
    inputs: bytes
    weights: bytes
    states: bytes
    variables: bytes
    repeat: int
    min_price: int
    max_price: int
    ramp_start: int
    ramp_length: int
    check_fee: int
    check_rate: int
    verifiers: int
    value_at_risk: int
    exec: int
    accept_by: int
    operators: bytes

    def __post_init__(self) -> None:
        for name, (_, kind) in _FIELDS.items():
            value = getattr(self, name)
            if kind == "address":
                fits = is_address(value)
            elif kind == "bytes32":
                fits = isinstance(value, bytes) and len(value) == 32
            else:
                fits = type(value) is int and 0 <= value < 1 << int(kind.removeprefix("uint"))
            if not fits:
                raise ValueError(f"{name} of an order must be a {kind}, not {value!r}")
        object.__setattr__(self, "client", to_checksum_address(self.client))

    @property
    def escrow(self) -> int:
        """What the client pays in, and pays at most, in wei."""
        return economics.escrow(self.max_price, self.verifiers, self.check_fee)

    def as_tuple(self) -> tuple[Any, ...]:
        """The fields in the order of the Solidity struct."""
        return tuple(getattr(self, name) for name in _FIELDS)

    @classmethod
    def from_tuple(cls, values: tuple[Any, ...]) -> Self:
        """The inverse of `as_tuple`."""
        return cls(**dict(zip(_FIELDS, values, strict=True)))

    def to_json(self) -> dict[str, Any]:
        """Roots as hex, integers wider than 64 bits as decimal strings."""
        return {name: _to_json(kind, getattr(self, name)) for name, (_, kind) in _FIELDS.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads what `to_json` wrote. Raises TaskError for anything else."""
        try:
            if set(values) != set(_FIELDS):
                raise ValueError(f"fields missing or unknown: {', '.join(sorted(set(values) ^ set(_FIELDS)))}")
            return cls(**{name: _from_json(kind, values[name]) for name, (_, kind) in _FIELDS.items()})
        except (TypeError, ValueError) as error:
            raise TaskError(f"the order is malformed: {error}") from None


_FIELDS = {
    "client": ("client", "address"),
    "nonce": ("nonce", "uint256"),
    "semantics": ("semantics", "uint16"),
    "program": ("program", "bytes32"),
    "inputs": ("inputs", "bytes32"),
    "weights": ("weights", "bytes32"),
    "states": ("states", "bytes32"),
    "variables": ("variables", "bytes32"),
    "repeat": ("repeat", "uint32"),
    "min_price": ("minPrice", "uint256"),
    "max_price": ("maxPrice", "uint256"),
    "ramp_start": ("rampStart", "uint64"),
    "ramp_length": ("rampLength", "uint64"),
    "check_fee": ("checkFee", "uint256"),
    "check_rate": ("checkRate", "uint64"),
    "verifiers": ("verifiers", "uint8"),
    "value_at_risk": ("valueAtRisk", "uint256"),
    "exec": ("exec", "uint32"),
    "accept_by": ("acceptBy", "uint64"),
    "operators": ("operators", "bytes32"),
}
assert list(_FIELDS) == [field.name for field in fields(Order)]
_TYPES = [kind for _, kind in _FIELDS.values()]
_ORDER_TYPE = keccak(f"Order({','.join(f'{kind} {name}' for name, kind in _FIELDS.values())})".encode())
_WORD = 32  # bytes
_WIDE = 64


def order_uuid(order: Order, domain: Domain) -> bytes:
    """The task's uuid: 32 bytes, equal to `TaskMarket.taskOf(order)`."""
    return domain.hash_struct(_ORDER_TYPE, _TYPES, list(order.as_tuple()))


def sign_order(order: Order, domain: Domain, account: LocalAccount) -> bytes:
    """The client's signature, 65 bytes: with it anybody may post the order, once, until `accept_by`."""
    return sign(order_uuid(order, domain), account)


def order_signer(order: Order, domain: Domain, signature: bytes) -> str | None:
    """The address whose key signed the order; None if the signature is malformed."""
    return recover(order_uuid(order, domain), signature)


def commitment(domain: Domain, task: bytes, operator: str, slot: int, outputs_root: bytes, salt: bytes) -> bytes:
    """What hides a result until its reveal. Slot 0 is the executor's."""
    market, account = (bytes.fromhex(address[2:]) for address in (domain.market, operator))
    chain_id, number = (value.to_bytes(_WORD, "big") for value in (domain.chain_id, slot))
    words = (chain_id, market, task, account, number, outputs_root, salt)
    return keccak(b"".join(word.rjust(_WORD, b"\0") for word in words))


def sign(digest: bytes, account: LocalAccount) -> bytes:
    """The account's signature of a hash, 65 bytes."""
    return bytes(account.unsafe_sign_hash(Hash32(digest)).signature)


def recover(digest: bytes, signature: bytes) -> str | None:
    """The signer of a hash; None if the signature is malformed, or the second one that anybody can make of another."""
    if len(signature) != 65 or signature[64] not in (27, 28) or int.from_bytes(signature[32:64], "big") > _HALF:
        return None
    try:
        return str(Account._recover_hash(digest, signature=signature))
    except (ValueError, BadSignature):
        return None


def _to_json(kind: str, value: Any) -> Any:
    if kind == "bytes32":
        return "0x" + value.hex()
    return str(value) if kind.startswith("uint") and int(kind[4:]) > _WIDE else value


def _from_json(kind: str, value: Any) -> Any:
    if kind == "address":
        return str(value)
    if kind == "bytes32":
        return bytes.fromhex(str(value).removeprefix("0x"))
    if isinstance(value, str) and not (value.isascii() and value.isdigit() and len(value) <= 78):
        raise ValueError(f"{value!r} is not a decimal number")
    return int(value) if isinstance(value, str) else value
