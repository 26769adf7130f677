"""A game in words, drawn, and shown as it changes: who, on what, whose move, what follows.

Its facts are `eigentensor.challenge/1`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eigentensor.chain.game_words import crumb, follows, gas, stands, way
from eigentensor.pace import UNKNOWN, Pace
from eigentensor_client.amounts import Amount
from eigentensor_client.screen import Screen, View, facts, short, table
from eigentensor_client.tables import Table

Game = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Here:
    """From where a game is looked at: which account (None: nobody's), how amounts are written, and how long blocks
    take."""

    account: str | None
    amount: Amount
    pace: Pace = UNKNOWN


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
            crumb(game["path"][-1]) if game["path"] else "the result",
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
