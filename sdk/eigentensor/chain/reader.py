"""Reading a market: views, balances, events."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

from eth_typing import ChecksumAddress
from web3 import HTTPProvider, Web3
from web3.contract import Contract
from web3.exceptions import BlockNotFound, TransactionNotFound
from web3.types import BlockIdentifier, TxReceipt

from eigentensor.chain.contracts import abi, talking_to
from eigentensor.chain.events import Event, decode_log
from eigentensor.chain.network import Network
from eigentensor.errors import ChainError

#: Blocks whose logs are asked for at once.
SPAN = 2_000


class State(IntEnum):
    """Where a task stands; ITaskMarket.sol."""

    NONE = 0
    OPEN = 1
    ACCEPTED = 2
    COMMITTED = 3
    REVEALED = 4
    FINAL = 5
    CONVICTED = 6
    CANCELLED = 7
    EXPIRED = 8
    FAILED = 9

    @property
    def is_terminal(self) -> bool:
        return self >= State.FINAL


@dataclass(frozen=True, slots=True)
class Task:
    """What the chain remembers of a task; see `Task` in ITaskMarket.sol."""

    executor: str
    state: State
    accepted_at: int
    since: int
    exec: int
    claim: bytes


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account has in the market, in wei: free to withdraw, and held as collateral."""

    balance: int
    collateral: int


@dataclass(frozen=True, slots=True)
class Head:
    number: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Changes:
    """What is new since `known`: first forget everything above block `rolled_back_to` (None: nothing), then add.

    `heads` are to be remembered and given to the next call. `complete` is False when there is more already.
    """

    rolled_back_to: int | None
    events: tuple[Event, ...]
    heads: tuple[Head, ...]
    complete: bool


