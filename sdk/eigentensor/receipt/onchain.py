"""A receipt and the chain: what that shows of a task becomes one, and one is held to what it shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eigentensor.chain import Head, Lock, Reader
from eigentensor.chain.transactions import read_transaction
from eigentensor.errors import ChainError, WrongReceipt
from eigentensor.keccak import keccak
from eigentensor.receipt.canonical import difference
from eigentensor.receipt.events import NAMES, event_to_json
from eigentensor.receipt.evidence import PROVABLE, Proof, evidence
from eigentensor.receipt.model import Market, Receipt
from eigentensor.task import Counts, Event, Order, Seeded, State, order_uuid, words
from eigentensor.version import VERSION

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
        software=f"eigentensor {VERSION}",
    )


def _proved(chain: Reader, order: Order, events: Sequence[Event]) -> tuple[list[Proof | None], list[bytes]]:
    """The proof of each event, and the transactions that prove the rest."""
    hashes = dict.fromkeys(event.place.transaction for event in events if type(event) in PROVABLE)
    raw = {hash_: chain.node.transaction(hash_) for hash_ in hashes}
    sent = {hash_: read_transaction(data) for hash_, data in raw.items()}
    proofs, kept = list[Proof | None](), set[bytes]()
    for event in events:
        proof, is_whole = None, False
        if type(event) in PROVABLE:
            proof, is_whole = evidence(order, chain.deployment.domain, event, sent[event.place.transaction])
        proofs.append(proof)
        if is_whole:
            kept.add(event.place.transaction)
    return proofs, [data for hash_, data in raw.items() if hash_ in kept]


@dataclass(frozen=True, slots=True)
class Standing:
    """The same task in block `block`: its state, and that in words.

    In blocks `first` to `last` nothing else happened to it than the receipt says. `lock` is what the task still holds
    of the executor's stake, `worth` that in wei of the token. `finalized` is the newest block that the chain itself
    calls final: the receipt's `head` is final up to there.
    """

    block: int
    state: State
    words: str
    first: int
    last: int
    lock: Lock
    worth: int
    finalized: int


def compare(receipt: Receipt, chain: Reader) -> Standing:
    """Reads what happened to the task while anything could change its result, and how it stands now.

    All logs are read from its first event until its stake was free, or the receipt's head; after that only in blocks of
    which the receipt names events. Raises WrongReceipt, naming the first line that the chain has otherwise, ChainError
    where the chain cannot be asked or does not hold still.
    """
    chain.node.check()
    _check_market(receipt, chain)
    _check_head(receipt.head, chain)
    task = chain.market.task_at(receipt.uuid)
    if not task.committed_at:
        raise WrongReceipt("task", "the market knows no such task, or nothing that was committed to")
    if task.seats != receipt.seats:
        raise WrongReceipt("checks.seats", f"it says {receipt.seats}, the chain shows {task.seats}")
    first, last = receipt.events[0].place.block, min(receipt.head.number, receipt.life.end)
    _check_events(receipt.events, _seen(receipt, chain, first, last))
    _check_header(receipt, chain)
    block, now = chain.node.block_number(), chain.market.task_at(receipt.uuid)
    games = chain.market.open_games(receipt.uuid)
    standing = words.standing(Counts(now.state, now.answered.bit_count(), now.agreed.bit_count(), games))
    lock = chain.stake.lock_of(receipt.uuid, receipt.life.executor or "")
    worth, finalized = chain.stake.worth_of(lock.shares), chain.node.finalized()
    if not chain.node.is_canonical(receipt.head):
        raise ChainError(f"block {receipt.head.number} left the chain while it was read", fix="Try again.")
    return Standing(block, now.state, standing, first, last, lock, worth, finalized)


def _seen(receipt: Receipt, chain: Reader, first: int, last: int) -> list[Event]:
    later = dict.fromkeys(event.place.block for event in receipt.events if event.place.block > last)
    seen = happened(chain, receipt.uuid, first, last)
    return seen + [event for block in later for event in happened(chain, receipt.uuid, block, block)]


def _check_events(listed: Sequence[Event], seen: Sequence[Event]) -> None:
    """Names the first event that differs before it says that there are more of them."""
    pairs = enumerate(zip(map(_value, listed), map(_value, seen), strict=False))
    differ = (difference(one, other, f"events[{number}]") for number, (one, other) in pairs)
    differs = next((one for one in differ if one is not None), None)
    if differs is None and len(listed) != len(seen):
        differs = "events", f"{len(listed)} happened", len(seen)
    if differs is not None:
        where, stated, shows = differs
        raise WrongReceipt(where, f"it says {stated}, the chain shows {shows}")


def _value(event: Event) -> object:
    return event_to_json(event, None)


def _check_head(head: Head, chain: Reader) -> None:
    if head.number > (newest := chain.node.block_number()):
        what = f"the node's newest block is {newest}, the receipt is of block {head.number}"
        raise WrongReceipt("head.block", what, fix="Is the node behind? Otherwise the chain was started anew.")
    if not chain.node.is_canonical(head):
        what = f"block {head.number} of the chain is another one"
        raise WrongReceipt("head.hash", what, fix="Was it reorganised? Read the task anew.")


def _check_header(receipt: Receipt, chain: Reader) -> None:
    """Of a header the chain's events carry the random value alone."""
    for number, (event, proof) in enumerate(zip(receipt.events, receipt.proofs, strict=True)):
        if not isinstance(event, Seeded) or proof is None:
            continue
        if not chain.node.is_canonical(Head(event.seed_block, keccak(proof["header"]))):
            what = f"block {event.seed_block} of the chain has another header"
            raise WrongReceipt(f"events[{number}].proof.header", what)


def _check_market(receipt: Receipt, chain: Reader) -> None:
    """Against the network file and, for the parameters, against the contract."""
    market = Market.of(chain.deployment)
    true = replace(market, parameters=chain.market.parameters())
    for known, whose in ((market, f"network {chain.network.name}"), (true, "the contract")):
        if (differs := difference(receipt.market.to_json(), known.to_json(), "market")) is not None:
            where, stated, shows = differs
            fix = "Is it of another network? Name that one." if known is market else ""
            raise WrongReceipt(where, f"it says {stated}, {whose} has {shows}", fix=fix)
