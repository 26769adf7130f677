"""What an account has coming from games: which message brings it, from which block on, how much; and sending for it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from eigentensor import economics
from eigentensor.chain import Answer, Chain, Challenge, Conviction, GameView, Mined, Note, Stage, Task
from eigentensor.dispute import Side, deadline_of
from eigentensor.economics import Parameters
from eigentensor.errors import Reverted
from eigentensor.pace import Pace
from eigentensor.task import Cause, Order, Slashed, State
from eigentensor_client.orders import price, stake

if TYPE_CHECKING:
    from eigentensor_client.schemas import results as schemas


class Message(StrEnum):
    """What brings it, in the order in which it is sent."""

    TIMEOUT = "timeout"
    REFUND = "refund"
    SETTLE = "settle"
    SLASH = "slash"
    PAY = "pay"


_WHAT = {
    Message.TIMEOUT: "bond and reward, if the executor lets its clock run out",
    Message.REFUND: "the bond of a game that another conviction made idle",
    Message.SETTLE: "bond and fee of the answer that opened the game",
    Message.SLASH: "your share of the executor's stake: slashed now, paid by `pay`",
    Message.PAY: "your share of the slashed stake, when EigenLayer's core has released it",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """A game of the account and its task, as the chain shows them. `answers` are those that differed, by index;
    `slash` is the number of the slash, `note` what the bounty has of it, which it pays from block `payable` on;
    `lock_end` the last block of a slash."""

    order: Order
    uuid: bytes
    task: Task
    game: GameView
    bond: Challenge
    conviction: Conviction
    answers_by: int
    answers: dict[int, Answer]
    lock_end: int
    slash: int | None = None
    note: Note | None = None
    payable: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """A message that anybody may send, and what it brings the account, in wei. `number` is the game, answer or slash.

    It is taken from block `first` to block `last` (None: for ever).
    """

    message: Message
    facts: Facts
    number: int
    brings: int
    first: int = 0
    last: int | None = None

    @property
    def what(self) -> str:
        """What it brings, in words."""
        return _WHAT[self.message]

    def to_json(self) -> "schemas.Due":
        """A member of `claims` of `eigentensor.claim/1`, before it is sent: wei as decimal strings."""
        return {
            "message": self.message.value,
            "task": self.facts.uuid.hex(),
            "game": self.facts.game.game_id,
            "brings": str(self.brings),
            "what": self.what,
            "first": self.first,
            "last": self.last,
        }


def claims(facts: Facts, account: str, p: Parameters) -> list[Claim]:
    """What the account has coming from one game and the conviction that it led to, in the order in which it comes."""
    paid, own = price(facts.order, facts.task.accepted_at), facts.bond.challenger == account
    if facts.task.state is not State.CONVICTED:
        return list(_by_the_clock(facts, p, paid)) if own else []
    return [*(_bonds(facts, p, paid) if own else ()), *_of_the_slash(facts, account, p, paid)]


def _by_the_clock(facts: Facts, p: Parameters, paid: int) -> Iterator[Claim]:
    position = facts.game.position
    if facts.game.ended is None and position.phase.side is Side.EXECUTOR:
        brings = economics.bond(p, paid) + economics.reward(p, paid)
        yield Claim(Message.TIMEOUT, facts, facts.game.game_id, brings, deadline_of(position) + 1)


def _bonds(facts: Facts, p: Parameters, paid: int) -> Iterator[Claim]:
    if not facts.bond.slot:
        if not facts.bond.ended:
            bond = economics.bond(p, paid)
            burned = bond // 2 if facts.bond.crowded and facts.conviction.crowded else 0
            yield Claim(Message.REFUND, facts, facts.game.game_id, bond - burned)
        return
    index = facts.bond.slot - 1
    answer = facts.answers.get(index)
    if answer is not None and answer.stage in (Stage.DIFFERED, Stage.LOST):
        lower = sum(other < index for other in facts.answers)
        fee = facts.order.check_fee if lower < facts.order.verifiers else 0
        bond = economics.bond(p, paid) if answer.stage is Stage.DIFFERED else 0
        silent = facts.conviction.cause is Cause.SILENCE
        part = economics.reward(p, paid) // len(facts.answers) if silent else 0
        yield Claim(Message.SETTLE, facts, index, bond + fee + part, facts.answers_by + 1)


def _of_the_slash(facts: Facts, account: str, p: Parameters, paid: int) -> Iterator[Claim]:
    """Half of it belongs to those whose answers differed, or to the winner if nobody else did, and it won no crowded
    game by the clock."""
    if facts.note is not None and facts.slash is not None:
        if facts.note.amount and account in facts.note.beneficiaries:
            share = facts.note.amount // 2 // len(facts.note.beneficiaries)
            yield Claim(Message.PAY, facts, facts.slash, share, facts.payable)
        return
    winners = [] if facts.conviction.crowded else [facts.conviction.winner]
    finders = [answer.operator for answer in facts.answers.values()] or winners
    if not facts.conviction.slashed and account in finders:
        share = stake(p, facts.order, paid) // 2 // len(finders)
        yield Claim(Message.SLASH, facts, facts.game.game_id, share, facts.answers_by + 1, facts.lock_end)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim and what became of it: `receipt` if it was sent, `waits` says for what it still waits; if for a block,
    that is `ahead` blocks from now."""

    claim: Claim
    receipt: Mined | None = None
    waits: str = ""
    ahead: int = 0

    def words(self, pace: Pace) -> str:
        """Where it stands, in words."""
        if self.receipt is None:
            about = pace.about(self.ahead) if self.ahead else ""
            return f"waits for {self.waits}{f' ({about})' if about else ''}" if self.waits else "due now"
        return f"sent, in block {self.receipt.block}"

    def to_json(self) -> "schemas.Claimed":
        """A member of `claims` of `eigentensor.claim/1`."""
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
    game = chain.games.at(number)
    task, order = chain.market.task_at(game.task), chain.history.order_of(game.task)
    facts = Facts(
        order=order,
        uuid=game.task,
        task=task,
        game=game,
        bond=chain.market.challenge_of(game.task, number),
        conviction=chain.market.conviction_of(game.task),
        answers_by=0,
        answers={i: chain.market.answer_of(game.task, i) for i in range(64) if task.differed >> i & 1},
        lock_end=0,
    )
    if task.state is not State.CONVICTED:
        return facts
    facts = replace(
        facts, answers_by=chain.market.answers_by(game.task), lock_end=chain.stake.lock_of(game.task, task.executor).end
    )
    slashes = [e.slash_id for e in chain.history.events_of(game.task, task.accepted_at) if isinstance(e, Slashed)]
    if not slashes:
        return facts
    number = slashes[0]
    return replace(facts, slash=number, note=chain.stake.note_of(number), payable=chain.stake.payable_from(number))


