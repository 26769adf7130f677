"""The calls of one function as tasks: planned, posted, written down, and taken up again by another process."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from eigentensor import merkle
from eigentensor.capture.returns import Returns
from eigentensor.capture.signatures import Signatures, Use
from eigentensor.capture.values import values_of
from eigentensor.errors import BindingError, TaskNotFound
from eigentensor.program import Program, Role
from eigentensor.task import order_uuid
from eigentensor_client import aio, calls_file
from eigentensor_client.client import Client
from eigentensor_client.handles import Handle, before
from eigentensor_client.orders import Work
from eigentensor_client.results import Plan, TaskView
from eigentensor_client.transfer import Tell, silent

if TYPE_CHECKING:
    from eigentensor_client.function import function

R = TypeVar("R")


class Calls(Generic[R]):
    """Written down before they are posted: what a call returns is known to whoever has the function and the uuid."""

    def __init__(self, signatures: Signatures, options: "function") -> None:
        self.signatures = signatures
        self.options = options

    def plan(self, use: Use) -> Plan:
        """What a call would cost. Raises what `Client.plan` raises."""
        client = self.options.client()
        return client.plan(_work(use, use.weights), self.options.terms(client))

    def post(self, uses: Sequence[Use], tell: Tell = silent) -> list[Handle[R]]:
        """Posts calls. Weights that the gateway has are not looked at again. Raises what `Client.post` raises."""
        if not uses:
            return []
        client = self.options.client()
        kept = {root for use in uses if (root := use.captured.root) and client.gateway.has(root)}
        works = [_work(use, use.captured.root if use.captured.root in kept else use.weights) for use in uses]
        drafts = client.prepare(works, self.options.terms(client), tell)
        for use, draft in zip(uses, drafts, strict=True):
            if use.weights is use.captured.weights:
                use.captured.root = draft.weights if use.weights else b""
        uuids = [order_uuid(draft, client.network.deployment.domain).hex() for draft in drafts]
        calls_file.keep(dict(zip(uuids, map(self._told, uses), strict=True)))
        tasks = client.send(drafts, tell)
        return [
            self._handle(client, task, use.captured.graph.program, use.returns)
            for use, task in zip(uses, tasks, strict=True)
        ]

    async def post_aio(self, uses: Sequence[Use]) -> list[Handle[R]]:
        """As `post`, for asyncio."""
        handles = await aio.in_thread(self.post, uses)
        with before(handles):
            await asyncio.sleep(0)  # a cancellation meanwhile comes here, where the tasks are known
        return handles

    def found(self, uuid: str) -> tuple[Client, TaskView, Program, Any]:
        """A task, its program, and what was written down of it. Raises TaskNotFound."""
        client = self.options.client()
        task = client.task(uuid)
        if (call := calls_file.find(task.uuid)) is None:
            raise TaskNotFound(
                f"no call that was posted from here is task {task.uuid}",
                fix=f"`eigentensor get {task.uuid[:10]} -o FILE` fetches its outputs by their names.",
            )
        return client, task, client.program(task.order.program.hex()), call

    def taken_up(self, client: Client, task: TaskView, program: Program, call: Any) -> Handle[R]:
        """The handle of what was found. Raises BindingError where what it returns cannot be made any more."""
        if call["function"] != self.signatures.qualified:
            raise BindingError(
                f"task {task.uuid} is a call of {call['function']}, not of {self.signatures.qualified}",
                fix="Take it up from there.",
            )
        returns = Returns.from_json(call["returns"], self.signatures.module, self.signatures.tensors())
        now = {name: values_of(tensor) for name, tensor in returns.held.items()}
        if now and merkle.role_root(program, Role.STATE, now) != task.order.states:
            raise BindingError(
                f"the tensors that {self.signatures.name} assigns to are not those with which task {task.uuid} began",
                fix="Give them their values from then: it goes on from these.",
            )
        return self._handle(client, task, program, returns)

    def _told(self, use: Use) -> dict[str, Any]:
        return {"function": self.signatures.qualified, "returns": use.returns.to_json(self.signatures.module)}

    def _handle(self, client: Client, task: TaskView, program: Program, returns: Returns) -> Handle[R]:
        return Handle(client, task, program, returns, self.options, self.signatures.name)


def _work(use: Use, weights: Any) -> Work:
    return Work(use.captured.graph.program, use.inputs, weights, use.states, use.variables)
