"""One node of one chain, and the contracts of one market on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import rlp
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from web3 import Web3
from web3.contract import Contract
from web3.exceptions import BlockNotFound, TransactionNotFound
from web3.types import BlockIdentifier, RPCEndpoint, TxParams, TxReceipt

from eigentensor.chain.answers import NodeProvider
from eigentensor.chain.contracts import Function, abi, function_of, talking_to
from eigentensor.chain.network import Network
from eigentensor.chain.transactions import raw_of
from eigentensor.errors import ChainError
from eigentensor.pace import Pace

_SET_BALANCE = RPCEndpoint("anvil_setBalance")
_LATE = 64  # blocks that say how fast they come
# In the order of the forks that added them: a chain has a prefix.
_FIELDS = (
    "parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom", "difficulty",
    "number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce",
    "baseFeePerGas", "withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot", "requestsHash",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    """A block, by number and hash."""

    number: int
    hash: bytes


class Node:
    """A node of one chain, by JSON-RPC, with the contracts of one market.

    It reads at the newest block unless one is named. Raises Unreachable without a response, ChainError for one that
    makes no sense, Reverted when a view refuses.
    """

    def __init__(self, network: Network, *, timeout: float = 10) -> None:
        """`timeout` in seconds is for each silence of the node. Asks it nothing yet."""
        self.network = network
        self.deployment = network.deployment
        self.web3 = Web3(NodeProvider(network.rpc_url, timeout))
        # It asks for the chain's number twice before each view. `check` asks once, and what is signed names its chain.
        self.web3.middleware_onion.remove("validation")
        self._functions: dict[tuple[str, str], Function] = {}
        d = self.deployment
        self.market = self._contract("TaskMarket", d.task_market)
        self.disputes = self._contract("DisputeGame", d.dispute_game)
        self.referee = self._contract("Referee", d.referee)
        self.manager = self._contract("ServiceManager", d.service_manager)
        self.bounty = self._contract("Bounty", d.bounty)
        self.allocation_manager = self._contract("AllocationManager", d.allocation_manager)
        self.delegation_manager = self._contract("DelegationManager", d.delegation_manager)
        self.strategy_manager = self._contract("StrategyManager", d.strategy_manager)
        self.strategy = self._contract("Strategy", d.strategy)
        self.token = self._contract("TestToken", d.token)
        self.channels = self._contract("Channels", d.channels)

    def check(self) -> None:
        """Raises ChainError unless the node's chain is the network's and the market is on it."""
        with talking_to(self.network.rpc_url):
            chain_id = self.web3.eth.chain_id
            code = self.web3.eth.get_code(to_checksum_address(self.deployment.task_market))
        if chain_id != self.deployment.chain_id or not code:
            raise ChainError(
                f"the node at {self.network.rpc_url} (chain {chain_id}) does not have the market "
                f"{self.deployment.task_market} of network {self.network.name!r} (chain {self.deployment.chain_id})",
                fix="The local network was started anew, or the network file is of another chain.",
            )

    def head(self, block: BlockIdentifier = "latest") -> Head:
        """A block, by default the newest."""
        with talking_to(self.network.rpc_url):
            values = self.web3.eth.get_block(block)
        return Head(values["number"], bytes(values["hash"]))

    def newest(self) -> tuple[Head, bytes]:
        """The newest block, and the hash of the one before it."""
        with talking_to(self.network.rpc_url):
            block = self.web3.eth.get_block("latest")
        return Head(block["number"], bytes(block["hash"])), bytes(block["parentHash"])

    def genesis(self) -> bytes:
        """The hash of the first block: a local chain that was started anew has another one."""
        return self.head("earliest").hash

    def block_number(self) -> int:
        """The newest block's number."""
        with talking_to(self.network.rpc_url):
            return self.web3.eth.block_number

    def block_seconds(self) -> float:
        """Seconds between blocks of late."""
        with talking_to(self.network.rpc_url):
            newest = self.web3.eth.get_block("latest")
            first = max(self.deployment.block, newest["number"] - _LATE)
            older = self.web3.eth.get_block(first)
        return (newest["timestamp"] - older["timestamp"]) / max(1, newest["number"] - first)

    def time_of(self, block: int) -> int:
        """When a block was made, in seconds since 1970."""
        with talking_to(self.network.rpc_url):
            return self.web3.eth.get_block(block)["timestamp"]

    def pace(self) -> Pace:
        """How long blocks take, as of late."""
        return Pace(self.block_seconds())

    def gas_price(self) -> int:
        """Wei of the chain's own coin that a unit of gas costs now."""
        with talking_to(self.network.rpc_url):
            return self.web3.eth.gas_price

    def header(self, block: int) -> bytes:
        """A block's header as RLP. Raises ChainError if there is no such block, or its fork is not known."""
        with talking_to(self.network.rpc_url):
            return encode_header(self.web3.eth.get_block(block))

    def ether_of(self, account: str) -> int:
        """Wei of the chain's own coin, which pays for gas."""
        with talking_to(self.network.rpc_url):
            return self.web3.eth.get_balance(to_checksum_address(account))

    def give_ether(self, account: str, wei: int) -> None:
        """Sees to it that an account of a local chain has so much of the chain's own coin: anvil makes it. Raises
        ChainError on every other chain."""
        if self.ether_of(account) < wei:
            with talking_to(self.network.rpc_url):
                self.web3.manager.request_blocking(_SET_BALANCE, [to_checksum_address(account), hex(wei)])

    def receipt(self, transaction: bytes) -> TxReceipt | None:
        """The receipt of a transaction that is in the chain; None if it is not."""
        with talking_to(self.network.rpc_url):
            try:
                return self.web3.eth.get_transaction_receipt(Web3.to_hex(transaction))
            except TransactionNotFound:
                return None

    def transaction(self, hash_: bytes) -> bytes:
        """The signed bytes of a transaction that is in the chain. Raises ChainError if there is none, or it is of a
        type that this version does not know."""
        name = Web3.to_hex(hash_)
        with talking_to(self.network.rpc_url):
            return raw_of(self.web3.eth.get_transaction(name))

    def finalized(self) -> int:
        """The newest block that the chain itself calls final; 0 where it calls none so."""
        with talking_to(self.network.rpc_url):
            try:
                return self.web3.eth.get_block("finalized")["number"]
            except BlockNotFound:
                return 0

    def transaction_count(self, account: str, block: BlockIdentifier = "latest") -> int:
        """How many transactions of an account are in the chain up to a block: its next nonce there."""
        with talking_to(self.network.rpc_url):
            return self.web3.eth.get_transaction_count(to_checksum_address(account), block)

    def is_canonical(self, head: Head) -> bool:
        """Whether a block is in the chain as the node has it now."""
        with talking_to(self.network.rpc_url):
            try:
                return bytes(self.web3.eth.get_block(head.number)["hash"]) == head.hash
            except BlockNotFound:
                return False

    def call(self, contract: Contract, function: str, *arguments: Any) -> Any:
        """The value, or the tuple of values, of a contract's view in the newest block. Raises Reverted."""
        key = (contract.address, function)
        if (known := self._functions.get(key)) is None:
            known = self._functions[key] = function_of(contract.abi, function)
        asked: TxParams = {"to": contract.address, "data": Web3.to_hex(known.data(arguments))}
        with talking_to(self.network.rpc_url):
            return known.values(self.web3.eth.call(asked))

    def _contract(self, name: str, address: str) -> Contract:
        return self.web3.eth.contract(to_checksum_address(address), abi=abi(name))


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