def due(chain: Chain, games: Iterable[int]) -> list[Claim]:
    """What the account has coming from these games; a task's slash once, however many games it had in it."""
    block = chain.node.block_number()
    unique: dict[tuple[str, bytes, int], Claim] = {}
    for number in games:
        for claim in claims(facts_of(chain, number), chain.address, chain.deployment.parameters):
            key = (claim.message, claim.facts.uuid, 0 if claim.message is Message.SLASH else claim.number)
            if claim.last is None or claim.last > block:
                unique.setdefault(key, claim)
    return list(unique.values())


def send(chain: Chain, wanted: Iterable[Claim], *, dry_run: bool = False) -> Iterator[Claimed]:
    """Sends for what is due, one after the other. What a contract does not take yet waits, and costs nothing."""
    for claim in wanted:
        if claim.first > (block := chain.node.block_number()) + 1:
            yield Claimed(claim, waits=f"block {claim.first}", ahead=claim.first - block)
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
            return chain.games.timeout(claim.number, facts.game.position)
        case Message.REFUND:
            return chain.market.refund(facts.order, claim.number)
        case Message.SETTLE:
            return chain.market.settle(facts.order, claim.number)
        case Message.SLASH:
            return chain.market.slash(facts.order)
        case Message.PAY:
            return chain.stake.pay_bounty(claim.number)
