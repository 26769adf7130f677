"""Reading one market on one chain."""

from eigentensor.chain.channels import Channels
from eigentensor.chain.games import Games
from eigentensor.chain.history import History
from eigentensor.chain.market import Market
from eigentensor.chain.network import Network
from eigentensor.chain.node import Node
from eigentensor.chain.stake import Stake
from eigentensor.chain.token import Token


class Reader:
    """One market on one chain, read only: each part reads by the same node, and raises what `Node` raises."""

    node: Node
    history: History
    token: Token
    stake: Stake
    market: Market
    games: Games
    call_games: Games
    channels: Channels

    def __init__(self, network: Network, *, timeout: float = 10) -> None:
        """`timeout` in seconds is for each silence of the node. Asks it nothing yet."""
        self.network, self.deployment = network, network.deployment
        self.node = Node(network, timeout=timeout)
        self.history = History(self.node)
        self.token = Token(self.node)
        self.stake = Stake(self.node)
        self.market = Market(self.node, self.stake)
        self.games = Games(self.node, self.history, self.market)
        self.call_games = Games(self.node, self.history, self.market, calls=True)
        self.channels = Channels(self.node)
