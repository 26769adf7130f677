"""Receipts as a forger writes them: one thing changed, and all that follows from it written anew."""

import copy
from collections.abc import Iterator
from typing import Any

from eigentensor.errors import WrongReceipt
from eigentensor.receipt import Receipt, prove

_SOURCES = ("market", "order", "head", "events", "transactions", "software")
_OTHER = "0x1111111111111111111111111111111111111111"

#: What a forger can write without being found out offline, as patterns of names: each of it the chain refuses.
CHAIN_ONLY = (
    "head.*", "events.*.block", "events.*.block_hash", "events.*.log", "events.*.transaction",  # where it happened
    "market.parameters.*", "market.token.*", "checks.seats",  # what the market is, and who had seats in it
    "events.Exposed.data.caller", "events.Exposed dropped", "events.Seeded.proof.header",  # who sent it; another header
    "events.Revealed dropped", "events.Closed dropped", "events.Convicted dropped",  # whether anything is left out
    "events.Locked.data.shares", "events.Challenged.data.game_id", "events.Ended*", "events.Convicted.data.winner",
    "events.Settled*", "events.Unlocked*", "events.Slashed*", "events.StakeSlashed*", "events.Noted*",  # after the end
)  # fmt: skip
#: What nothing proves, as the file says itself: who wrote it, and a file that knows less. The chain refuses neither.
UNPROVED = ("software", "result.parts dropped", "events.*.proof dropped", "transactions.* dropped")


def extremes(receipt: Receipt) -> Iterator[Any]:
    """Files in which one number is nothing, or as large as can be."""
    value = receipt.to_json()
    for path in _source_leaves(value):
        leaf = _at(value, path)
        if type(leaf) is int or (isinstance(leaf, str) and leaf.isdigit()):
            for number in (0, (1 << 53) - 1, (1 << 64) - 1, (1 << 256) - 1):
                yield _with(value, path, type(leaf)(number))


def forgeries(receipt: Receipt) -> Iterator[tuple[str, Any]]:
    """The value of each forged file, before what follows is written anew, by the name of what was changed in it."""
    value = receipt.to_json()
    for path in _source_leaves(value):
        yield _named(value, path), _with(value, path, _changed(_at(value, path)))
    for half in ("outputs", "states"):
        if value["result"][half] is not None:
            yield f"result.{half}", _with(value, ("result", half), _changed(value["result"][half]))
    if value["result"]["outputs"] is not None:
        yield "result.parts dropped", _with(value, ("result",), value["result"] | {"outputs": None, "states": None})
    for name in ("events", "transactions"):
        for number, entry in enumerate(value[name]):
            less = value[name][:number] + value[name][number + 1 :]
            yield f"{name}.{entry.get('event', '*')} dropped", _with(value, (name,), less)
            yield f"{name}.{entry.get('event', '*')} doubled", _with(value, (name,), [*value[name], entry])
    for number, entry in enumerate(value["events"]):
        if entry["proof"] is not None:
            yield f"events.{entry['event']}.proof dropped", _with(value, ("events", number, "proof"), None)
        for other in {entry["event"] for entry in value["events"]} - {entry["event"]}:
            yield f"events.{entry['event']} renamed", _with(value, ("events", number, "event"), other)


def forged(value: Any) -> Receipt | WrongReceipt:
    """The forger's receipt if nothing offline refuses it, or the refusal."""
    try:
        receipt = Receipt.from_json(value)
        prove(Receipt.from_bytes(receipt.to_bytes()))
    except WrongReceipt as error:
        return error
    return receipt


def _source_leaves(value: Any) -> list[tuple[Any, ...]]:
    """Where that stands from which the rest follows."""
    leaves = [*_leaves({name: value[name] for name in _SOURCES}), ("checks", "seats")]
    return [path for path in leaves if path[0] != "transactions" or path[-1] == "raw"]


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if pairs is None:
        yield path
    else:
        for name, inner in pairs:
            yield from _leaves(inner, (*path, name))


def _changed(leaf: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(leaf, bool) or leaf is None:
        return not leaf
    if isinstance(leaf, int):
        return leaf + 1
    if leaf.isdigit():
        return str(int(leaf) + 1)
    if leaf.startswith("0x") and len(leaf) == len(_OTHER):
        return _OTHER
    if leaf.startswith("0x"):
        return leaf[:-1] + ("1" if leaf[-1] == "0" else "0")
    return {"verdict": "silence", "silence": "demand", "clock": "collect"}.get(leaf, leaf + "x")


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        value = value[name]
    return value


def _with(value: Any, path: tuple[Any, ...], leaf: Any) -> Any:
    value = copy.deepcopy(value)
    _at(value, path[:-1])[path[-1]] = leaf
    return value


def _named(value: Any, path: tuple[Any, ...]) -> str:
    """A path as people write it, with an event's name for its number."""
    words = [str(name) for name in path]
    if path[0] == "events":
        words[1] = value["events"][path[1]]["event"]
    return ".".join(words)
