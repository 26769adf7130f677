"""The life of a task as a line through blocks: what happened, and what is ahead with the last block for it. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from eigentensor.task import Cause, Life, State, due
from eigentensor.task import events as happened
from eigentensor.task.life import Happening


@dataclass(frozen=True, slots=True)
class Stop:
    """Something on the line. `facts` are pairs of a label and a value: an int is wei, a text a root."""

    title: str
    block: int | None = None
    tone: str = ""
    who: str | None = None
    role: str = ""
    facts: tuple[tuple[str, int | str], ...] = ()
    by: int | None = None
    transaction: str | None = None
    game: int | None = None


@dataclass(frozen=True, slots=True)
class Chance:
    """What somebody could do about a task now: until which block, and the command for it; none where daemons do it."""

    who: str
    what: str
    by: int | None = None
    command: str = ""


def line(life: Life) -> list[Stop]:
    """What happened, in the order of the chain, then what is ahead."""
    past = [stop for event in sorted(life.events, key=attrgetter("place")) if (stop := _past(life, event)) is not None]
    return [*past, *_ahead(life)]


def chances(life: Life, block: int, command: str = "eigentensor") -> list[Chance]:
    """What somebody could do in the next block, the parties first."""
    return [*_own(life, command), *_anybodys(life, block)]


def _own(life: Life, command: str) -> Iterator[Chance]:
    task = life.uuid.hex()
    match life.state:
        case State.OPEN:
            yield Chance("an operator", "accept it", life.order.accept_by)
            yield Chance("anybody", "ask why nobody accepts", None, f"{command} task explain {task}")
            yield Chance("the client", "take it back", None, f"{command} task cancel {task}")
        case State.ACCEPTED:
            yield Chance("the executor", "commit to a result", life.deadline)
        case State.COMMITTED if life.mix is not None and not life.drawn:
            yield Chance("the executor", "reveal its result", life.reveal_by)
        case State.COMMITTED if life.mix is not None:
            yield Chance("a drawn verifier", "answer with its own result, hidden", life.check_by)
        case State.REVEALED:
            yield Chance("anybody", "execute it again, and challenge it if it is wrong", life.challenge_by,
                         f"{command} challenge open {task}")  # fmt: skip
    if life.outputs_root is not None or life.conviction is not None:
        yield Chance("anybody", "get its receipt, and check what it proves", None, f"{command} receipt get {task}")
    yield Chance("anybody", "follow it in a terminal", None, f"{command} task logs {task}")


_ANYBODYS = {
    due.Verb.SEED: "record the seed",
    due.Verb.EXPIRE: "end it: nobody accepted in time",
    due.Verb.CLOSE: "end it: what it waited for is over",
    due.Verb.TIMEOUT: "end a game: a clock has run out",
    due.Verb.SETTLE: "settle a verifier's answer",
    due.Verb.REFUND: "give back the bond of an idle game",
    due.Verb.SLASH: "slash the executor's stake",
    due.Verb.PAY: "pay out what was slashed",
}


def _anybodys(life: Life, block: int) -> Iterator[Chance]:
    """The aggregator sends these, so nobody has to."""
    for message in due.messages(life):
        if message.is_taken(block + 1):
            last = None if message.last == due.NEVER else message.last
            yield Chance("anybody, the aggregator first", _ANYBODYS[message.verb], last)


def _past(life: Life, event: Happening) -> Stop | None:
    made = _stage(life, event) or _check(life, event) or _payment(event)
    return made and replace(made, block=event.place.block, transaction="0x" + event.place.transaction.hex())


_CAUSES = {
    Cause.VERDICT: "it lost a game",
    Cause.SILENCE: "it was drawn and did not reveal",
    Cause.DEMAND: "it did not show what was demanded",
}


def _stage(life: Life, event: Happening) -> Stop | None:
    """The steps from state to state."""
    order, executor = life.order, life.executor
    match event:
        case happened.Posted():
            facts = _facts(escrow=order.escrow, program=order.program.hex())
            return Stop("Posted", who=event.client, role="the client, who signed the order", facts=facts)
        case happened.Accepted():
            facts = _facts(price=event.price, collateral=event.collateral)
            return Stop("Accepted", who=event.executor, role="the executor", facts=facts)
        case happened.Committed():
            facts = _facts(hash=event.commitment.hex())
            return Stop("Committed", who=executor, role="the executor, to a result that is hidden", facts=facts)
        case happened.Revealed(slot=0):
            facts = _facts(outputs=event.outputs_root.hex())
            return Stop("Result revealed", who=executor, role="the executor", facts=facts)
        case happened.Closed():
            facts = (("to the executor", event.paid), ("back to the client", event.refund))
            return Stop("Final", tone="good", facts=facts)
        case happened.Failed():
            facts = (("penalty", event.penalty), ("back to the client", event.refund))
            return Stop("No result in time", tone="bad", who=executor, role="the executor", facts=facts)
        case happened.Convicted():
            why, facts = _CAUSES.get(event.cause, ""), (("back to the client", event.refund),)
            return Stop(f"Convicted: {why}", tone="bad", who=executor, role="the executor", facts=facts)
        case happened.Cancelled():
            return Stop("Taken back", who=order.client, role="the client", facts=(("back to it", order.escrow),))
        case happened.Expired():
            return Stop("Nobody accepted in time", tone="bad", facts=(("back to the client", order.escrow),))
    return None


def _check(life: Life, event: Happening) -> Stop | None:
    """The draw, what verifiers and challengers said, what the client demanded."""
    match event:
        case happened.Seeded():
            drawn = "drawn for a check" if life.drawn else "not drawn"
            return Stop(f"Seed of block {event.seed_block:,}: {drawn}")
        case happened.Answered():
            return Stop("Answered", who=event.operator, role=f"verifier {event.index}, with a result that is hidden")
        case happened.Exposed():
            return Stop("Exposed before its time", tone="bad", who=event.caller, role="who noticed")
        case happened.Revealed():
            agrees, answer = event.outputs_root == life.outputs_root, life.answers.get(event.slot - 1)
            title, tone = ("A verifier agrees", "good") if agrees else ("A verifier differs", "bad")
            return Stop(title, tone=tone, who=answer.operator if answer else None, role=f"verifier {event.slot - 1}")
        case happened.Challenged():
            title, facts = f"Challenged: game {event.game_id}", _facts(bond=event.bond)
            return Stop(title, tone="bad", who=event.challenger, role="challenger", facts=facts, game=event.game_id)
        case happened.GameEnded():
            loser, tone = ("executor", "bad") if event.executor_lost else ("challenger", "")
            return Stop(f"Game {event.game_id}: the {loser} lost", tone=tone, game=event.game_id)
        case happened.Demanded():
            return Stop("The client demands to see leaves of the result")
        case happened.Shown():
            return Stop(f"Leaf {event.number} shown")
    return None


def _payment(event: Happening) -> Stop | None:
    """What is paid after the end."""
    match event:
        case happened.Slashed():
            return Stop("Stake slashed", tone="bad", who=event.caller, role="who sent it")
        case happened.Paid():
            return Stop("Slash paid out", facts=(("to each finder", event.share), ("burned", event.burned)))
        case happened.Settled():
            return Stop("Answer settled", who=event.account, role="verifier", facts=(("bond and fee", event.amount),))
        case happened.BondReturned():
            title, facts = f"Bond of game {event.game_id} returned", _facts(bond=event.amount)
            return Stop(title, who=event.challenger, role="challenger", facts=facts, game=event.game_id)
    return None


def _facts(**values: int | str) -> tuple[tuple[str, int | str], ...]:
    return tuple(values.items())


def _ahead(life: Life) -> Iterator[Stop]:
    """The windows that are not over, each with its last block; what follows the present one is told as late as it may
    come."""
    match life.state:
        case State.OPEN:
            yield Stop("Acceptance", tone="live", by=life.order.accept_by)
        case State.ACCEPTED:
            yield Stop("Commit of the executor", tone="live", by=life.deadline)
        case State.COMMITTED if life.mix is None:
            yield Stop(f"Seed of block {life.seed_block:,}", tone="live", by=life.record_by)
            yield Stop("Reveal", tone="ahead", by=life.reveal_by)
        case State.COMMITTED if life.drawn:
            yield Stop("Answers of the verifiers", tone="live", by=life.check_by)
            yield Stop("Reveal", tone="ahead", by=life.reveal_by)
        case State.COMMITTED:
            yield Stop("Reveal", tone="live", by=life.reveal_by)
        case State.REVEALED:
            if any(answer.root is None and not answer.exposed for answer in life.answers.values()):
                yield Stop("Verifiers open their answers", tone="live", by=life.answers_by)
            if life.demand is not None:
                yield Stop("Leaves of the result, as demanded", tone="live", by=life.demand.by)
            for number in life.open_games:
                yield Stop(f"Game {number} goes on", tone="live", game=number)
            yield Stop("Final, if nobody challenges", tone="ahead" if life.open_games else "live", by=life.challenge_by)
    if life.accepted_at is not None and not life.state.is_terminal:
        yield Stop("The executor's stake is free again at the latest", tone="ahead", by=life.end)
