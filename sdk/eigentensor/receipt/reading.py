"""Making a receipt: what the chain shows of a task up to one of its blocks."""

from importlib.metadata import version

from eigentensor.chain import Head, Order, Reader, Seeded, order_uuid
from eigentensor.errors import ChainError
from eigentensor.receipt.events import NAMES
from eigentensor.receipt.model import Market, Receipt

_TRIES = 3  # reorganisations while one reads


def read(chain: Reader, order: Order, parts: tuple[bytes, bytes] | None = None) -> Receipt:
    """The receipt of an order's task as of the newest block.

    `parts` are the bindings roots of its outputs and new states, if they are known. Raises WrongReceipt while there is
    no result and no conviction, ChainError if nobody accepted the task or the chain does not hold still.
    """
    task = order_uuid(order, chain.deployment.domain)
    for _ in range(_TRIES):
        head = chain.head()
        receipt = _read(chain, order, task, parts, head)
        if chain.is_canonical(head):
            return receipt
    raise ChainError(f"block {head.number} left the chain while task {task.hex()} was read", fix="Try again.")


def _read(chain: Reader, order: Order, task: bytes, parts: tuple[bytes, bytes] | None, head: Head) -> Receipt:
    posted, now = chain.posted(task), chain.task_at(task)
    events = [e for e in chain.events_of(task, posted.place.block, head.number) if type(e).__name__ in NAMES]
    if now.committed_at:
        block, record = chain.seed_block_of(task), chain.deployment.parameters.record
        seeded: Seeded | None = chain.seeded(block, min(block + record, head.number))
        events = sorted([*events, *([seeded] if seeded else [])], key=lambda event: event.place)
    hashes = dict.fromkeys(event.place.transaction for event in events)
    return Receipt(
        market=Market.of(chain.deployment),
        order=order,
        seats=now.seats,
        parts=parts,
        events=tuple(events),
        transactions=tuple(map(chain.transaction, hashes)),
        head=head,
        software=f"eigentensor {version('eigentensor')}",
    )
