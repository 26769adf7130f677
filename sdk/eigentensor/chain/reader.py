"""Reading one market on one chain."""

from functools import cached_property
from typing import TYPE_CHECKING

from eigentensor.chain.network import Network
from eigentensor.chain.node import Node

if TYPE_CHECKING:
    from eigentensor.chain.channels import Channels
    from eigentensor.chain.games import Games
    from eigentensor.chain.history import History
    from eigentensor.chain.market import Market
    from eigentensor.chain.stake import Stake
    from eigentensor.chain.token import Token


class Reader:
    """One market on one chain, read only: each part reads by the same node, and raises what `Node` raises.

    A part is loaded when it is used: who reads one of them does not wait for the others.
    """

    def __init__(self, network: Network, *, timeout: float = 10) -> None:
        """`timeout` in seconds is for each silence of the node. Asks it nothing yet."""
        self.network = network
        self.deployment = network.deployment
        self.node = Node(network, timeout=timeout)

    @cached_property
    def history(self) -> "History":
        """The events of the market's contracts."""
        from eigentensor.chain.history import History

        return History(self.node)

    @cached_property
    def token(self) -> "Token":
        """The market's token."""
        from eigentensor.chain.token import Token

        return Token(self.node)

    @cached_property
    def stake(self) -> "Stake":
        """What operators have at stake."""
        from eigentensor.chain.stake import Stake

        return Stake(self.node)

    @cached_property
    def market(self) -> "Market":
        """The market for tasks."""
        from eigentensor.chain.market import Market

        return Market(self.node, self.stake)

    @cached_property
    def games(self) -> "Games":
        """The games about tasks."""
        from eigentensor.chain.games import Games

        return Games(self.node, self.history, self.market)

    @cached_property
    def call_games(self) -> "Games":
        """The games about paid calls."""
        from eigentensor.chain.games import Games

        return Games(self.node, self.history, self.market, calls=True)

    @cached_property
    def channels(self) -> "Channels":
        """The market for paid calls."""
        from eigentensor.chain.channels import Channels

        return Channels(self.node)
