"""The words of the glossary for where a task stands, and what it waits for. Pure."""

from eigentensor.pace import UNKNOWN, Pace
from eigentensor.task.life import Counts, Life
from eigentensor.task.state import State


def checked(counts: Counts) -> str | None:
    """`checked(k)`: k verifiers re-executed it and agree; `unchecked`: nobody did; None: not known yet."""
    if counts.state not in (State.REVEALED, State.FINAL):
        return None
    if counts.agreed:
        return f"checked({counts.agreed})"
    # All answers are given before the executor reveals; what somebody disputes is being judged.
    return "unchecked" if counts.state is State.FINAL or not (counts.answered or counts.games) else None


def stage(counts: Counts) -> str:
    """Where a task stands, in one word: open, accepted, committed, result → checked(k) or unchecked → final, …"""
    if counts.state is State.REVEALED:
        return checked(counts) or "result"
    return counts.state.name.lower()


def standing(counts: Counts) -> str:
    """The stage as people are shown it: with what came of the check after the end, and whether somebody disputes it."""
    if counts.state is State.FINAL:
        return f"final, {checked(counts)}"
    return f"{stage(counts)}, challenged" if counts.state is State.REVEALED and counts.games else stage(counts)


def waits_for(life: Life, block: int, pace: Pace = UNKNOWN) -> str | None:
    """What a task waits for in block `block`, with the last block of it, at the pace of its chain; None at the end."""
    by = _by(life.deadline, block, pace)
    match life.state:
        case State.OPEN:
            return f"an acceptance until {by}"
        case State.ACCEPTED:
            return f"the executor's commit until {by}, or the refund after it"
        case State.COMMITTED:
            return _before_reveal(life, block, pace)
        case State.REVEALED if life.demand is not None:
            return f"leaves of the outputs until {by}, as the client demanded, or a conviction"
        case State.REVEALED if life.open_games:
            many = "s" if len(life.open_games) > 1 else ""
            return f"the end of game{many} {', '.join(map(str, life.open_games))}"
        case State.REVEALED if block < life.answers_by and _may_confirm(life):
            return f"what the verifiers reveal; final after {by}"
        case State.REVEALED:
            return f"the end of the window: final after {by}"
    return None


def _before_reveal(life: Life, block: int, pace: Pace) -> str:
    by = _by(life.deadline, block, pace)
    if life.drawn is None:
        return f"the seed that {pace.block(life.seed_block, block)} gives: it says whether the task is checked"
    if not life.drawn:
        return f"the executor's reveal until {by}, or the refund after it"
    if block <= life.check_by:
        answers = f"{pace.block(life.check_by, block)} ({_answered(life)})"
        return f"the verifiers' answers until {answers}, then the executor's reveal"
    return f"the executor's reveal until {by}, or its conviction after it"


def _by(deadline: int | None, block: int, pace: Pace) -> str:
    return "" if deadline is None else pace.block(deadline, block)


def _answered(life: Life) -> str:
    """How many of those have answered that the order pays; more may."""
    answered, asked = len(life.answers), life.order.verifiers
    return f"{answered} of {asked} answered" if answered <= asked else f"{answered} answered, {asked} asked for"


def _may_confirm(life: Life) -> bool:
    """Whether an answer is hidden yet, and counts."""
    return any(answer.root is None and not answer.exposed for answer in life.answers.values())
