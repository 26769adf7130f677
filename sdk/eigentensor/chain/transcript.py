"""A game as one JSON object, `eigentensor.challenge/1`, of gateway and command alike. Pure.

Amounts are wei as decimal strings, times are blocks, roots and bytes are hex. aggregator/README.md has the fields.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from eigentensor import economics
from eigentensor.abi import decode
from eigentensor.chain.descent import about, descended
from eigentensor.chain.payouts import payouts
from eigentensor.dispute.encoding import unpacked
from eigentensor.dispute.entries import elements_of, reduction_types
from eigentensor.dispute.position import FINAL, Phase, Position, deadline_of
from eigentensor.dispute.rules import borders_of
from eigentensor.economics import Parameters
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import widen
from eigentensor.numerics.storage import STORAGE
from eigentensor.task.events import Accepted, Challenged, Ended, Event, Moved, Opened
from eigentensor.texts import documented

SCHEMA = "eigentensor.challenge/1"
#: The events of a task in order, each with its sender and the gas of its transaction, where they are known.
Happened = Sequence[tuple[Event, tuple[str, int] | None]]

#: What is done in a phase, unless the phase after it is more exact.
_NAMES = {
    "publish": "publish", "call": "pick_call", "trace": "descend", "outputs": "show_outputs",
    "result": "judge_result", "tree": "descend", "node": "pick_node", "leaf": "show_leaf",
    "element": "pick_reduction", "borders": "claim_borders", "span": "pick_span", "verdict": "verdict",
}  # fmt: skip
_BRANCHES = {("call", "trace"): "pick_node", ("call", "outputs"): "ask_outputs"}


@documented
class Value(TypedDict):
    """An element of a tensor."""

    dtype: str
    """float32, int32, bool, …"""
    bits: str
    """Its bits, as hex."""
    value: str
    """What they mean: the shortest decimal that stands for no other value of its type."""


def transcript(number: int, happened: Happened, *, state: str, block: int, parameters: Parameters) -> dict[str, Any]:
    """Everything about a game that was opened: players, stakes, every move with what it published, outcome, payouts.

    `state` is what the market makes of it: `open`, `ended`, or `idle`.
    """
    events = [event for event, _ in happened]
    own = [(event, sent) for event, sent in happened if getattr(event, "game_id", None) == number]
    opened = next(event for event, _ in own if isinstance(event, Opened))
    ended = next((event for event, _ in own if isinstance(event, Ended)), None)
    bond = next((event.bond for event, _ in own if isinstance(event, Challenged)), 0)
    positions = [event.position for event, _ in own if isinstance(event, Opened | Moved)]
    price = next((event.price for event in events if isinstance(event, Accepted)), 0)
    position = positions[-1]
    side = position.phase.side if state == "open" else None
    return {
        "schema": SCHEMA,
        "game": number,
        "task": opened.task.hex(),
        "executor": position.executor,
        "challenger": opened.challenger,
        "bond": str(bond),
        "reward": str(economics.reward(parameters, price)),
        "state": state,
        "lost_by": _loser(ended.executor_lost) if ended else None,
        "why": ended.reason.name.lower() if ended else None,
        "opened": opened.place.block,
        "block": block,
        "phase": position.phase.name.lower(),
        "turn": side.name.lower() if side is not None else None,
        "until": deadline_of(position) if side is not None else None,
        "clocks": _clocks(position),
        "about": about(position),
        "path": [part.to_json() for part in descended(positions)],
        "position": _position(opened, own),
        "moves": _moves(own),
        "payouts": payouts(opened, events, parameters),
    }


def typed(dtype: DType, pattern: int) -> Value:
    """A value with its bits."""
    stored = np.array([pattern], f"u{dtype.size}").view(STORAGE[dtype])
    value = (widen(dtype, stored) if dtype is DType.BFLOAT16 else stored)[0]
    return {"dtype": dtype.name.lower(), "value": str(value).lower(), "bits": f"0x{pattern:0{2 * dtype.size}x}"}


def _clocks(position: Position) -> dict[str, int]:
    return {"executor": position.executor_left, "challenger": position.challenger_left}


def _position(opened: Opened, own: Happened) -> Any:
    last: Opened | Moved = next((e for e, _ in reversed(own) if isinstance(e, Moved)), opened)
    return last.arguments()["position"]


def _moves(own: Happened) -> list[dict[str, Any]]:
    moves: list[dict[str, Any]] = []
    positions: list[Position] = []
    for event, sent in own:
        if not isinstance(event, Opened | Moved | Ended):
            continue
        by, name, what = _move(positions[-1] if positions else None, event)
        move = {
            "by": by,
            "account": sent[0] if sent else None,
            "move": name,
            "what": what,
            "block": event.place.block,
            "transaction": "0x" + event.place.transaction.hex(),
            "gas": sent[1] if sent else None,
        }
        if isinstance(event, Ended):
            moves.append(move | {"phase": None, "clocks": None, "path": None, "position": None, "data": {}})
            continue
        after = event.position
        data = _data(positions[-1], after, event.data) if isinstance(event, Moved) else {}
        positions.append(after)
        moves.append(
            move
            | {
                "phase": after.phase.name.lower(),
                "clocks": _clocks(after),
                "path": [part.to_json() for part in descended(positions)],
                "position": event.arguments()["position"],
                "data": data,
            }
        )
    return moves


def _move(before: Position | None, event: Opened | Moved | Ended) -> tuple[str, str, str]:
    """By whom, which move, and what it did."""
    if isinstance(event, Opened) or before is None:
        return "challenger", "challenge", "claims that the result is wrong"
    by, phase = before.phase.side.name.lower(), before.phase.name.lower()
    if isinstance(event, Ended):
        return _end(by, _NAMES[phase], event)
    after = event.position
    name = _BRANCHES.get((phase, after.phase.name.lower()), _NAMES[phase])
    return by, name, _what(before, after, event.data)


def _end(by: str, name: str, event: Ended) -> tuple[str, str, str]:
    loser = _loser(event.executor_lost)
    match event.reason.name:
        case "CLOCK":
            return "anybody", "timeout", f"the {loser}'s clock is over: it loses"
        case "COLLECT":
            relation = "another outputs root than it revealed" if event.executor_lost else "the outputs root revealed"
            what = f"the executor's call roots imply {relation}: the {loser} loses"
            return by, name if name == _NAMES["result"] else "collect", what
        case "DETERMINED":
            return by, name, f"what the executor published cannot be: the {loser} loses"
        case _:
            relation = "another value than" if event.executor_lost else "the value that"
            return by, "verdict", f"the referee computes {relation} the executor claims: the {loser} loses"


def _what(before: Position, after: Position, data: bytes) -> str:
    match before.phase:
        case Phase.PUBLISH:
            hashes = f"{len(_hashes(data)):,} hashes of the tree over"
            nodes = hashes if after.level > after.opened else "the tensor roots of"
            return f"published {nodes} all executed calls: {after.elements - 1:,}"
        case Phase.TRACE:
            return f"published {len(_hashes(data)):,} hashes of the tree over {about(after)}"
        case Phase.CALL if after.phase is Phase.OUTPUTS:
            return "disputes which results the outputs root is made of"
        case Phase.OUTPUTS:
            return f"showed the {sum(map(len, _results(data))):,} results that the outputs root is made of"
        case Phase.TREE:
            return f"published {len(_hashes(data)):,} hashes of the tree below"
        case Phase.LEAF:
            return f"showed leaf {after.index}, and the results of the reductions of its elements"
        case Phase.BORDERS:
            return f"published the accumulators between spans of steps {before.low} to {before.high}"
        case _:
            return f"published {len(data):,} bytes" if data else f"disputes {about(after)}"


def _data(before: Position, after: Position, data: bytes) -> dict[str, Any]:
    """What a move published, or picked: bytes as hex, values with their types."""
    match before.phase:
        case Phase.PUBLISH | Phase.TRACE | Phase.TREE:
            return {"level": after.level - after.opened, "nodes": ["0x" + node.hex() for node in _hashes(data)]}
        case Phase.OUTPUTS:
            shown = zip(("outputs", "states"), _results(data), strict=True)
            return {kind: ["0x" + one.hex() for one in roots] for kind, roots in shown}
        case Phase.LEAF:
            leaf, results = decode(["bytes", "bytes"], data)
            elements, types = elements_of(after), reduction_types(after)
            return {
                "dtype": DType(after.dtype).name.lower(),
                "elements": [elements.start, elements.stop - 1],
                "leaf": "0x" + leaf.hex(),
                "reductions": [dtype.name.lower() for dtype in types],
                "results": "0x" + results.hex(),
            }
        case Phase.BORDERS:
            (values,), dtype = decode(["bytes"], data), reduction_types(before)[before.reduction]
            accumulators, steps = unpacked([dtype] * len(borders_of(before)), values), borders_of(before)
            return {"borders": [{"step": step, **typed(dtype, v)} for step, v in zip(steps, accumulators, strict=True)]}
        case _ if after.phase in (Phase.BORDERS, Phase.VERDICT):
            return _picked(after)
    return {"bytes": "0x" + data.hex()} if data else {}


def _picked(position: Position) -> dict[str, Any]:
    """What the executor claims of the disputed element, or at both ends of the disputed steps."""
    if position.reduction == FINAL:
        return {"stored": typed(DType(position.dtype), position.high_value)}
    dtype = reduction_types(position)[position.reduction]
    ends = (("before", position.low, position.low_value), ("after", position.high, position.high_value))
    return {word: {"step": step, **typed(dtype, value)} for word, step, value in ends}


def _hashes(data: bytes) -> Sequence[bytes]:
    hashes: Sequence[bytes] = decode(["bytes32[]"], data)[0]
    return hashes


def _results(data: bytes) -> Sequence[Sequence[bytes]]:
    """The leaves of the trees over outputs and new states."""
    results: Sequence[Sequence[bytes]] = decode(["bytes32[]", "bytes32[]"], data)
    return results


def _loser(executor_lost: bool) -> str:
    return "executor" if executor_lost else "challenger"
