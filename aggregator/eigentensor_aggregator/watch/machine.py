"""Which results to re-execute, which to challenge, which games to play on. Pure: what was seen, computed and drawn
comes in as data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter

from eigentensor import economics
from eigentensor.chain import from_wei
from eigentensor.dispute import Side, deadline_of
from eigentensor.economics import WAD, Parameters
from eigentensor.keccak import keccak
from eigentensor.task import Game, Life, State
from eigentensor.task.due import NEVER

#: Results that are re-executed at the same time.
LOOKS = 1


class Act(StrEnum):
    LOOK = "look"  # fetch what the order names, execute it, compare
    CHALLENGE = "challenge"  # post the bond
    PLAY = "play"  # one turn of an own game
    REFUND = "refund"  # take back the bond of an own game that another's victory made idle


class Verdict(StrEnum):
    AGREES = "agrees"
    DIFFERS = "differs"
    UNABLE = "unable"


@dataclass(frozen=True, slots=True)
class Look:
    """What came out of re-executing a claim. `words`: the outputs root that it should be, or why nobody can tell."""

    verdict: Verdict
    words: str


@dataclass(frozen=True, slots=True)
class Policy:
    """`address` challenges, None: nobody does. `share` (WAD) of all tasks is looked at, chosen by the secret `key`;
    `bonds` is what may be bound in games at once, in wei. With an `operator` its results alone are looked at."""

    parameters: Parameters
    address: str | None
    key: bytes
    share: int
    bonds: int
    operator: str | None = None

    def chooses(self, task: bytes) -> bool:
        """Whether the task is among those that are looked at: nobody else can tell beforehand."""
        return int.from_bytes(keccak(self.key + task), "big") % WAD < self.share

    def bond(self, life: Life) -> int:
        """Wei of the bond about this task, which somebody has accepted."""
        assert life.price is not None
        return economics.bond(self.parameters, life.price)


@dataclass(frozen=True, slots=True)
class Do:
    """An action. `claim` is the outputs root that a LOOK or a CHALLENGE is about, `game` that of a PLAY or REFUND."""

    act: Act
    task: bytes
    claim: bytes = b""
    game: int = 0


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known when something is to be decided: `funds` are the account's wei in the market and its tokens,
    `rests` says until which block an action is not to be begun (NEVER: while it is being done)."""

    block: int
    funds: int
    lives: Sequence[Life]
    looks: Mapping[tuple[bytes, bytes], Look]
    rests: Mapping[Do, int]

    def look(self, life: Life) -> Look | None:
        """What came of re-executing what the executor claims now."""
        return self.looks.get((life.uuid, life.outputs_root)) if life.outputs_root else None


def decide(policy: Policy, now: Situation) -> list[Do]:
    """What to begin: what has a clock first, the shortest before, then results, whose windows close first before."""
    lives = sorted(now.lives, key=lambda v: (_window(policy, v), v.uuid))
    played = sorted((turn for life in lives for turn in _games(policy, now, life)), key=itemgetter(0))
    actions = [do for _, do in played if _may(now, do)]
    bound, funds = bound_by(policy, now), now.funds - _coming(policy, now)
    for life in lives:
        do = _challenge(life)
        if _is_wrong(policy, now, life) and _may(now, do) and refusal(policy, funds, bound, life) is None:
            actions.append(do)
            bound, funds = bound + policy.bond(life), funds - policy.bond(life)
    looking = sum(do.act is Act.LOOK and by == NEVER for do, by in now.rests.items())
    open_ = [Do(Act.LOOK, v.uuid, v.outputs_root or b"") for v in lives if _is_open(policy, now, v)]
    return actions + [do for do in open_ if _may(now, do)][: max(0, LOOKS - looking)]


def refusal(policy: Policy, funds: int, bound: int, life: Life) -> str | None:
    """Why a wrong result is not challenged; None where it is. `bound` is what is in games already, in wei."""
    bond = policy.bond(life)
    if policy.address is None:
        return "there is no account that could"
    if bound + bond > policy.bonds:
        free = from_wei(max(0, policy.bonds - bound))
        return f"the bond is {from_wei(bond)}, and of the budget of {from_wei(policy.bonds)} only {free} is free"
    if funds < bond:
        return f"the bond is {from_wei(bond)}, and {policy.address} has {from_wei(funds)}"
    return None


