"""Reads how a task stands, all of it from the chain."""

from dataclasses import replace

from eigentensor import economics
from eigentensor.chain import Order, Reader, TaskEvent, order_uuid
from eigentensor_client.orders import price, stake
from eigentensor_client.results import TaskView


def view(chain: Reader, order: Order) -> TaskView:
    """The task of an order now, without its events."""
    p, uuid = chain.deployment.parameters, order_uuid(order, chain.deployment.domain)
    block, task = chain.block_number(), chain.task_at(uuid)
    paid = price(order, task.accepted_at) if int(task.executor, 16) else None
    seed_block = economics.seed_block(task.committed_at, p.lag, p.grid) if task.committed_at else 0
    return TaskView(
        uuid=uuid.hex(),
        order=order,
        state=task.state,
        executor=None if paid is None else task.executor,
        price=paid,
        deadline=chain.deadline_of(uuid),
        block=block,
        stake=None if paid is None else stake(p, order, paid),
        seed_block=seed_block,
        check_by=seed_block + order.exec + p.check if seed_block else 0,
        drawn=chain.is_drawn(order) if seed_block else None,
        answered=task.answered.bit_count(),
        agreed=task.agreed.bit_count(),
        differed=task.differed.bit_count(),
        games=chain.open_games(uuid) if seed_block else (),
    )


def with_events(chain: Reader, task: TaskView) -> TaskView:
    """The same with all that happened to it, in order."""
    uuid = bytes.fromhex(task.uuid)
    events = chain.events(max(chain.deployment.block, task.order.ramp_start))
    return replace(task, events=tuple(e for e in events if isinstance(e, TaskEvent) and e.task == uuid))
