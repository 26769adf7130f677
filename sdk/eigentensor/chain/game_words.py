"""A game in words: how it stands, what follows, what is disputed. Its facts are `eigentensor.challenge/1`. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from eigentensor.pace import UNKNOWN, Pace
from eigentensor.program.model import Program
from eigentensor.program.text import body_listing

Game = Mapping[str, Any]

_FOLLOWS = {
    "publish": "the executor publishes the result roots of all calls that it executed, bound to its outputs root",
    "call": "the challenger names the first call whose result it rejects, or the part of the calls that it is in",
    "trace": "the executor opens the tree over the result roots of these calls",
    "outputs": "the executor shows which results its outputs root is made of",
    "result": "the challenger names the first of these results that it rejects",
    "tree": "the executor opens the tree over that result",
    "node": "the challenger names the first part that it rejects",
    "leaf": "the executor shows the 1,024 bytes of that part, and what each reduction of its elements came to",
    "element": "the challenger names one element, and the reduction of it, or what was made of them, that it rejects",
    "borders": "the executor says the values inside that reduction",
    "span": "the challenger names the first steps between two of them that it rejects",
    "verdict": "anybody shows the operands of that one step; the referee evaluates it and decides",
}


def stands(game: Game, pace: Pace = UNKNOWN) -> str:
    """How a game stands, in a few words."""
    if not _decides(game):
        return "over without a loser: its task ended first"
    if game["state"] == "ended":
        return f"ended: the {game['lost_by']} lost"
    return f"open, the {game['turn']}'s move until {pace.block(game['until'], game['block'])}"


def follows(game: Game, pace: Pace = UNKNOWN) -> str:
    """What happens next, and what if it does not."""
    if not _decides(game):
        return "nothing: the executor was convicted otherwise, and the challenger's bond comes back"
    if game["state"] == "ended":
        if game["lost_by"] == "executor":
            return "the client has its escrow back; the executor's stake is slashed when the verifiers' time is over"
        return "the challenger's bond is gone; whether the result is right is as open as before"
    what = _FOLLOWS.get(game["phase"], f"the {game['turn']} moves")
    until = pace.block(game["until"], game["block"])
    return f"{what}; if nothing comes until {until}, the {game['turn']} loses"


def gas(move: Mapping[str, Any]) -> str:
    """What a move's transaction used; the gateway may not know it yet."""
    return "–" if move["gas"] is None else f"{move['gas']:,}"


def way(path: Sequence[Mapping[str, Any]]) -> str:
    """The way down from the whole result to what is disputed, as a breadcrumb."""
    narrower = (
        part for part in path if not (part["part"] == "calls" and part["last"] + 1 - part["first"] == part["of"])
    )
    return " › ".join(["the result", *map(crumb, narrower)])


def crumb(part: Mapping[str, Any]) -> str:
    """A part of a result that is disputed, by its numbers."""
    name, first, last, of = part["part"], part["first"], part["last"], part["of"]
    if name == "expression":
        return "the final expression"
    if first == last:
        name = {"calls": "call", "leaves": "leaf", "steps": "step"}.get(name, name)
        numbers = f"{first:,}"
    else:
        numbers = f"{first:,}–{last:,}"
    many = f" of {of:,}" if of is not None and of > last - first + 1 else ""
    elements = part["elements"] and "elements {:,}–{:,}".format(*part["elements"])
    return f"{name} {numbers}{many}{f' ({elements})' if elements else ''}"


def disputed_call(game: Game) -> int | None:
    """The executed call that the game is about, from 0 on; None before the challenger named one."""
    return int(game["position"]["number"]) if int(game["position"]["kernel"], 16) else None


def disputed_body(program: Program, number: int) -> list[str]:
    """The lines of the body that executed call `number`, from 0 on, evaluates."""
    return body_listing(program.bodies[program.calls[number % len(program.calls)].body])


def _decides(game: Game) -> bool:
    """Whether somebody lost it, or still can. A game that is open when its task ends in another way does not count."""
    return bool(game["state"] == "open" or (game["state"] == "ended" and game["lost_by"]))
