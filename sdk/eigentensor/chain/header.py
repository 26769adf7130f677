"""Block headers as the chain hashes them: what shows the market a block's randomness."""

from collections.abc import Mapping
from typing import Any

import rlp
from eth_utils.crypto import keccak

from eigentensor.errors import ChainError

# In the order of the forks that added them: a chain has a prefix.
_FIELDS = (
    "parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom", "difficulty",
    "number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce",
    "baseFeePerGas", "withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot", "requestsHash",
)  # fmt: skip


def encode_header(block: Mapping[str, Any]) -> bytes:
    """The RLP of a block as a node describes it; hashes to the block's hash.

    Raises ChainError if it does not: the chain's headers have fields that this version does not know.
    """
    header: bytes = rlp.encode([_item(block[name]) for name in _FIELDS if name in block])
    if keccak(header) != bytes(block["hash"]):
        raise ChainError(
            f"the header of block {block['number']} does not hash to the block's hash",
            fix="This chain's headers are of a fork that this version does not know: update it.",
        )
    return header


def _item(value: Any) -> bytes:
    if isinstance(value, int):
        return value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes.fromhex(value.removeprefix("0x")) if isinstance(value, str) else bytes(value)
