"""Receipts of the client's tasks: made from the chain, and from what the gateway has of their results."""

from contextlib import suppress

from eigentensor import receipt
from eigentensor.bound import fetch_roots
from eigentensor.chain import Reader, State
from eigentensor.errors import BlobNotFound, NotYet
from eigentensor.receipt import Receipt
from eigentensor.store import GatewayClient
from eigentensor_client import stages, views
from eigentensor_client.amounts import amount
from eigentensor_client.results import TaskView

_PROVABLE = (State.REVEALED, State.FINAL, State.CONVICTED)


def receipt_of(chain: Reader, gateway: GatewayClient, task: TaskView) -> Receipt:
    """The receipt of a task as it stands now, once there is a result, or a conviction.

    Raises what `Client.wait` raises of a task without result, and NotYet. If the gateway does not have the roots of its
    outputs and new states, the receipt does not have them either: a file of outputs cannot be held to it then.
    """
    task = views.view(chain, task.order)
    if task.state not in _PROVABLE:
        failed = stages.failure(task, "result", lambda wei: amount(wei, chain.deployment))
        raise failed or NotYet(
            f"task {task.uuid} is {task.words}: there is no result to give a receipt of",
            fix=f"It waits for {stages.waits_for(task)}.",
        )
    parts, root = None, chain.outputs_root_of(bytes.fromhex(task.uuid))
    if any(root):
        with suppress(BlobNotFound):
            parts = fetch_roots(gateway, root)
    return receipt.read(chain, task.order, parts)
