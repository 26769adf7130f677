"""What open tasks and batches name: blobs that must not be collected."""

from collections.abc import Iterable, Iterator

from eigentensor.channel.life import BatchLife
from eigentensor.task import Life, Order


def names_of(life: Life) -> set[str]:
    """Roots that a task names: what it executes and binds, and its result, whoever told it."""
    return _hex((*_bound(life.order), life.outputs_root, *(answer.root for answer in life.answers.values())))


def names_of_batch(life: BatchLife) -> set[str]:
    """Roots that calls of a batch name that were shown or are disputed; the others' are known to its operator alone."""
    named: list[bytes | None] = []
    for shown, _ in life.shown:
        named += _bound(shown.order)
    for game in life.games.values():
        named += (*_bound(game.order), game.outputs_root)
    return _hex(named)


def _bound(order: Order) -> Iterator[bytes]:
    return iter((order.program, order.inputs, order.weights, order.states, order.variables))


def _hex(roots: Iterable[bytes | None]) -> set[str]:
    return {root.hex() for root in roots if root is not None and any(root)}
