"""A game in words. It is what the gateway says of it (`eigentensor.challenge/1`). Pure."""

from typing import Any

from eigentensor.program import Program
from eigentensor.program.text import body_listing

_FOLLOWS = {
    "publish": "the executor publishes the result roots of all calls that it executed, bound to its outputs root",
    "call": "the challenger names the first call whose result it rejects",
    "tree": "the executor opens the tree over that result",
    "node": "the challenger names the first part that it rejects",
    "leaf": "the executor shows the 1,024 bytes of that part, and what each reduction of its elements came to",
    "element": "the challenger names one element, and the reduction of it, or what was made of them, that it rejects",
    "borders": "the executor says the values inside that reduction",
    "span": "the challenger names the first steps between two of them that it rejects",
    "verdict": "anybody shows the operands of that one step; the referee evaluates it and decides",
}


def _decides(game: dict[str, Any]) -> bool:
    """Whether somebody lost it, or still can. A game that is open when its task ends in another way does not count."""
    return bool(game["state"] == "open" or (game["state"] == "ended" and game["lost_by"]))


def stands(game: dict[str, Any]) -> str:
    """How a game stands, in a few words."""
    if not _decides(game):
        return "over without a loser: its task ended first"
    if game["state"] == "ended":
        return f"ended: the {game['lost_by']} lost"
    return f"open, the {game['turn']}'s move until block {game['until']}"


def follows(game: dict[str, Any]) -> str:
    """What happens next, and what if it does not."""
    if not _decides(game):
        return "nothing: the executor was convicted otherwise, and the challenger's bond comes back"
    if game["state"] == "ended":
        if game["lost_by"] == "executor":
            return "the client has its escrow back; the executor's stake is slashed when the verifiers' time is over"
        return "the challenger's bond is gone; whether the result is right is as open as before"
    return f"{_FOLLOWS[game['phase']]}; if nothing comes until block {game['until']}, the {game['turn']} loses"


def gas(move: dict[str, Any]) -> str:
    """What a move's transaction used; the gateway may not know it yet."""
    return "–" if move["gas"] is None else f"{move['gas']:,}"


def disputed_call(game: dict[str, Any]) -> int | None:
    """The executed call that the game is about, from 0 on; None before the challenger named one."""
    return int(game["position"]["number"]) if int(game["position"]["kernel"], 16) else None


def body(program: Program, number: int) -> list[str]:
    """The lines of the body that executed call `number`, from 0 on, evaluates."""
    return body_listing(program.bodies[program.calls[number % len(program.calls)].body])
