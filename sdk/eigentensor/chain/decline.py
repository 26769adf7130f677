"""Declines: why an operator does not take a task, public and signed, so that a client need not guess."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from eigentensor.addresses import is_address, to_checksum_address
from eigentensor.errors import TaskError
from eigentensor.keccak import keccak
from eigentensor.task.order import Domain, Signer, recover

_DECLINE_TYPE = keccak(b"Decline(address operator,bytes32 task,string reason,string needed,string offered)")
_TEXT_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Decline:
    """`reason` is a word of the operator's policy; `needed` and `offered` are what it compared."""

    operator: str
    task: bytes
    reason: str
    needed: str
    offered: str

    def message(self, domain: Domain) -> bytes:
        """The EIP-712 message that the operator's signer signs."""
        texts = [keccak(text.encode()) for text in (self.reason, self.needed, self.offered)]
        types = ["address", "bytes32", "bytes32", "bytes32", "bytes32"]
        return domain.message_of(_DECLINE_TYPE, types, [self.operator, self.task, *texts])

    def sign(self, domain: Domain, account: Signer) -> dict[str, Any]:
        """What the gateway takes at /v1/tasks/{uuid}/declines; `account` is the operator's hot signer."""
        return {
            "operator": self.operator,
            "task": "0x" + self.task.hex(),
            "reason": self.reason,
            "needed": self.needed,
            "offered": self.offered,
            "signature": "0x" + account.sign(self.message(domain)).hex(),
        }

    @classmethod
    def read(cls, values: Mapping[str, Any], domain: Domain) -> tuple[Self, str]:
        """A decline and the address that signed it. Raises TaskError if it is malformed."""
        try:
            texts = [values[name] for name in ("reason", "needed", "offered")]
            task = bytes.fromhex(values["task"].removeprefix("0x"))
            signature = bytes.fromhex(values["signature"].removeprefix("0x"))
            if not all(isinstance(text, str) and len(text) <= _TEXT_LIMIT and text.isprintable() for text in texts):
                raise ValueError(f"texts are printable and have at most {_TEXT_LIMIT} characters")
            if len(task) != 32 or not is_address(values["operator"]) or not texts[0]:
                raise ValueError("operator, task or reason is wrong")
            decline = cls(to_checksum_address(values["operator"]), task, *texts)
            signer = recover(keccak(decline.message(domain)), signature)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise TaskError(f"the decline is malformed: {error}") from None
        if signer is None:
            raise TaskError("the decline is malformed: the signature is not one")
        return decline, signer
