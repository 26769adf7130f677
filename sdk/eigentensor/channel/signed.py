"""What is signed about channels, by EIP-712 in the domain of `IChannels`; Signed.sol by the same names.

Whoever signs is a `Signer`: `signer.sign(message_of(domain, voucher))`. Whoever checks asks `is_signed_by`.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from eigentensor.channel.deals import CallReceipt, Deal, Offer, Voucher
from eigentensor.keccak import keccak
from eigentensor.task import typed
from eigentensor.task.order import Domain, Order, order_uuid

_INDEX = 64  # bits of an order's nonce that say which call it is


def pool_of(domain: Domain, offer: Offer) -> bytes:
    """The name of an offer's pool."""
    return domain.hash_of(typed.struct_hash(offer))


def channel_of(domain: Domain, deal: Deal) -> bytes:
    """The name of a deal's channel: the hash of what the offer's signer signs."""
    return domain.hash_of(typed.struct_hash(deal))


def message_of(domain: Domain, struct: Deal | Voucher | CallReceipt) -> bytes:
    """What the payer signs of a voucher, the offer's signer of a deal and of a call receipt."""
    return domain.message(typed.struct_hash(struct))


def hash_of(domain: Domain, struct: Voucher | CallReceipt) -> bytes:
    """The hash of that message, which signatures are checked by."""
    return keccak(message_of(domain, struct))


def task_of(domain: Domain, order: Order) -> bytes:
    """The name of a call's order as a task."""
    return order_uuid(order, domain)


def batch_of(pool: bytes, number: int) -> bytes:
    """The name of a pool's batch."""
    return keccak(pool + number.to_bytes(32, "big"))


def nonce_of(index: int, salt: int) -> int:
    """The nonce of the order of a channel's call: its index, and 192 random bits, which hide what it asks for."""
    return salt << _INDEX | index


def index_of(order: Order) -> int:
    """Which call of its channel an order is for."""
    return order.nonce & (1 << _INDEX) - 1


def order_hashes(domain: Domain, order: Order) -> Callable[[int, bytes, bytes, bytes], bytes]:
    """`task_of` for orders that differ from one in nonce, inputs, states and variables alone, which are its arguments.

    All else is packed once: what remains of an order's hash is two keccaks.
    """
    kinds = typed.kinds(Order)
    words = [typed.word(kind, getattr(order, name)) for name, kind in kinds.items()]
    at = {name: place for place, name in enumerate(kinds)}
    nonce, inputs, states, variables = (at[name] for name in ("nonce", "inputs", "states", "variables"))
    head = typed.type_hash(Order) + b"".join(words[:nonce])
    program, weights = b"".join(words[nonce + 1 : inputs]), b"".join(words[inputs + 1 : states])
    between, rest = b"".join(words[states + 1 : variables]), b"".join(words[variables + 1 :])

    def hash_(nonce: int, inputs: bytes, states: bytes, variables: bytes) -> bytes:
        parts = (head, nonce.to_bytes(32, "big"), program, inputs, weights, states, between, variables, rest)
        return domain.hash_of(keccak(b"".join(parts)))

    return hash_


def as_tuple(struct: Any) -> tuple[Any, ...]:
    """The fields of a struct in Solidity's order, structs in it likewise: as contracts take it."""
    return tuple(_plain(getattr(struct, field.name)) for field in fields(struct))


def _plain(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return as_tuple(value)
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value