def bound_by(policy: Policy, now: Situation) -> int:
    """Wei of bonds in own games that are played, and of those that are on their way."""
    played = (g.bond for v in now.lives for g in own_games(policy, v) if g.is_stranded)
    return _coming(policy, now) + sum(played)


def _coming(policy: Policy, now: Situation) -> int:
    """Wei of bonds that are on their way."""
    coming = (v for v in now.lives if now.rests.get(_challenge(v)) == NEVER and not own_games(policy, v))
    return sum(policy.bond(v) for v in coming)


def blocks_left(policy: Policy, life: Life, block: int) -> int:
    """Blocks after `block` in which a result can still be challenged."""
    return life.challenge_by - block


def own_games(policy: Policy, life: Life) -> list[Game]:
    """The games about the task that the policy's account opened, not as a drawn verifier."""
    return [g for g in life.games.values() if g.challenger == policy.address and life.answer_of(g) is None]


def words(policy: Policy, now: Situation, life: Life) -> str | None:
    """What is to be said of a task, in words; None: nothing yet."""
    if (look := now.look(life)) is None:
        return None
    match look.verdict:
        case Verdict.AGREES:
            return "agrees"
        case Verdict.UNABLE:
            return f"cannot tell: {look.words}"
    if games := own_games(policy, life):
        return f"differs: {_game_words(life, games[-1])}"
    if life.state is not State.REVEALED:
        return f"differs: {'convicted by somebody else' if life.state is State.CONVICTED else 'not challenged in time'}"
    if now.rests.get(_challenge(life)) == NEVER:
        return f"differs: challenging, since it should be {look.words}"
    no = refusal(policy, now.funds - _coming(policy, now), bound_by(policy, now), life)
    return f"differs, and is not challenged: {no}" if no else f"differs: challenging, since it should be {look.words}"


def _game_words(life: Life, game: Game) -> str:
    if life.state is State.CONVICTED and not game.counted:
        return f"game {game.number} is idle, the executor was convicted in another"
    if game.executor_lost is None:
        return f"challenged as game {game.number}"
    return f"game {game.number} " + ("convicted the executor" if game.executor_lost else "is lost, and its bond")


def short_clocks(policy: Policy, now: Situation) -> Iterator[tuple[Do, int]]:
    """Turns of this account with less than a third of its clock left, and the blocks that are left."""
    for life in now.lives:
        clock = economics.clock(policy.parameters, life.order.exec)
        for last, do in _games(policy, now, life):
            if now.block <= last < now.block + clock / 3:
                yield do, last - now.block


def _games(policy: Policy, now: Situation, life: Life) -> Iterator[tuple[int, Do]]:
    """What to do in own games, each with the last block of the clock that runs."""
    for game in own_games(policy, life):
        if life.state is State.CONVICTED and game.is_stranded:
            yield NEVER, Do(Act.REFUND, life.uuid, game=game.number)
        elif game.position is not None and life.state_of(game) == "open":
            last = deadline_of(game.position)
            if game.position.phase.side is Side.CHALLENGER or last < now.block + 1:
                yield last, Do(Act.PLAY, life.uuid, game=game.number)


def _is_wrong(policy: Policy, now: Situation, life: Life) -> bool:
    look = now.look(life)
    differs = look is not None and look.verdict is Verdict.DIFFERS
    return differs and _is_open_to_challenge(policy, now, life) and not own_games(policy, life)


def _is_open(policy: Policy, now: Situation, life: Life) -> bool:
    """Whether a result is still to be looked at."""
    chosen = policy.chooses(life.uuid) and policy.operator in (None, life.executor)
    return chosen and now.look(life) is None and _is_open_to_challenge(policy, now, life)


def _is_open_to_challenge(policy: Policy, now: Situation, life: Life) -> bool:
    return life.state is State.REVEALED and now.block + 1 <= life.challenge_by


def _challenge(life: Life) -> Do:
    return Do(Act.CHALLENGE, life.uuid, life.outputs_root or b"")


def _window(policy: Policy, life: Life) -> int:
    return life.challenge_by if life.revealed_at is not None else NEVER


def _may(now: Situation, do: Do) -> bool:
    return now.rests.get(do, 0) <= now.block
