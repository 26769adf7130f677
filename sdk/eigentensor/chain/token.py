"""The market's token: what accounts own and allow, in wei."""

from typing import TYPE_CHECKING

from eigentensor.addresses import to_checksum_address
from eigentensor.chain.node import Node

if TYPE_CHECKING:
    from eigentensor.chain.sender import Mined, Sender


class Token:
    """The token outside of the market, as of the newest block."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def balance_of(self, account: str) -> int:
        """Wei of the token that an account owns outside of the market."""
        return int(self._node.call(self._node.token, "balanceOf", to_checksum_address(account)))

    def allowance(self, owner: str, spender: str) -> int:
        """Wei of the owner's tokens that `spender` may take."""
        accounts = to_checksum_address(owner), to_checksum_address(spender)
        return int(self._node.call(self._node.token, "allowance", *accounts))


class TokenMessages(Token):
    """The token, and what an account does with its own. A message is sent once under a `once` key, else each time."""

    def __init__(self, node: Node, sender: "Sender") -> None:
        super().__init__(node)
        self._sender = sender

    def approve(self, spender: str, amount: int, *, once: str | None = None) -> "Mined":
        """Lets `spender` take `amount` wei of the account's tokens, in place of what it might take before."""
        return self._sender.call(self._node.token, "approve", to_checksum_address(spender), amount, once=once)

    def ensure_allowance(self, spender: str, amount: int) -> None:
        """Lets `spender` take `amount` wei of the account's tokens, unless it may already."""
        if self.allowance(self._sender.address, spender) < amount:
            self.approve(spender, amount)

    def mint(self, to: str, amount: int, *, once: str | None = None) -> "Mined":
        """Makes `amount` wei of test tokens: only on a local chain, whose token anybody mints."""
        return self._sender.call(self._node.token, "mint", to_checksum_address(to), amount, once=once)
