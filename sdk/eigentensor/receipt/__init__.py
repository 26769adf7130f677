"""A receipt: one file that says what became of a task, and carries what proves it.

`Receipt` is the file; `prove` holds it to the signatures and hashes in it, without a network; `read` makes one from a
chain, `compare` holds one to a chain. client/docs/pages/guides/receipts.md describes the format and what it proves.
"""

from eigentensor.receipt.evidence import tasks_of
from eigentensor.receipt.model import SCHEMA, Market, Receipt
from eigentensor.receipt.onchain import Standing, compare, read
from eigentensor.receipt.proof import outputs_of, prove
from eigentensor.receipt.rules import Proved

__all__ = [
    "SCHEMA", "Market", "Proved", "Receipt", "Standing", "compare", "outputs_of", "prove", "read", "tasks_of",
]  # fmt: skip
