"""Holding a receipt to the chain: did it happen there, did nothing else happen, and how does the task stand now."""

from dataclasses import dataclass, replace

from eigentensor.chain import Lock, Reader
from eigentensor.errors import WrongReceipt
from eigentensor.receipt.canonical import difference
from eigentensor.receipt.model import Market, Receipt
from eigentensor.receipt.reading import read

_UNPROVED = ("software", "digest")


@dataclass(frozen=True, slots=True)
class Standing:
    """The same task now. `lock` is what it still holds of the executor's stake, `worth` that in wei of the token.

    `finalized` is the newest block that the chain itself calls final: the receipt's `head` is final up to there.
    """

    now: Receipt
    lock: Lock
    worth: int
    finalized: int


def compare(receipt: Receipt, chain: Reader) -> Standing:
    """Reads the task anew up to the receipt's head, and as it stands now.

    Raises WrongReceipt, naming the first line that the chain has otherwise, ChainError where the chain cannot be asked.
    """
    chain.check()
    _check_market(receipt, chain)
    if receipt.head.number > (newest := chain.block_number()):
        what = f"the node's newest block is {newest}, the receipt is of block {receipt.head.number}"
        raise WrongReceipt("head.block", what, fix="Is the node behind? Otherwise the chain was started anew.")
    if not chain.is_canonical(receipt.head):
        raise WrongReceipt("head.hash", f"block {receipt.head.number} of the chain is another one")
    if not chain.task_at(receipt.uuid).committed_at:
        raise WrongReceipt("task", "the market knows no such task, or nothing that was committed to")
    now = read(chain, receipt.order, receipt.parts)
    said, seen = (
        {k: v for k, v in r.to_json().items() if k not in _UNPROVED} for r in (receipt, now.until(receipt.head))
    )
    if (found := difference(said, seen)) is not None:
        where, says, shows = found
        raise WrongReceipt(where, f"it says {says}, the chain shows {shows}")
    lock = chain.lock_of(receipt.uuid, receipt.told.executor)
    return Standing(now, lock, chain.worth_of(lock.shares), chain.finalized())


def _check_market(receipt: Receipt, chain: Reader) -> None:
    """Against the network file and, for the parameters, against the contract."""
    market = Market.of(chain.deployment)
    true = replace(market, parameters=chain.parameters())
    for known, whose in ((market, f"network {chain.network.name}"), (true, "the contract")):
        if (found := difference(receipt.market.to_json(), known.to_json(), "market")) is not None:
            where, says, shows = found
            fix = "Is it of another network? --network names it." if known is market else ""
            raise WrongReceipt(where, f"it says {says}, {whose} has {shows}", fix=fix)
