"""Making a receipt: what the chain shows of a task up to one of its blocks."""

from collections.abc import Sequence
from importlib.metadata import version

from eigentensor.chain import Head, Reader
from eigentensor.chain.transactions import read_transaction
from eigentensor.errors import ChainError
from eigentensor.receipt.events import NAMES
from eigentensor.receipt.evidence import PROVABLE, Proof, evidence
from eigentensor.receipt.model import Market, Receipt
from eigentensor.task import Event, Order, Seeded, order_uuid

_TRIES = 3  # reorganisations while one reads


def read(chain: Reader, order: Order, parts: tuple[bytes, bytes] | None = None) -> Receipt:
    """The receipt of an order's task as of the newest block.

    `parts` are the bindings roots of its outputs and new states, if they are known. Raises WrongReceipt while there is
    no result and no conviction, ChainError if nobody accepted the task or the chain does not hold still.
    """
    task = order_uuid(order, chain.deployment.domain)
    for _ in range(_TRIES):
        head = chain.node.head()
        receipt = _read(chain, order, task, parts, head)
        if chain.node.is_canonical(head):
            return receipt
    raise ChainError(f"block {head.number} left the chain while task {task.hex()} was read", fix="Try again.")


def happened(chain: Reader, task: bytes, first: int, last: int) -> list[Event]:
    """The events of a receipt in these blocks, in order."""
    events = [event for event in chain.history.events_of(task, first, last) if type(event).__name__ in NAMES]
    block, record = chain.market.seed_block_of(task), chain.deployment.parameters.record
    seeded: Seeded | None = None
    if block and first <= block + record:
        seeded = chain.history.seeded(block, min(block + record, last))
    return sorted([*events, *([seeded] if seeded else [])], key=lambda event: event.place)


def _read(chain: Reader, order: Order, task: bytes, parts: tuple[bytes, bytes] | None, head: Head) -> Receipt:
    posted, now = chain.history.posted(task), chain.market.task_at(task)
    events = happened(chain, task, posted.place.block, head.number)
    proofs, transactions = _proved(chain, order, events)
    return Receipt(
        market=Market.of(chain.deployment),
        order=order,
        seats=now.seats,
        parts=parts,
        events=tuple(events),
        proofs=tuple(proofs),
        transactions=tuple(transactions),
        head=head,
        software=f"eigentensor {version('eigentensor')}",
    )


def _proved(chain: Reader, order: Order, events: Sequence[Event]) -> tuple[list[Proof | None], list[bytes]]:
    """The proof of each event, and the transactions that prove the rest."""
    hashes = dict.fromkeys(event.place.transaction for event in events if type(event) in PROVABLE)
    raw = {hash_: chain.node.transaction(hash_) for hash_ in hashes}
    sent = {hash_: read_transaction(data) for hash_, data in raw.items()}
    proofs, kept = [], set()
    for event in events:
        found: tuple[Proof | None, bool] = (None, False)
        if type(event) in PROVABLE:
            found = evidence(order, chain.deployment.domain, event, sent[event.place.transaction])
        proofs.append(found[0])
        if found[1]:
            kept.add(event.place.transaction)
    return proofs, [data for hash_, data in raw.items() if hash_ in kept]
