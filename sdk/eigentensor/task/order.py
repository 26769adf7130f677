"""What a client signs. The hash of an order under its market's EIP-712 domain is the task's uuid."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from eigentensor import economics
from eigentensor.errors import TaskError
from eigentensor.keccak import keccak
from eigentensor.task import typed
from eigentensor.task.signatures import Signer as Signer
from eigentensor.task.signatures import recover as recover  # which are asked for here
from eigentensor.wire import Address, Block, Count, Hash, Object, Wei, read

#: The root that stands for "none" (inputs, weights, states) and "all" (operators).
NONE = bytes(32)


@dataclass(frozen=True, slots=True)
class Domain:
    """Where a signature counts: one market on one chain."""

    chain_id: int
    market: str

    def message_of(self, type_hash: bytes, types: list[str], values: list[Any]) -> bytes:
        """The EIP-712 message of a struct of static fields in this domain: what is hashed and signed."""
        words = map(typed.word, types, values)
        return self.message(keccak(type_hash + b"".join(words)))

    def message(self, struct_hash: bytes) -> bytes:
        """The same out of the struct's own hash."""
        return typed.signed_bytes(self.chain_id, self.market, struct_hash)

    def hash_of(self, struct_hash: bytes) -> bytes:
        """The hash of that message."""
        return keccak(self.message(struct_hash))


@dataclass(frozen=True, slots=True)
class Order(Object):
    """What a client signed (EIP-712): its hash is the task's uuid. A root of zeros is a part that there is none of."""

    client: Annotated[Address, "address"]
    """Who pays."""
    nonce: Annotated[Count, "uint256"]
    """Makes two orders for the same two tasks: a decimal string."""
    semantics: Annotated[int, "uint16"]
    """The version of the numerical semantics that the program is of."""
    program: Annotated[Hash, "bytes32"]
    """The program root."""
    inputs: Annotated[Hash, "bytes32"]
    """The bindings root of the inputs."""
    weights: Annotated[Hash, "bytes32"]
    """The bindings root of the weights."""
    states: Annotated[Hash, "bytes32"]
    """The bindings root of the states."""
    variables: Annotated[Hash, "bytes32"]
    """The root of the bound variables."""
    repeat: Annotated[int, "uint32"]
    """How many times the program is executed, each time with the states of the time before."""
    min_price: Annotated[Wei, "uint256"]
    """Wei offered at `ramp_start`."""
    max_price: Annotated[Wei, "uint256"]
    """Wei offered `ramp_length` blocks later."""
    ramp_start: Annotated[Block, "uint64"]
    """The block from which the price rises."""
    ramp_length: Annotated[int, "uint64"]
    """Blocks for which the price rises."""
    check_fee: Annotated[Wei, "uint256"]
    """Wei for each verifier, paid only if the task is drawn."""
    check_rate: Annotated[int, "uint64"]
    """How probably the task is drawn for a check, in WAD: 10¹⁸ is certain. Wider than a double's 53 bits."""
    verifiers: Annotated[int, "uint8"]
    """How many others re-execute a task that is drawn."""
    value_at_risk: Annotated[Wei, "uint256"]
    """Wei that a wrong result could gain its executor beyond the price."""
    exec: Annotated[int, "uint32"]
    """Blocks that the executor has for its commit."""
    accept_by: Annotated[Block, "uint64"]
    """The last block in which it can be accepted."""
    operators: Annotated[Hash, "bytes32"]
    """The root of the operators that may accept it; zeros: all."""

    def __post_init__(self) -> None:
        """Raises ValueError for values that do not fit their Solidity type."""
        typed.fit(self, "an order")

    def __repr__(self) -> str:
        paid = f"at most {self.max_price} wei until block {self.accept_by}"
        return f"<Order of {self.client[:8]}…{self.client[-4:]} for program {self.program.hex()[:10]}: {paid}>"

    @property
    def escrow(self) -> int:
        """What the client pays in, and pays at most, in wei."""
        return economics.escrow(self.max_price, self.verifiers, self.check_fee)

    def as_tuple(self) -> tuple[Any, ...]:
        """The fields in the order of the Solidity struct."""
        return tuple(getattr(self, name) for name in typed.kinds(type(self)))

    @classmethod
    def from_tuple(cls, values: tuple[Any, ...]) -> Self:
        """The inverse of `as_tuple`."""
        return cls(**dict(zip(typed.kinds(cls), values, strict=True)))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads an order's members. Raises TaskError for anything else."""
        try:
            if set(values) != set(typed.kinds(cls)):
                unknown = sorted(set(values) ^ set(typed.kinds(cls)))
                raise ValueError(f"fields missing or unknown: {', '.join(unknown)}")
            return cls(**read(cls, values))
        except (TypeError, ValueError) as error:
            raise TaskError(f"the order is malformed: {error}") from None


_WORD = 32  # bytes


def order_uuid(order: Order, domain: Domain) -> bytes:
    """The task's uuid: 32 bytes, equal to `TaskMarket.taskOf(order)`."""
    return domain.hash_of(typed.struct_hash(order))


def sign_order(order: Order, domain: Domain, account: Signer) -> bytes:
    """The client's signature, 65 bytes: with it anybody may post the order, once, until `accept_by`."""
    return account.sign(domain.message(typed.struct_hash(order)))


def order_signer(order: Order, domain: Domain, signature: bytes) -> str | None:
    """The address whose key signed the order; None if the signature is malformed."""
    return recover(order_uuid(order, domain), signature)


def commitment(domain: Domain, task: bytes, operator: str, slot: int, outputs_root: bytes, salt: bytes) -> bytes:
    """What hides a result until its reveal. Slot 0 is the executor's."""
    market, account = (bytes.fromhex(address[2:]) for address in (domain.market, operator))
    chain_id, number = (value.to_bytes(_WORD, "big") for value in (domain.chain_id, slot))
    words = (chain_id, market, task, account, number, outputs_root, salt)
    return keccak(b"".join(word.rjust(_WORD, b"\0") for word in words))
