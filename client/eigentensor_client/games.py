"""A game in words, drawn, and shown as it changes: who, on what, whose move, what follows.

Its facts are `eigentensor.challenge/1`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eigentensor.pace import UNKNOWN, Pace
from eigentensor.program import Program
from eigentensor.program.text import body_listing
from eigentensor_client.amounts import Amount
from eigentensor_client.screen import Screen, View, facts, short, table
from eigentensor_client.tables import Table

Game = dict[str, Any]

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


@dataclass(frozen=True, slots=True)
class Here:
    """From where a game is looked at: which account (None: nobody's), how amounts are written, and how long blocks
    take."""

    account: str | None
    amount: Amount
    pace: Pace = UNKNOWN


def _decides(game: Game) -> bool:
    """Whether somebody lost it, or still can. A game that is open when its task ends in another way does not count."""
    return bool(game["state"] == "open" or (game["state"] == "ended" and game["lost_by"]))


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


def gas(move: dict[str, Any]) -> str:
    """What a move's transaction used; the gateway may not know it yet."""
    return "–" if move["gas"] is None else f"{move['gas']:,}"


def way(path: Sequence[dict[str, Any]]) -> str:
    """The way down from the whole result to what is disputed, as a breadcrumb."""
    narrower = (
        part for part in path if not (part["part"] == "calls" and part["last"] + 1 - part["first"] == part["of"])
    )
    return " › ".join(["the result", *map(_crumb, narrower)])


def _crumb(part: dict[str, Any]) -> str:
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


def line(number: int, move: dict[str, Any]) -> str:
    """A move on one line."""
    return f"{number:2}  block {move['block']}  {move['by']:<10}  {gas(move):>9} gas  {move['what']}"


def news(before: Game | None, game: Game, here: Here) -> list[str]:
    """What to say of a game that was `before`, a line each: new moves, and then whose move it is, or how it ended."""
    known = 0
    if before is not None and before["moves"] == game["moves"][: len(before["moves"])]:
        known = len(before["moves"])
    moves = [line(n, move) for n, move in enumerate(game["moves"], 1) if n > known]
    if not moves and before is not None and before["state"] == game["state"]:
        return []
    if game["state"] == "open":
        until = here.pace.block(game["until"], game["block"])
        return [*moves, f"the {game['turn']}'s move until {until}"]
    return [*moves, stands(game), *(paid(payout, here) for payout in game["payouts"])]


def paid(payout: dict[str, Any], here: Here) -> str:
    """Who got what."""
    to = "you" if payout["to"] == here.account else short(payout["to"])
    return f"block {payout['block']}: {here.amount(int(payout['amount']))} to {to}: {payout['what']}"


def drawn(game: Game, here: Here, body: Sequence[str] = ()) -> list[str | Table]:
    """A game as a person sees it: players, clocks, stakes, the way down, every move, and what follows.

    `body` is the text of what the disputed call computes, where it is known.
    """
    rows = [
        ["game", f"{game['game']}, {stands(game, here.pace)}"],
        ["task", game["task"]],
        *([side, _player(game, side, here)] for side in ("executor", "challenger")),
        [
            "stakes",
            f"a bond of {here.amount(int(game['bond']))}; a conviction brings {here.amount(int(game['reward']))}",
        ],
        ["disputed", way(game["path"])],
        ["follows", f"{follows(game, here.pace)}; now block {game['block']}"],
        *(["paid", paid(payout, here)] for payout in game["payouts"]),
    ]
    moves = [
        [str(n), move["by"], move["what"], str(move["block"]), gas(move)] for n, move in enumerate(game["moves"], 1)
    ]
    text = [f"the disputed call computes {body[0]}", *body[1:], ""] if body else []
    return [facts(rows), "", *text, table(("move", "by", "what", "block", "gas"), moves), _spent(game)]


def overview(games: Sequence[Game], here: Here) -> Table:
    """Many games, a line each."""
    rows = [
        [
            str(game["game"]),
            short(game["task"]),
            f"{_who(game, 'challenger', here)} against {_who(game, 'executor', here)}",
            f"{game['turn']}, {here.pace.blocks(game['until'] - game['block'])}" if game["turn"] else stands(game),
            str(len(game["moves"])),
            _crumb(game["path"][-1]) if game["path"] else "the result",
        ]
        for game in games
    ]
    return table(("game", "task", "players", "to move", "moves", "disputed"), rows)


def _player(game: Game, side: str, here: Here) -> str:
    who = f"{game[side]}{' (you)' * (game[side] == here.account)}"
    if game["state"] != "open":
        return who
    runs = game["turn"] == side
    clock = max(0, game["until"] - game["block"]) if runs else game["clocks"][side]
    return f"{who}, {'its clock runs' if runs else 'on its clock'}: {here.pace.blocks(clock)}"


def _who(game: Game, side: str, here: Here) -> str:
    return "you" if game[side] == here.account else short(game[side])


def _spent(game: Game) -> str:
    """Gas by side; what anybody may send is the challenger's or a bystander's."""
    sums = {side: sum(m["gas"] or 0 for m in game["moves"] if m["by"] == side) for side in ("executor", "challenger")}
    count, total = len(game["moves"]), sum(m["gas"] or 0 for m in game["moves"])
    many = "1 transaction" if count == 1 else f"{count} transactions"
    return f"{many}, {total:,} gas: executor {sums['executor']:,}, challenger {sums['challenger']:,}"


def disputed_call(game: Game) -> int | None:
    """The executed call that the game is about, from 0 on; None before the challenger named one."""
    return int(game["position"]["number"]) if int(game["position"]["kernel"], 16) else None


def body(program: Program, number: int) -> list[str]:
    """The lines of the body that executed call `number`, from 0 on, evaluates."""
    return body_listing(program.bodies[program.calls[number % len(program.calls)].body])


class Following:
    """One game as its player sees it, or one or many as somebody who looks on does."""

    def __init__(self, screen: Screen, view: View, here: Here) -> None:
        self._screen = screen
        self._view = view
        self.here = here
        self._last: dict[int, Game] = {}

    def one(self, game: Game, doing: str = "") -> None:
        """Shows a game as it is now."""
        self._view(drawn(game, self.here), self._news(game), doing)

    def many(self, games: list[Game], doing: str = "") -> None:
        """Shows games as they are now, those that were open when one looked last included."""
        lines = [f"game {game['game']}: {line}" for game in games for line in self._news(game)]
        self._view([overview(games, self.here)] if games else [], lines, doing)

    def _news(self, game: Game) -> list[str]:
        before = self._last.get(game["game"])
        lines = news(before, game, self.here)
        if lines:
            self._last[game["game"]] = game
            self._screen.result(game["schema"], game)
        return lines


@contextmanager
def following(screen: Screen, here: Here) -> Iterator[Following]:
    """Until the block ends."""
    with screen.view() as view:
        yield Following(screen, view, here)
