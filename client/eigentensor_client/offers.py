"""What a client offers, in words, and what it offers unless it says otherwise: as files, flags and decorators have it.

Imports nothing heavy: the command's help reads it.
"""

from dataclasses import dataclass

EXEC = 30  # blocks for one execution, where the market allows as many
ACCEPT_WITHIN = 100  # blocks in which an operator may accept
RAMP = 4  # in this part of those blocks a price rises to its most, unless it is said otherwise
HOLD = 4  # and in this part of them, at most, it stays what it is at first
UNKNOWN = 100  # this part of the most is offered at first where no operator publishes what it asks
ACCEPT_EACH = 2  # blocks more for each task that was posted before it in the same call
CHECK = "20%"  # of the tasks are checked
STAGES = ("result", "checked", "final")  #: what a client can wait for, in the order in which they come true
LOCAL_PRICE = "0.05"  # tokens that are worth nothing: offered on a local chain if no price is said


@dataclass(frozen=True, kw_only=True)
class Offer:
    """The terms of an order, in words: amounts are tokens. `eigentensor_client.orders.read_terms` makes wei of them."""

    max_price: str | None = None
    min_price: str | None = None
    ramp: int | None = None
    check: str = CHECK
    verifiers: int = 1
    check_fee: str | None = None
    value_at_risk: str = "0"
    exec: int | None = None
    accept_within: int = ACCEPT_WITHIN
    operator: str | None = None
