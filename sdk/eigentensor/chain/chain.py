"""One market, read by one node, and an account that acts in it."""

from pathlib import Path
from typing import Self

from eigentensor.chain.channels import ChannelMessages
from eigentensor.chain.games import GameMessages
from eigentensor.chain.journal import Journal
from eigentensor.chain.keys import check_account, limit_recursion
from eigentensor.chain.market import MarketMessages
from eigentensor.chain.network import Network, state_folder
from eigentensor.chain.reader import Reader
from eigentensor.chain.sender import Sender
from eigentensor.chain.stake import StakeMessages
from eigentensor.chain.token import TokenMessages
from eigentensor.task.order import Signer


class Chain(Reader):
    """A reader whose parts also send: the messages of an account, as client, operator, signer, challenger, or anybody.

    Closing it closes the journal. Messages raise what `Sender.send` raises.
    """

    token: TokenMessages
    stake: StakeMessages
    market: MarketMessages
    games: GameMessages
    call_games: GameMessages
    channels: ChannelMessages

    def __init__(
        self,
        network: Network,
        account: Signer,
        journal: Path | None = None,
        *,
        timeout: float = 10,
        patience: float = 30,
        deadline: float = 600,
        max_fee: int | None = None,
    ) -> None:
        """The journal lies in the user's state folder unless a path is given; for the rest see `Sender`. Asks the node
        which chain it is. Raises ConfigError for a key that everybody knows, ChainError on another chain."""
        super().__init__(network, timeout=timeout)
        limit_recursion()
        check_account(account, network)
        self.node.check()
        self.account = account
        self.journal = Journal(journal or self._default_journal())
        self.sender = Sender(self.node, account, self.journal, patience=patience, deadline=deadline, max_fee=max_fee)
        self.token = TokenMessages(self.node, self.sender)
        self.stake = StakeMessages(self.node, self.token, self.sender)
        self.market = MarketMessages(self.node, self.stake, self.token, self.sender)
        self.games = GameMessages(self.node, self.history, self.market, self.sender)
        self.call_games = GameMessages(self.node, self.history, self.market, self.sender, calls=True)
        self.channels = ChannelMessages(self.node, self.token, self.sender)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()

    @property
    def address(self) -> str:
        """The account's address, with its checksum."""
        return self.sender.address

    def _default_journal(self) -> Path:
        name = f"{self.node.genesis()[:8].hex()}-{self.account.address.lower()}.sqlite"
        return state_folder() / "journals" / name
