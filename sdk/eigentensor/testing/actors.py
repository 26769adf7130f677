"""Operators as tests and demos need them: each plays one part, by the chain alone. The product has none of this."""

from eigentensor.chain import Admission, Chain, Order, Receipt


class SilentOperator:
    """Accepts tasks and is never heard of again: no commit, no reveal."""

    def __init__(self, chain: Chain, operator: str) -> None:
        """`chain` acts with the hot signer of `operator`, which has joined and has collateral in the market."""
        self.chain = chain
        self.operator = operator

    def accept(self, order: Order, admission: Admission | None = None) -> Receipt:
        """Raises what `Chain.accept` raises: Reverted if somebody else was faster."""
        return self.chain.accept(self.operator, order, admission)
