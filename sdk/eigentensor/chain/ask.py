"""Asks: what an operator reckons with when it makes a price, public and signed, so that a client need not guess."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from eigentensor.addresses import is_address, to_checksum_address
from eigentensor.economics.pricing import Ask
from eigentensor.errors import TaskError
from eigentensor.keccak import keccak
from eigentensor.task.order import Domain, Signer, recover

_ASK_TYPE = keccak(b"Ask(address operator,uint64 block,string ask)")


@dataclass(frozen=True, slots=True)
class PublishedAsk:
    """What an operator reckons with as of a block. The ask is signed as JSON: keys sorted, no spaces."""

    operator: str
    block: int
    ask: Ask

    def message(self, domain: Domain) -> bytes:
        """The EIP-712 message that the operator's signer signs."""
        text = json.dumps(self.ask.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        values = [self.operator, self.block, keccak(text.encode())]
        return domain.message_of(_ASK_TYPE, ["address", "uint64", "bytes32"], values)

    def sign(self, domain: Domain, account: Signer) -> dict[str, Any]:
        """What the gateway takes at /v1/operators/{operator}/asks; `account` is the operator's hot signer."""
        signature = "0x" + account.sign(self.message(domain)).hex()
        return {"operator": self.operator, "block": self.block, "ask": self.ask.to_json(), "signature": signature}

    @classmethod
    def read(cls, values: Mapping[str, Any], domain: Domain) -> tuple[Self, str]:
        """An ask and the address that signed it. Raises TaskError if it is malformed."""
        try:
            operator, block = values["operator"], values["block"]
            signature = bytes.fromhex(values["signature"].removeprefix("0x"))
            if not is_address(operator) or type(block) is not int or not 0 <= block < 1 << 64:
                raise ValueError("operator or block is wrong")
            published = cls(to_checksum_address(operator), block, Ask.from_json(values["ask"]))
            signer = recover(keccak(published.message(domain)), signature)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise TaskError(f"the ask is malformed: {error}") from None
        if signer is None:
            raise TaskError("the ask is malformed: the signature is not one")
        return published, signer
