"""Reads how a game stands, and a slash, all of it from the chain."""

from typing import Any

from eigentensor.chain import GameView, Reader, Stage, transcript
from eigentensor.task import Ended, Event, Life, Moved, Opened


def payable_from(chain: Reader, life: Life) -> int | None:
    """The first block in which what was slashed for a task can be paid; None: nothing is slashed, or it is paid."""
    conviction = life.conviction
    if conviction is None or conviction.slash is None or conviction.paid is not None:
        return None
    return max(conviction.slashed_at, chain.payable_from(conviction.slash[0]))


#: Senders of transactions, and the gas that these used.
Sent = dict[bytes, tuple[str, int]]


def game(chain: Reader, number: int, known: Sent) -> dict[str, Any]:
    """A game now, as the gateway tells it too (`eigentensor.challenge/1`). `known` keeps what does not change.

    Raises ChainError if there is no such game.
    """
    block, played = chain.block_number(), chain.game(number)
    state = _state_of(chain, played)
    first = chain.task_at(played.task).accepted_at
    told = [chain.posted(played.task), *(e for e in chain.events_of(played.task, first) if not _is_move(e))]
    own = [played.opened, *played.moves, *([played.ended] if played.ended else [])]
    for event in own:
        if event.place.transaction not in known and (receipt := chain.receipt(event.place.transaction)) is not None:
            known[event.place.transaction] = str(receipt["from"]), receipt["gasUsed"]
    happened = sorted({event.place: event for event in (*told, *own)}.values(), key=lambda event: event.place)
    sent = [(event, known.get(event.place.transaction)) for event in happened]
    return transcript(number, sent, state=state, block=block, parameters=chain.deployment.parameters)


def _is_move(event: Event) -> bool:
    return isinstance(event, Opened | Moved | Ended)


def _state_of(chain: Reader, played: GameView) -> str:
    """`open`, `ended`, or `idle`: its task ended before it did, and its bond is not back."""
    if not chain.task_at(played.task).state.is_terminal:
        return "open" if played.ended is None else "ended"
    bond = chain.challenge_of(played.task, played.game_id)
    paid = bond.slot and chain.answer_of(played.task, bond.slot - 1).stage is Stage.PAID
    return "ended" if bond.ended or paid else "idle"
