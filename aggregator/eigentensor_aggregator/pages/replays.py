"""A game as it stood after any of its moves: players and clocks, both trees, the verdict, the money. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eigentensor import economics
from eigentensor.chain import game_words
from eigentensor.chain.transcript import Happened, transcript
from eigentensor.dispute.judged import Judged
from eigentensor.dispute.position import Side
from eigentensor.pace import Pace
from eigentensor.task import Ended, Life, Moved, Opened, Revealed
from eigentensor.task.events import Event
from eigentensor_aggregator.pages.descents import levels
from eigentensor_aggregator.pages.flows import Flow, flows
from eigentensor_aggregator.pages.trees import Drawing, drawing
from eigentensor_aggregator.pages.verdicts import Verdict, verdict


@dataclass(frozen=True, slots=True)
class Player:
    """A side of a game: its account, the blocks that are left of `whole` on its clock, whether that runs, and the gas
    of its moves."""

    side: str
    account: str
    left: int
    whole: int
    runs: bool
    gas: int
    moves: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A game after move `move` of `last`. `game` are its facts at that time (`eigentensor.challenge/1`), `all_moves`
    those of the moves that are known now."""

    number: int
    move: int
    last: int
    game: Mapping[str, Any]
    all_moves: Sequence[Mapping[str, Any]]
    players: tuple[Player, Player]
    trees: tuple[Drawing, Drawing]
    verdict: Verdict | None
    flows: Sequence[Flow]
    collateral: int | None
    follows: str
    way: str

    @property
    def gas(self) -> int:
        """Of all moves so far."""
        return sum(move["gas"] or 0 for move in self.game["moves"])

    @property
    def is_replay(self) -> bool:
        """Whether there are moves after this one."""
        return self.move < self.last


def moves_of(happened: Happened, number: int) -> list[Opened | Moved | Ended]:
    """The opening of a game, its moves, its end, as far as they happened."""
    own = (event for event, _ in happened if getattr(event, "game_id", None) == number)
    return [event for event in own if isinstance(event, Opened | Moved | Ended)]


def shown(
    life: Life,
    happened: Happened,
    number: int,
    move: int,
    *,
    block: int,
    pace: Pace,
    judged: Judged | None = None,
) -> Shown:
    """The page of a game of a task, after one of its moves, counted from 1; the last one is told as of `block`.

    `happened` is everything that is known of the task, `judged` the step that the game ended with.
    """
    moves = moves_of(happened, number)
    whole = transcript(
        number, happened, state=life.state_of(life.games[number]), block=block, parameters=life.parameters
    )
    game, now = whole, block
    if move < len(moves):
        now = moves[move - 1].place.block
        before = [pair for pair in happened if pair[0].place < moves[move].place]
        game = transcript(number, before, state="open", block=now, parameters=life.parameters)
    events = [event for event, _ in happened]
    is_over = move == len(moves) and judged is not None
    found = levels(_claimed(life), [m for m in moves[:move] if not isinstance(m, Ended)], judged if is_over else None)
    found_out = verdict(judged) if is_over and judged is not None else None
    computed = found_out.computed.value if found_out is not None and found_out.is_wrong else None
    clock = economics.clock(life.parameters, life.order.exec)
    return Shown(
        number,
        move,
        len(moves),
        game,
        whole["moves"],
        (_player(game, Side.EXECUTOR, clock), _player(game, Side.CHALLENGER, clock)),
        (drawing("executor", found), drawing("challenger", found, _own(events, moves[0]), computed)),
        found_out,
        flows(life, number, now) if move == len(moves) else (),
        life.collateral,
        game_words.follows(game, pace) if move == len(moves) else game_words.follows(game).partition(";")[0],
        game_words.way(game["path"]),
    )


def _player(game: Mapping[str, Any], side: Side, whole: int) -> Player:
    name = side.name.lower()
    runs, left = game["turn"] == name, game["clocks"][name]
    if runs:
        left = max(0, game["until"] - game["block"])
    own = [move for move in game["moves"] if move["by"] == name]
    return Player(name, game[name], left, whole, runs, sum(move["gas"] or 0 for move in own), len(own))


def _claimed(life: Life) -> bytes:
    return life.outputs_root or bytes(32)


def _own(events: Sequence[Event], opened: Opened | Moved | Ended) -> bytes | None:
    """The outputs root that a challenger itself revealed, with which it opened the game as a drawn verifier."""
    roots = (
        e.outputs_root
        for e in events
        if isinstance(e, Revealed) and e.slot and e.place.transaction == opened.place.transaction
    )
    return next(roots, None)
