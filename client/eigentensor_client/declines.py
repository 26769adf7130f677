"""What operators say about a task that nobody has accepted, asked of the gateway."""

import time

from eigentensor.chain import Deployment
from eigentensor.errors import StoreError
from eigentensor.store import GatewayClient
from eigentensor.task import State
from eigentensor_client.amounts import amount
from eigentensor_client.remedies import Advice, advice_of, opinions_of
from eigentensor_client.task_view import TaskView

PATIENCE = 5.0  # seconds in which nobody may accept before one asks why
AGAIN = 2.0  # seconds between two questions


def advice_on(gateway: GatewayClient, task: TaskView, deployment: Deployment) -> Advice | None:
    """What operators say about a task as long as it is open, or said of it by then; None where the gateway does not
    answer."""
    try:
        opinions = opinions_of(gateway.explain(task.uuid))
    except StoreError:
        return None

    def written(wei: int) -> str:
        return amount(wei, deployment)

    over = task.state is not State.OPEN
    return advice_of(opinions, task.order, deployment.parameters, written, over=over)


class Declines:
    """Those of one task while one waits for it, asked for now and then."""

    def __init__(self, gateway: GatewayClient, deployment: Deployment) -> None:
        self._gateway = gateway
        self._deployment = deployment
        self._next = time.monotonic() + PATIENCE
        self._words = ""

    def words(self, task: TaskView) -> str:
        """As they were heard last; empty before `PATIENCE` is over, and once somebody has accepted."""
        if task.state is not State.OPEN:
            return ""
        if time.monotonic() >= self._next:
            advice = advice_on(self._gateway, task, self._deployment)
            self._words = self._words if advice is None else advice.words
            self._next = time.monotonic() + AGAIN
        return self._words
