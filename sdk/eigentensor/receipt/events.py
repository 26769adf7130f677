"""The events of a receipt as JSON, strictly: what is written has one form, and what is read fits its Solidity type."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_origin

from eigentensor.addresses import is_checksum_address
from eigentensor.receipt.evidence import FIELDS, Proof
from eigentensor.task import Event, Leaf, Moved, Opened, Order, Place, Seeded, TaskEvent
from eigentensor.task.events import KINDS

#: Everything that happens to one task but the moves of games, which `challenge show` tells.
NAMES: Mapping[str, type[Event]] = {
    name: kind
    for name, kind in KINDS.items()
    if kind is Seeded or (issubclass(kind, TaskEvent) and kind not in (Opened, Moved))
}
_BLOCKS = 1 << 53  # what a number in JSON carries everywhere


_BESIDE = ("task", "order")  # of an event, that stand beside the events


def event_to_json(event: Event, proof: Proof | None) -> dict[str, Any]:
    """An event with its place and what proves it. Task and order stand beside the events."""
    place = event.place
    return {
        "proof": proof and {name: "0x" + value.hex() for name, value in proof.items()},
        "event": type(event).__name__,
        "block": place.block,
        "block_hash": "0x" + place.block_hash.hex(),
        "transaction": "0x" + place.transaction.hex(),
        "log": place.index,
        "data": {name: value for name, value in event.arguments().items() if name not in _BESIDE},
    }


def event_from_json(value: Any, order: Order, task: bytes) -> Event:
    """Raises ValueError, KeyError, TypeError, AttributeError or TaskError for what is no event of a receipt."""
    place = Place(
        value["block"], value["log"], bytes.fromhex(value["block_hash"][2:]), bytes.fromhex(value["transaction"][2:])
    )
    if not all(type(n) is int and 0 <= n < _BLOCKS for n in (place.block, place.index)):
        raise ValueError("an event is at no place of a chain")
    beside = {"task": "0x" + task.hex(), "order": order.to_json()}
    event = NAMES[value["event"]].from_arguments(place, value["data"] | beside)
    for field in fields(event):
        if field.name != "place" and not _fits(field.type, field.name, getattr(event, field.name)):
            raise ValueError(f"{field.name} of {value['event']} is malformed")
    if not len(place.block_hash) == len(place.transaction) == 32:
        raise ValueError("a hash has not 32 bytes")
    return event


def proof_from_json(value: Any) -> Proof | None:
    """Raises as `event_from_json`."""
    if (parts := value["proof"]) is None:
        return None
    names = FIELDS[NAMES[value["event"]]]
    proof = {name: bytes.fromhex(parts[name][2:]) for name in names}
    if any(len(proof[name]) != 32 for name in names if name in ("outputs_root", "salt")):
        raise ValueError(f"the proof of {value['event']} is malformed")
    return proof


def _fits(kind: Any, name: str, value: Any) -> bool:
    """Whether a value fits its declared type: what is read as text or left as it is can still be anything."""
    if get_origin(kind) is tuple:
        return all(_fits(get_args(kind)[0], name, item) for item in value)
    if kind is bytes:
        return len(value) == 32 or name == "data"
    if kind is str:
        return bool(is_checksum_address(value))
    if kind is int:
        return bool(0 <= value < 1 << 256)
    if kind is Leaf:
        return all(_fits(f.type, f.name, getattr(value, f.name)) for f in fields(Leaf))
    return isinstance(value, kind)
