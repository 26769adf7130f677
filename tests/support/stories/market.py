"""The life of a task on chain, step by step, as several test files lead it."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

from eigentensor import economics
from eigentensor.chain import Chain, Network, Opening, anvil_account, to_wei
from eigentensor.errors import Reverted
from eigentensor.task import NONE, Order, commitment, order_uuid
from eigentensor_local.anvil import Anvil, pass_seed

Orders = Callable[..., Order]

ROOT, OTHER, SALT = b"\2" * 32, b"\4" * 32, b"\3" * 32


def orders_of(client: Chain) -> Orders:
    """Orders of a client that differ from each other and otherwise say what is given.

    They are checked as seldom as the market allows, for the lowest fee.
    """
    nonces, parameters = count(1), client.deployment.parameters

    def make(**changes: Any) -> Order:
        fields: dict[str, Any] = {
            "client": client.address, "nonce": next(nonces), "semantics": 1, "program": b"\1" * 32, "inputs": NONE,
            "weights": NONE, "states": NONE, "variables": NONE, "repeat": 1, "min_price": to_wei("0.01"),
            "max_price": to_wei("0.02"), "ramp_start": 0, "ramp_length": 0, "check_rate": parameters.check_floor,
            "verifiers": 1, "value_at_risk": 0, "exec": 10,
            "accept_by": client.node.block_number() + 20, "operators": NONE,
        }  # fmt: skip
        fields |= changes
        return Order(**{"check_fee": economics.check_fee_bound(parameters, fields["max_price"]), **fields})

    return make


def post_apart(network: Network, journal: Path, account: int, orders: Sequence[Order]) -> list[str]:
    """Posts orders as another process does, all at once; for each the name of its error, or nothing."""

    def post(order: Order) -> str:
        try:
            chain.market.post(order)
        except Reverted as error:
            return error.name
        return ""

    with Chain(network, anvil_account(account), journal, deadline=300) as chain, ThreadPoolExecutor() as pool:
        return list(pool.map(post, orders))


class Life:
    """A task of the client, executed by an operator that commits to ROOT; its steps, one by one."""

    def __init__(self, anvil: Anvil, client: Chain, operator: Chain, order: Order) -> None:
        self.anvil = anvil
        self.client = client
        self.operator = operator
        self.order = order
        self.parameters = client.deployment.parameters
        self.task = order_uuid(order, client.deployment.domain)

    def hidden(self, chain: Chain, slot: int, root: bytes) -> bytes:
        return commitment(chain.deployment.domain, self.task, chain.address, slot, root, SALT)

    def committed(self, root: bytes = ROOT) -> None:
        """Posted, accepted, committed."""
        self.client.market.post(self.order)
        self.operator.market.accept(self.operator.address, self.order)
        self.operator.market.commit(self.operator.address, self.task, self.hidden(self.operator, 0, root))

    def drawn(self, root: bytes = ROOT) -> None:
        """The same, and seeded: it will be checked."""
        self.committed(root)
        pass_seed(self.anvil, self.client, self.order, drawn=True)

    def undrawn(self) -> None:
        """The same, seeded and revealed: it will not be checked."""
        self.committed()
        pass_seed(self.anvil, self.client, self.order, drawn=False)
        self.reveal(self.operator)

    def index_of(self, verifier: Chain) -> int:
        """The lowest index that is drawn for the verifier."""
        indices = range(16 * self.order.verifiers)
        return next(i for i in indices if self.client.market.seat_of(self.task, i).operator == verifier.address)

    def answer(self, verifier: Chain, root: bytes) -> int:
        index = self.index_of(verifier)
        verifier.market.answer(verifier.address, self.order, index, self.hidden(verifier, index + 1, root))
        return index

    def reveal(self, chain: Chain, slot: int = 0, root: bytes = ROOT) -> None:
        chain.market.reveal(self.order, Opening(self.task, root, SALT, slot))

    def pass_checks(self) -> None:
        """To the first block in which the executor of a drawn task may reveal."""
        seed = self.client.market.seed_block_of(self.task)
        self.anvil.mine_past(seed + economics.check_window(self.parameters, self.order.exec))

    def pass_answers(self) -> None:
        self.anvil.mine_past(self.client.market.answers_by(self.task))

    @property
    def bond(self) -> int:
        return economics.bond(self.parameters, self.order.max_price)


def gained(chain: Chain, before: int) -> int:
    account = chain.market.balance_of(chain.address)
    return account.balance + account.collateral - before


def wealth(chain: Chain) -> int:
    return gained(chain, 0)
