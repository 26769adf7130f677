"""What the gateway is sent, as its OpenAPI document has it; who reads it checks it (`Decline`, `Order`, `Pieces`)."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from eigentensor.economics.pricing import Ask
from eigentensor.task import Order
from eigentensor.texts import Address, Name
from eigentensor.web.documents import REF, examples

_SIGNATURE = "65 bytes (r, s, v) as hex"
_ORDER: dict[str, Any] = examples("eigentensor.schemas")["Order"]
_ASK: dict[str, Any] = examples("eigentensor.schemas")["Ask"]


class Declining(BaseModel):
    """Why an operator does not take a task, signed (EIP-712 `Decline`) by its hot signer."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "operator": "0x" + "a" * 40,
                    "task": "3f" * 32,
                    "reason": "price",
                    "needed": "60000000000000000 wei",
                    "offered": "10000000000000000 wei",
                    "signature": "0x" + "1b" * 65,
                }
            ]
        }
    )

    operator: Address = Field(description="who says it")
    task: str = Field(pattern="^(0x)?[0-9a-fA-F]{64}$", description="the task's uuid")
    reason: str = Field(min_length=1, max_length=200, description="a word: price, exec, busy, stake, memory, …")
    needed: str = Field(max_length=200, description="what it would need")
    offered: str = Field(max_length=200, description="what it was offered instead")
    signature: str = Field(description=_SIGNATURE)


class SignedAsk(BaseModel):
    """What an operator reckons with when it makes a price, signed (EIP-712 `Ask`) by its hot signer."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"operator": "0x" + "a" * 40, "block": 2067, "ask": _ASK, "signature": "0x" + "1b" * 65},
            ]
        }
    )

    operator: Address = Field(description="whose it is")
    block: int = Field(ge=0, lt=1 << 64, description="the block as of which it is: a later one counts")
    ask: Ask = Field(description="what it reckons with; signed as JSON, its keys sorted, without spaces")
    signature: str = Field(description=_SIGNATURE)


class SignedOrder(BaseModel):
    """An order, signed (EIP-712 `Order`) by its client."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"order": _ORDER, "signature": "0x" + "1b" * 65}]})

    order: Order = Field(description="what is wanted, and what is offered for it")
    signature: str = Field(description=_SIGNATURE)


class PieceList(BaseModel):
    """A blob that is going to be uploaded: the tree roots of its pieces of 1 MiB, which fold to its own."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"blob": "3f" * 32, "size": 1 << 20, "pieces": ["3f" * 32]}]}
    )

    blob: Name = Field(description="the blob root")
    size: Annotated[int, Field(ge=0, description="how many bytes it has")]
    pieces: list[Name] = Field(description="the root of each piece")


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says of a route with such a body."""
    content = {"application/json": {"schema": {"$ref": REF.format(model=model.__name__)}}}
    return {"requestBody": {"required": True, "content": content}}