class Reader:
    """One market on one chain, read only. Raises Unreachable without an answer, Reverted when a view refuses."""

    def __init__(self, network: Network, *, timeout: float = 10) -> None:
        self.network = network
        self.deployment = network.deployment
        self.web3 = Web3(HTTPProvider(network.rpc_url, request_kwargs={"timeout": timeout}))
        d = self.deployment
        self.market = self._contract("TaskMarket", d.task_market)
        self.manager = self._contract("ServiceManager", d.service_manager)
        self.allocation_manager = self._contract("AllocationManager", d.allocation_manager)
        self.delegation_manager = self._contract("DelegationManager", d.delegation_manager)
        self.strategy_manager = self._contract("StrategyManager", d.strategy_manager)
        self.strategy = self._contract("Strategy", d.strategy)
        self.token = self._contract("TestToken", d.token)

    def check(self) -> None:
        """Raises ChainError unless the node's chain is the network's and the market is on it."""
        with talking_to(self.network.rpc_url):
            chain_id = self.web3.eth.chain_id
            code = self.web3.eth.get_code(self._address(self.deployment.task_market))
        if chain_id != self.deployment.chain_id or not code:
            raise ChainError(
                f"the node at {self.network.rpc_url} (chain {chain_id}) does not have the market "
                f"{self.deployment.task_market} of network {self.network.name!r} (chain {self.deployment.chain_id})",
                fix="The local network was started anew, or the network file is of another chain.",
            )

    # ---- The chain ----

    def head(self) -> Head:
        """The newest block."""
        return self._head("latest")

    def genesis(self) -> bytes:
        """The hash of block 0: a local chain that was started anew has another one."""
        return self._head(0).hash

    def block_number(self) -> int:
        with talking_to(self.network.rpc_url):
            return self.web3.eth.block_number

    def ether_of(self, account: str) -> int:
        """Wei of the chain's own coin, which pays for gas."""
        with talking_to(self.network.rpc_url):
            return self.web3.eth.get_balance(self._address(account))

    def receipt(self, transaction: bytes) -> TxReceipt | None:
        """The receipt of a transaction that is in the chain; None if it is not."""
        with talking_to(self.network.rpc_url):
            try:
                return self.web3.eth.get_transaction_receipt(Web3.to_hex(transaction))
            except TransactionNotFound:
                return None

    def transaction_count(self, account: str, block: BlockIdentifier = "latest") -> int:
        with talking_to(self.network.rpc_url):
            return self.web3.eth.get_transaction_count(self._address(account), block)

    # ---- The market ----

    def task_at(self, task: bytes) -> Task:
        executor, state, accepted_at, since, exec_, claim = self._call(self.market, "taskAt", task)
        return Task(executor, State(state), accepted_at, since, exec_, bytes(claim))

    def deadline_of(self, task: bytes) -> int:
        """The last block of what the task waits for: `fail` and `close` come after it. 0 if there is none."""
        return int(self._call(self.market, "deadlineOf", task))

    def outputs_root_of(self, task: bytes) -> bytes:
        """The revealed outputs root; zero before."""
        return bytes(self._call(self.market, "outputsRootOf", task))

    def balance_of(self, account: str) -> Balance:
        return Balance(*self._call(self.market, "accountOf", self._address(account)))

    # ---- Tokens, operators ----

    def tokens_of(self, account: str) -> int:
        return int(self._call(self.token, "balanceOf", self._address(account)))

    def allowance(self, owner: str, spender: str) -> int:
        return int(self._call(self.token, "allowance", self._address(owner), self._address(spender)))

    def is_operator(self, account: str) -> bool:
        """Whether the account is an operator of EigenLayer."""
        return bool(self._call(self.delegation_manager, "isOperator", self._address(account)))

    def is_member(self, operator: str) -> bool:
        """Whether the operator is in the market's operator set."""
        return bool(self._call(self.manager, "isMember", self._address(operator)))

    def signer_of(self, operator: str) -> tuple[str, int]:
        """The operator's hot signer (the zero address: none) and its cap on collateral."""
        signer, cap = self._call(self.manager, "signerOf", self._address(operator))
        return str(signer), int(cap)

    def stake_of(self, operator: str) -> int:
        """What is delegated to the operator in the market's strategy, in wei of the token, rounded down."""
        strategy = self._address(self.deployment.strategy)
        shares = self._call(self.delegation_manager, "operatorShares", self._address(operator), strategy)
        return int(self._call(self.strategy, "sharesToUnderlyingView", shares))

    def stake_delay(self) -> int:
        """Blocks for which present stake can be slashed."""
        return int(self._call(self.manager, "stakeDelay"))

    # ---- Events ----

    def events(self, from_block: int, to_block: int | None = None) -> Iterator[Event]:
        """Everything that happened in these blocks (to the newest by default), in order. It does not wait for more."""
        last = self.block_number() if to_block is None else to_block
        for start in range(from_block, last + 1, SPAN):
            yield from self._logs(start, min(start + SPAN - 1, last))

    def changes(self, known: Sequence[Head] = ()) -> Changes:
        """What happened since the caller asked last, reorganisations included.

        `known` are the heads that earlier calls returned, ascending; older ones may be dropped, a reorganisation deeper
        than all of them starts again from the deployment. A call covers a bounded number of blocks.
        """
        first = self.deployment.block
        ancestor = next((h for h in reversed(known) if self._is_canonical(h)), None)
        base = ancestor.number if ancestor else first - 1
        rolled_back = base if known and ancestor != known[-1] else None
        while True:
            newest = self.head()
            to = min(newest.number, base + SPAN)
            last = newest if to == newest.number else self._head(to)
            if to <= base:
                return Changes(rolled_back, (), (), complete=True)
            events = tuple(self._logs(base + 1, to))
            # If the last block is still the same, so were all before it while the logs were read.
            if self._is_canonical(last):
                break
        places = [Head(e.place.block, e.place.block_hash) for e in events]
        heads = [a for a, b in pairwise([*places, last]) if a != b]
        return Changes(rolled_back, events, (*heads, last), complete=to == newest.number)

    def _logs(self, start: int, stop: int) -> list[Event]:
        addresses = [self._address(self.deployment.task_market), self._address(self.deployment.service_manager)]
        with talking_to(self.network.rpc_url):
            logs = self.web3.eth.get_logs({"fromBlock": start, "toBlock": stop, "address": addresses})
        return [event for log in logs if (event := decode_log(log)) is not None]

    def _head(self, block: BlockIdentifier) -> Head:
        with talking_to(self.network.rpc_url):
            found = self.web3.eth.get_block(block)
        return Head(found["number"], bytes(found["hash"]))

    def _is_canonical(self, head: Head) -> bool:
        with talking_to(self.network.rpc_url):
            try:
                return bytes(self.web3.eth.get_block(head.number)["hash"]) == head.hash
            except BlockNotFound:
                return False

    # ---- Calls ----

    def _call(self, contract: Contract, function: str, *arguments: Any) -> Any:
        with talking_to(self.network.rpc_url):
            return contract.functions[function](*arguments).call()

    def _contract(self, name: str, address: str) -> Contract:
        return self.web3.eth.contract(self._address(address), abi=abi(name))

    @staticmethod
    def _address(account: str) -> ChecksumAddress:
        return Web3.to_checksum_address(account)
