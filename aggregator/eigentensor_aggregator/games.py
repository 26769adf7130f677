"""A game in words, move by move: what `GET /v1/challenges/{id}` says."""

from collections.abc import Sequence
from typing import Any

from eth_abi.abi import decode

from eigentensor.chain import Ended, Event, Moved, Opened
from eigentensor.dispute import FINAL, Phase, Position, deadline_of
from eigentensor_aggregator.store import Sent
from eigentensor_aggregator.tables import GameRow
from eigentensor_aggregator.tasks import Game, TaskView

#: Both players of a move are known by the phase that it was made in.
_NAMES = {
    Phase.PUBLISH: "publish",
    Phase.CALL: "pick_call",
    Phase.TREE: "descend",
    Phase.NODE: "pick_node",
    Phase.LEAF: "show_leaf",
    Phase.ELEMENT: "pick_reduction",
    Phase.BORDERS: "claim_borders",
    Phase.SPAN: "pick_span",
    Phase.VERDICT: "verdict",
}


def row(game: GameRow) -> dict[str, Any]:
    """A game in a list."""
    return {
        "game": game.game,
        "task": game.task,
        "executor": game.executor,
        "challenger": game.challenger,
        "state": game.state,
        "opened": game.opened_block,
    }


def explained(view: TaskView, game: Game, happened: Sequence[tuple[Event, Sent | None]], block: int) -> dict[str, Any]:
    """A game with its position, its clocks and every move so far."""
    said = {
        "schema": "eigentensor.challenge/1",
        "game": game.number,
        "task": view.task.hex(),
        "executor": view.executor,
        "challenger": game.challenger,
        "bond": str(game.bond),
        "state": view.state_of(game),
        "lost_by": None if game.executor_lost is None else _loser(game.executor_lost),
        "block": block,
        "moves": _moves(game.number, happened),
    }
    positions = [e for e, _ in happened if isinstance(e, Opened | Moved) and e.game_id == game.number]
    ended = next((e for e, _ in happened if isinstance(e, Ended) and e.game_id == game.number), None)
    said["why"] = ended.reason.name.lower() if ended else None
    said["position"] = positions[-1].arguments()["position"] if positions else None
    return said | _standing(game, is_open=view.state_of(game) == "open")


def _standing(game: Game, *, is_open: bool) -> dict[str, Any]:
    position = game.position
    if position is None:
        return {"phase": None, "turn": None, "until": None, "clocks": None, "about": None}
    side = position.phase.side if is_open else None
    return {
        "phase": position.phase.name.lower(),
        "turn": side.name.lower() if side is not None else None,
        "until": deadline_of(position) if side is not None else None,
        "clocks": {"executor": position.executor_left, "challenger": position.challenger_left},
        "about": about(position),
    }


def about(position: Position) -> str:
    """What is disputed by now, in words."""
    if position.phase in (Phase.PUBLISH, Phase.CALL):
        return "the whole result"
    call = f"executed call {position.number}"
    if position.phase in (Phase.TREE, Phase.NODE):
        return f"{call}, node {position.index} at level {position.level} of its tensor"
    if position.phase in (Phase.LEAF, Phase.ELEMENT):
        return f"{call}, leaf {position.index} of its tensor"
    element = f"{call}, element {position.element}"
    if position.reduction == FINAL:
        return f"{element}, the final expression"
    return f"{element}, reduction {position.reduction}, steps {position.low} to {position.high}"


def _moves(number: int, happened: Sequence[tuple[Event, Sent | None]]) -> list[dict[str, Any]]:
    moves: list[dict[str, Any]] = []
    before: Position | None = None
    for event, sent in happened:
        if not isinstance(event, Opened | Moved | Ended) or event.game_id != number:
            continue
        by, name, what = _move(before, event)
        moves.append(
            {
                "by": by,
                "account": sent.sender if sent else None,
                "move": name,
                "what": what,
                "block": event.place.block,
                "transaction": "0x" + event.place.transaction.hex(),
                "gas": sent.gas if sent else None,
            }
        )
        before = before if isinstance(event, Ended) else event.position
    return moves


def _move(before: Position | None, event: Opened | Moved | Ended) -> tuple[str, str, str]:
    """By whom, which move, and what it did."""
    if isinstance(event, Opened) or before is None:
        return "challenger", "challenge", "claims that the result is wrong"
    by = before.phase.side.name.lower()
    if isinstance(event, Ended):
        return _end(by, before, event)
    return by, _NAMES[before.phase], _what(before, event.position, event.data)


def _end(by: str, before: Position, event: Ended) -> tuple[str, str, str]:
    loser = _loser(event.executor_lost)
    match event.reason.name:
        case "CLOCK":
            return "anybody", "timeout", f"the {loser}'s clock is over: it loses"
        case "COLLECT":
            relation = "another outputs root than it revealed" if event.executor_lost else "the outputs root revealed"
            return by, "collect", f"the executor's call roots imply {relation}: the {loser} loses"
        case "DETERMINED":
            return by, _NAMES[before.phase], f"what the executor published cannot be: the {loser} loses"
        case _:
            relation = "another value than" if event.executor_lost else "the value that"
            return by, "verdict", f"the referee computes {relation} the executor claims: the {loser} loses"


def _what(before: Position, after: Position, data: bytes) -> str:
    match before.phase:
        case Phase.PUBLISH:
            calls = decode(["bytes32", "bytes32", "bytes32[]"], data)[2]
            return f"published the tensor roots of all executed calls: {len(calls):,}"
        case Phase.TREE:
            return f"published {len(decode(['bytes32[]'], data)[0])} hashes of the tree below"
        case Phase.LEAF:
            return f"showed leaf {after.index}, and the results of the reductions of its elements"
        case Phase.BORDERS:
            return f"published the accumulators between spans of steps {before.low} to {before.high}"
        case _:
            return f"disputes {about(after)}"


def _loser(executor_lost: bool) -> str:
    return "executor" if executor_lost else "challenger"
