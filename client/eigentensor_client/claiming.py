"""Reading what an account has coming from its games, and sending for it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eigentensor.chain import Chain, Mined
from eigentensor.errors import Reverted
from eigentensor.task import Slashed, State
from eigentensor_client.claims import Claim, Facts, Message, claims

if TYPE_CHECKING:
    from eigentensor_client.schemas import results as schemas


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim and what became of it: `receipt` if it was sent, `waits` says for what it still waits."""

    claim: Claim
    receipt: Mined | None = None
    waits: str = ""

    @property
    def words(self) -> str:
        if self.receipt is None:
            return f"waits for {self.waits}" if self.waits else "due now"
        return f"sent, in block {self.receipt.block}"

    def to_json(self) -> "schemas.Claimed":
        sent = self.receipt
        return {
            **self.claim.to_json(),
            "state": "sent" if sent else "waits" if self.waits else "due",
            "waits": self.waits or None,
            "block": sent.block if sent else None,
            "transaction": "0x" + sent.transaction.hex() if sent else None,
            "gas": sent.gas_used if sent else None,
        }


def facts_of(chain: Chain, number: int) -> Facts:
    """A game and its task. Raises ChainError if there is no such game."""
    game = chain.game(number)
    task, order = chain.task_at(game.task), chain.order_of(game.task)
    found = Facts(
        order=order,
        uuid=game.task,
        task=task,
        game=game,
        bond=chain.challenge_of(game.task, number),
        conviction=chain.conviction_of(game.task),
        answers_by=0,
        answers={i: chain.answer_of(game.task, i) for i in range(64) if task.differed >> i & 1},
        lock_end=0,
    )
    if task.state is not State.CONVICTED:
        return found
    found = replace(found, answers_by=chain.answers_by(game.task), lock_end=chain.lock_of(game.task, task.executor).end)
    slashes = [e.slash_id for e in chain.events_of(game.task, task.accepted_at) if isinstance(e, Slashed)]
    if not slashes:
        return found
    number = slashes[0]
    return replace(found, slash=number, note=chain.note_of(number), payable=chain.payable_from(number))


def due(chain: Chain, games: Iterable[int]) -> list[Claim]:
    """What the account has coming from these games; a task's slash once, however many games it had in it."""
    block = chain.block_number()
    found: dict[tuple[str, bytes, int], Claim] = {}
    for number in games:
        for claim in claims(facts_of(chain, number), chain.address, chain.deployment.parameters):
            key = (claim.message, claim.facts.uuid, 0 if claim.message is Message.SLASH else claim.number)
            if claim.last is None or claim.last > block:
                found.setdefault(key, claim)
    return list(found.values())


def send(chain: Chain, found: Iterable[Claim], *, dry_run: bool = False) -> Iterator[Claimed]:
    """Sends for what is due, one after the other. What a contract does not take yet waits, and costs nothing."""
    for claim in found:
        if claim.first > chain.block_number() + 1:
            yield Claimed(claim, waits=f"block {claim.first}")
            continue
        if dry_run:
            yield Claimed(claim)
            continue
        try:
            yield Claimed(claim, _message(chain, claim))
        except Reverted as error:
            yield Claimed(claim, waits=f"a later block: the contract says {error.what}")


def _message(chain: Chain, claim: Claim) -> Mined:
    facts = claim.facts
    match claim.message:
        case Message.TIMEOUT:
            return chain.timeout(claim.number, facts.game.position)
        case Message.REFUND:
            return chain.refund(facts.order, claim.number)
        case Message.SETTLE:
            return chain.settle(facts.order, claim.number)
        case Message.SLASH:
            return chain.slash(facts.order)
        case Message.PAY:
            return chain.pay_bounty(claim.number)
