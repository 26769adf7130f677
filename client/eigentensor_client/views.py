"""Reads how a task stands, all of it from the chain."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from eigentensor import economics
from eigentensor.chain import (
    Challenged,
    Ended,
    Event,
    GameEnded,
    GameView,
    Moved,
    Opened,
    Order,
    Paid,
    Reader,
    Slashed,
    Stage,
    State,
    TaskEvent,
    order_uuid,
    transcript,
)
from eigentensor_client.orders import price, stake
from eigentensor_client.results import TaskView


def view(chain: Reader, order: Order) -> TaskView:
    """The task of an order now, without its events."""
    p, uuid = chain.deployment.parameters, order_uuid(order, chain.deployment.domain)
    block, task, deadline = chain.block_number(), chain.task_at(uuid), chain.deadline_of(uuid)
    while (again := chain.task_at(uuid)) != task:  # it moved on in between: the deadline may be of either step
        task, deadline = again, chain.deadline_of(uuid)
    paid = price(order, task.accepted_at) if int(task.executor, 16) else None
    seed_block = economics.seed_block(task.committed_at, p.lag, p.grid) if task.committed_at else 0
    return TaskView(
        uuid=uuid.hex(),
        order=order,
        state=task.state,
        executor=None if paid is None else task.executor,
        price=paid,
        deadline=deadline,
        block=block,
        stake=None if paid is None else stake(p, order, paid),
        seed_block=seed_block,
        check_by=seed_block + order.exec + p.check if seed_block else 0,
        drawn=chain.is_drawn(order) if seed_block else None,
        answered=task.answered.bit_count(),
        agreed=task.agreed.bit_count(),
        differed=task.differed.bit_count(),
        games=open_games(happened(chain, order, uuid)) if task.state is State.REVEALED else (),
    )


def look(chain: Reader, order: Order) -> TaskView:
    """The task of an order now, with its events."""
    return with_events(chain, view(chain, order))


def payable_from(chain: Reader, task: TaskView) -> int | None:
    """The first block in which what was slashed for a task can be paid; None: nothing is slashed, or it is paid."""
    if task.state is not State.CONVICTED:
        return None
    said = {type(event): event for event in with_events(chain, task).events}
    slashed = said.get(Slashed)
    if not isinstance(slashed, Slashed) or Paid in said:
        return None
    return max(slashed.place.block, chain.payable_from(slashed.slash_id))


def with_events(chain: Reader, task: TaskView) -> TaskView:
    """The same with all that happened to it, in order."""
    events = happened(chain, task.order, bytes.fromhex(task.uuid))
    return replace(task, events=events, games=open_games(events) if task.state is State.REVEALED else ())


def happened(chain: Reader, order: Order, uuid: bytes) -> tuple[TaskEvent, ...]:
    """The events of a task, in order."""
    events = chain.events(max(chain.deployment.block, order.ramp_start))
    return tuple(e for e in events if isinstance(e, TaskEvent) and e.task == uuid)


def open_games(events: Iterable[TaskEvent]) -> tuple[int, ...]:
    """The numbers of the games about a task that have not ended, ascending."""
    games = [e for e in events if isinstance(e, Challenged | GameEnded)]
    return tuple(sorted({e.game_id for e in games} - {e.game_id for e in games if isinstance(e, GameEnded)}))


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
