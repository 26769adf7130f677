"""What a transaction offers for gas: enough for the next blocks, never more than its owner allows."""

from typing import NamedTuple

from eigentensor.chain.contracts import talking_to
from eigentensor.chain.node import Node
from eigentensor.errors import FeeTooHigh

GWEI = 10**9


class Fee(NamedTuple):
    """Wei of the chain's coin for a unit of gas: the most of both parts, and of it the tip."""

    most: int
    tip: int


class Fees:
    """`capped` says whether the fee wanted last was beyond the bound: what offers less may wait, or is not sent."""

    def __init__(self, node: Node, bound: int | None) -> None:
        """`bound` in wei for a unit of gas, tip included; None: as much as it takes."""
        self._node = node
        self._bound = bound
        self.capped = False

    def first(self) -> Fee:
        """What a new transaction offers: it outlives some blocks of rising fees. Raises FeeTooHigh."""
        base, tip = self._asked()
        fee = self._bounded(2 * base + tip, tip)
        if base > fee.most:
            raise FeeTooHigh(
                f"gas costs {base / GWEI:.3g} gwei, at most {fee.most / GWEI:.3g} gwei is allowed for it",
                fix="Wait until it is cheaper, or allow more in the settings.",
            )
        return fee

    def next(self, last: Fee, *, waited: bool) -> Fee | None:
        """What replaces an offer that has `waited` too long, or is less than the next block takes; None: nothing does.

        Nodes refuse a replacement unless both parts are a tenth more.
        """
        base, tip = self._asked()
        self.capped = False
        if not waited and last.most >= base:
            return None
        fee = self._bounded(max(2 * base + tip, last.most * 5 // 4 + 1), max(tip, last.tip * 5 // 4 + 1))
        return fee if all(10 * new >= 11 * old for new, old in zip(fee, last, strict=True)) else None

    def _asked(self) -> tuple[int, int]:
        """What the next block takes at least, and the tip that usually gets into it."""
        with talking_to(self._node.network.rpc_url):
            base = self._node.web3.eth.fee_history(1, "latest")["baseFeePerGas"][-1]
            return base, self._node.web3.eth.max_priority_fee

    def _bounded(self, most: int, tip: int) -> Fee:
        self.capped = self._bound is not None and most > self._bound
        most = most if self._bound is None else min(most, self._bound)
        return Fee(most, min(most, tip))
