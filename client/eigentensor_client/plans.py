"""What works would cost an account, and whether they can be orders at all."""

from collections.abc import Mapping

from eigentensor import economics
from eigentensor.chain.network import Network
from eigentensor.chain.reader import Reader
from eigentensor.dispute import refuse
from eigentensor.errors import NotDisputable, StoreError
from eigentensor.program.fitting import Header, fit
from eigentensor.program.model import Program
from eigentensor.store import GatewayClient, LocalStore
from eigentensor_client import orders
from eigentensor_client.orders import Terms, Work, plan
from eigentensor_client.quotes import Operators
from eigentensor_client.results import Plan
from eigentensor_client.tasks import Tasks

LEAST_CLOCK = 60.0  # seconds that a game gives anybody: what made a local chain's blocks may not be time


class Plans(Tasks):
    """An account that may want tasks: what they would cost it. No key is needed, and nothing is sent."""

    gateway: GatewayClient

    def __init__(self, network: Network, address: str, chain: Reader, store: LocalStore) -> None:
        """The store keeps what the gateway gives."""
        super().__init__(network, address, chain, GatewayClient(network.gateway_url, store))
        self.store = store

    def plan(self, work: Work, terms: Terms) -> Plan:
        """What the work would cost on these terms. Raises what `check` raises."""
        self.check(work, terms)
        return self.estimate(work, terms)

    def plan_unread(
        self, program: Program, headers: Mapping[str, Header], variables: Mapping[str, int], repeat: int, terms: Terms
    ) -> Plan:
        """As `plan`, of a work of whose tensors only the headers are known."""
        fit(program, headers, variables, repeat)
        self.check_program(program, terms, repeat)
        return self.estimate(Work(program, {}, variables=variables, repeat=repeat), terms)

    def estimate(self, work: Work, terms: Terms) -> Plan:
        """As `plan`, of a work whose tensors are not looked at."""
        balance, tokens = self.chain.market.balance_of(self.address).balance, self.chain.token.balance_of(self.address)
        return plan(
            work, terms, self._parameters, balance=balance, tokens=tokens, operators=self._operators(),
            gas_price=self.chain.node.gas_price(),
        )  # fmt: skip

    def check(self, work: Work, terms: Terms) -> None:
        """Raises what makes an order senseless: BindingError (it cannot be executed), NotDisputable (a wrong result
        could not be convicted), TermsRefused (the market would not take it)."""
        from eigentensor_client.transfer import bound  # who has only headers does not wait for NumPy

        bound(work)
        self.check_program(work.program, terms, work.repeat)

    def check_program(self, program: Program, terms: Terms, repeat: int = 1) -> None:
        """As `check`, of what can be said without tensors."""
        orders.check_terms(self._parameters, terms)
        clock = (
            economics.clock(self._parameters, orders.exec_of(self._parameters, terms)) * self.chain.node.block_seconds()
        )
        if (reason := refuse(program, repeat, max(LEAST_CLOCK, clock))) is not None:
            raise NotDisputable(reason)

    @property
    def _parameters(self) -> economics.Parameters:
        return self.network.deployment.parameters

    def _operators(self) -> Operators | None:
        try:
            listed: Operators = self.gateway.operators()["operators"]
        except StoreError:
            return None
        return listed


def plans_of(network: Network, address: str) -> Plans:
    """Those of an address. Raises ChainError unless the network's node has its market."""
    chain = Reader(network)
    chain.node.check()
    return Plans(network, address, chain, LocalStore())
