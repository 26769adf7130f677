"""What an operator committed of a channel, held to what its client was answered. Pure.

A client signs all results that it has before they are committed: so a commit can differ from its receipts in the tail
alone, or leave calls out. Both convict by what both sides signed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eigentensor import merkle
from eigentensor.channel import Line, Sheet
from eigentensor_client.channels.ledger import Call, leaves


@dataclass(frozen=True, slots=True)
class Omitted:
    """A call whose receipt names the batch, which leaves it out: `accuse` convicts."""

    call: Call


@dataclass(frozen=True, slots=True)
class Contradicted:
    """A call that was committed with another result than its receipt has: `contradict_leaf` convicts."""

    call: Call
    leaf: bytes
    """That stands in its place."""
    path: tuple[bytes, ...]
    """Its siblings, upwards, under the line."""


@dataclass(frozen=True, slots=True)
class Unexplained:
    """A line that is not what this client has signed and was answered, without a proof of it."""

    why: str


Finding = Omitted | Contradicted | Unexplained


def compare(calls: Sequence[Call], number: int, count: int, line: Line | None, sheet: Sheet | None) -> Finding | None:
    """What is wrong with a channel's line in batch `number`; None: nothing.

    `calls` are all that were responded to, from the first one; `count` are those that stand in earlier batches. `line`
    is None where the batch, or what can still be committed, has none of the channel; `sheet` is what the commit brought
    of it, where that is known.
    """
    stop = count if line is None else line.first + line.count
    for call in calls[stop:]:
        if call.receipt.number == number:
            return Omitted(call)
    if line is None:
        return None
    if len(calls) >= stop and merkle.tree_root(leaves(calls[:stop])) == line.root:
        return None
    return _in_tail(calls, line, stop, sheet)


def _in_tail(calls: Sequence[Call], line: Line, stop: int, sheet: Sheet | None) -> Finding | None:
    """The first call of a commit's tail that differs from its receipt."""
    if sheet is None:
        return Unexplained("its root is another one, and the transaction of its commit cannot be read")
    if sheet.acked > len(calls):
        return Unexplained(f"{sheet.acked} results were acknowledged, {len(calls)} are known here")
    own = leaves(calls)
    committed = [*own[: sheet.acked], *sheet.leaves(line.channel)]
    if len(committed) != stop or merkle.tree_root(committed) != line.root:
        return Unexplained("its root follows neither from what was answered nor from the tail of its commit")
    for index in range(sheet.acked, min(stop, len(calls))):
        if committed[index] != own[index]:
            return Contradicted(calls[index], committed[index], merkle.path(committed, index))
    return None  # calls whose responses are under way still
