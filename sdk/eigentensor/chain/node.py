"""One node of one chain, and the contracts of one market on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eigentensor import rlp
from eigentensor.addresses import to_checksum_address
from eigentensor.chain.answers import Refusal, nonsense
from eigentensor.chain.contracts import Contract
from eigentensor.chain.network import Network
from eigentensor.chain.refusals import talking_to
from eigentensor.chain.rpc import Rpc
from eigentensor.chain.units import GWEI
from eigentensor.errors import ChainError
from eigentensor.keccak import keccak
from eigentensor.pace import Pace

#: A block's number, or a word for one: `latest`, `pending`, `earliest`, `finalized`.
Block = int | str
_UNKNOWN_METHOD = -32601
_TIP = GWEI  # wei for a unit of gas where a node cannot say which tip is usual
_MOST = 1 << 60  # of transactions of an account, and of wei for a unit of gas: an ether
_STEPS = (1, 2, 4, 8, 16, 32, 63, 0)  # blocks back, within the 128 whose states nodes keep
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
        self.deployment = d = network.deployment
        self.rpc = Rpc(network.rpc_url, timeout)
        self.market = Contract("TaskMarket", d.task_market)
        self.disputes = Contract("DisputeGame", d.dispute_game)
        self.referee = Contract("Referee", d.referee)
        self.manager = Contract("ServiceManager", d.service_manager)
        self.bounty = Contract("Bounty", d.bounty)
        self.allocation_manager = Contract("AllocationManager", d.allocation_manager)
        self.delegation_manager = Contract("DelegationManager", d.delegation_manager)
        self.strategy_manager = Contract("StrategyManager", d.strategy_manager)
        self.strategy = Contract("Strategy", d.strategy)
        self.token = Contract("TestToken", d.token)
        self.channels = Contract("Channels", d.channels)
        self.call_disputes = Contract("DisputeGame", d.channels_game)

    # ---- The chain ----

    def check(self) -> None:
        """Raises ChainError unless the node's chain is the network's and the market is on it."""
        chain_id = self._ask("eth_chainId")
        code = self._ask("eth_getCode", self.deployment.task_market, "latest")
        if chain_id != self.deployment.chain_id or not code:
            raise ChainError(
                f"the node at {self.network.rpc_url} (chain {chain_id}) does not have the market "
                f"{self.deployment.task_market} of network {self.network.name!r} (chain {self.deployment.chain_id})",
                fix="The local network was started anew, or the network file is of another chain.",
            )

    def head(self, block: Block = "latest") -> Head:
        """A block, by default the newest."""
        values = self._block(block)
        return Head(values["number"], values["hash"])

    def newest(self) -> tuple[Head, bytes]:
        """The newest block, and the hash of the one before it."""
        block = self._block("latest")
        return Head(block["number"], block["hash"]), block["parentHash"]

    def genesis(self) -> bytes:
        """The hash of the first block: a local chain that was started anew has another one."""
        return self.head("earliest").hash

    def block_number(self) -> int:
        """The newest block's number."""
        return int(self._ask("eth_blockNumber"))

    def block_seconds(self) -> float:
        """Seconds between blocks of late."""
        newest = self._block("latest")
        first = max(self.deployment.block, newest["number"] - _LATE)
        older = self._block(first)
        seconds, blocks = newest["timestamp"] - older["timestamp"], newest["number"] - first
        return float(seconds / max(1, blocks))

    def time_of(self, block: int) -> int:
        """When a block was made, in seconds since 1970."""
        return int(self._block(block)["timestamp"])

    def pace(self) -> Pace:
        """How long blocks take, as of late."""
        return Pace(self.block_seconds())

    def header(self, block: int) -> bytes:
        """A block's header as RLP. Raises ChainError if there is no such block, or its fork is not known."""
        values = self._block(block)
        with talking_to(self.network.rpc_url):
            return encode_header(values)

    def finalized(self) -> int:
        """The newest block that the chain itself calls final; 0 where it calls none so."""
        block = self._ask("eth_getBlockByNumber", "finalized", False)
        return 0 if block is None else int(block["number"])

    def is_canonical(self, head: Head) -> bool:
        """Whether a block is in the chain as the node has it now."""
        block = self._ask("eth_getBlockByNumber", head.number, False)
        return block is not None and block["hash"] == head.hash

    # ---- Accounts and gas ----

    def ether_of(self, account: str) -> int:
        """Wei of the chain's own coin, which pays for gas."""
        return int(self._ask("eth_getBalance", to_checksum_address(account), "latest"))

    def give_ether(self, account: str, wei: int) -> None:
        """Sees to it that an account of a local chain has so much of the chain's own coin: anvil makes it. Raises
        ChainError on every other chain."""
        if self.ether_of(account) < wei:
            self._ask("anvil_setBalance", to_checksum_address(account), wei)

    def transaction_count(self, account: str, block: Block = "latest") -> int:
        """How many transactions of an account are in the chain up to a block: its next nonce there."""
        return _sane(self._ask("eth_getTransactionCount", to_checksum_address(account), block))

    def block_of_nonce(self, account: str, nonce: int) -> frozenset[bytes]:
        """The transactions of the block in which an account's `nonce` was taken; none if that was so long ago that
        every receipt is there. Raises ChainError where this node cannot say."""
        high = low = self.block_number()
        for step in _STEPS:
            if self.transaction_count(account, low) <= nonce:
                break
            high, low = low, max(0, low - step)
        else:
            return frozenset()
        if high == low:
            raise ChainError(f"the node at {self.network.rpc_url} does not have transaction {nonce} of {account} yet")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.transaction_count(account, middle) > nonce else (middle, high)
        return frozenset(self._block(high).get("transactions", ()))

    def gas_price(self) -> int:
        """Wei of the chain's own coin that a unit of gas costs now."""
        return _sane(self._ask("eth_gasPrice"))

    def base_fee(self) -> int:
        """Wei that the next block takes at least for a unit of gas."""
        return _sane(self._ask("eth_feeHistory", 1, "latest", [])["baseFeePerGas"][-1])

    def usual_tip(self) -> int:
        """Wei for a unit of gas above that, with which a transaction usually gets into the next block."""
        tip = self._ask_if_known("eth_maxPriorityFeePerGas")
        return _TIP if tip is None else _sane(tip)

    # ---- Transactions and logs ----

    def receipt(self, transaction: bytes) -> Mapping[str, Any] | None:
        """The receipt of a transaction that is in the chain, its members as JSON-RPC names them; None if it is not."""
        receipt: Mapping[str, Any] | None = self._ask("eth_getTransactionReceipt", transaction)
        return receipt

    def knows(self, transaction: bytes) -> bool:
        """Whether the node has a transaction, in the chain or waiting for it."""
        return self._ask("eth_getTransactionByHash", transaction) is not None

    def transaction(self, hash_: bytes) -> bytes:
        """The signed bytes of a transaction that is in the chain. Raises ChainError if there is none, or it is of a
        type that this version does not know."""
        transaction = self._ask("eth_getTransactionByHash", hash_)
        if transaction is None:
            raise ChainError(f"there is no transaction 0x{hash_.hex()}")
        from eigentensor.chain.transactions import raw_of  # who only reads tasks does not wait for it

        with talking_to(self.network.rpc_url):
            return raw_of(transaction)

    def logs(self, which: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The logs that a filter of JSON-RPC asks for, their members as JSON-RPC names them. Raises ChainError where
        the node does not have the last of the blocks yet: it would leave out their logs, and say nothing."""
        if "toBlock" not in which:
            logs: list[dict[str, Any]] = self._ask("eth_getLogs", which)
            return logs
        with talking_to(self.network.rpc_url):
            last, logs = self.rpc.ask_together(
                ("eth_getBlockByNumber", (which["toBlock"], False)), ("eth_getLogs", (which,))
            )
        if last is None:
            raise self._missing(which["toBlock"])
        return logs

    def logs_to(self, last: int, after: Head | None, which: Mapping[str, Any]) -> tuple[Head, list[dict[str, Any]]]:
        """Block `last` and the logs up to it behind the block `after`, or from the deployment on, as one and the same
        node has them. Raises ChainError where the chain changed meanwhile, or `after` is not in it."""
        first = self.deployment.block if after is None else after.number + 1
        blocks = [last] if after is None else [last, after.number]
        asked = {**which, "fromBlock": first, "toBlock": last}
        with talking_to(self.network.rpc_url):
            before, logs, *there = self.rpc.ask_together(
                ("eth_getBlockByNumber", (last, False)),
                ("eth_getLogs", (asked,)),
                *(("eth_getBlockByNumber", (block, False)) for block in blocks),
            )
        hashes = [None if block is None else block["hash"] for block in (before, *there)]
        if hashes[0] is None or hashes != [hashes[0], hashes[0], *([] if after is None else [after.hash])]:
            raise ChainError("the chain changed while its logs were read", fix="The next look reads them again.")
        return Head(last, hashes[0]), logs

    def send(self, raw: bytes) -> None:
        """Gives the node a signed transaction. Raises Reverted or ChainError if it does not take it."""
        self._ask("eth_sendRawTransaction", raw)

    # ---- Calls ----

    def call(self, contract: Contract, function: str, *arguments: Any) -> Any:
        """The value, or the tuple of values, of a contract's view in the newest block. Raises Reverted."""
        known = contract.function(function)
        asked = {"to": contract.address, "data": known.data(arguments)}
        answer = self._ask("eth_call", asked, "latest")
        with talking_to(self.network.rpc_url):
            return known.values(answer)

    def simulate(self, message: Mapping[str, Any], block: Block = "pending") -> None:
        """Calls as the message's sender would, in the next block or on top of another one. Raises Reverted."""
        self._ask("eth_call", message, block)

    def simulate_all(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
        """What becomes of messages in turn on top of the newest block, as JSON-RPC tells it; None where the node cannot
        simulate several."""
        results = self._ask_if_known("eth_simulateV1", {"blockStateCalls": [{"calls": messages}]}, "latest")
        with talking_to(self.network.rpc_url):
            return None if results is None else list(results[0]["calls"])

    def gas_of(self, message: Mapping[str, Any]) -> int:
        """Gas that a message would use in the next block. Raises Reverted."""
        return int(self._ask("eth_estimateGas", message, "pending"))

    # ---- Questions ----

    def _block(self, block: Block) -> dict[str, Any]:
        values: dict[str, Any] | None = self._ask("eth_getBlockByNumber", block, False)
        if values is None:
            raise self._missing(block)
        return values

    def _missing(self, block: Block) -> ChainError:
        return ChainError(f"the node at {self.network.rpc_url} does not have block {block}")

    def _ask(self, method: str, *parameters: Any) -> Any:
        with talking_to(self.network.rpc_url):
            return self.rpc.ask(method, *parameters)

    def _ask_if_known(self, method: str, *parameters: Any) -> Any:
        """As `_ask`; None where the node does not know the method."""
        with talking_to(self.network.rpc_url):
            try:
                return self.rpc.ask(method, *parameters)
            except Refusal as refusal:
                if refusal.code != _UNKNOWN_METHOD:
                    raise
                return None


def _sane(number: int) -> int:
    """A count, or wei for a unit of gas. Raises ChainError for what none can be, and no journal could keep."""
    if number > _MOST:
        raise nonsense(f"the number {number:#x}")
    return int(number)


def encode_header(block: Mapping[str, Any]) -> bytes:
    """The RLP of a block as a node describes it; hashes to the block's hash.

    Raises ChainError if it does not: the chain's headers have fields that this version does not know.
    """
    header = rlp.encode([_item(block[name]) for name in _FIELDS if name in block])
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
