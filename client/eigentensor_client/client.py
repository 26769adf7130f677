"""The client: one account that pays for tasks on one network."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eigentensor.errors import BlobCorrupt, BlobNotFound, TaskNotFound
from eigentensor.program import Program
from eigentensor.task import Order, order_uuid
from eigentensor_client import orders, steps
from eigentensor_client.attempts import Attempts
from eigentensor_client.claims import payable_from
from eigentensor_client.orders import Terms, Work
from eigentensor_client.payer import Payer
from eigentensor_client.results import TaskResult, TaskView
from eigentensor_client.session import Session
from eigentensor_client.transfer import Part, Report, silent

PATIENCE = 10.0  # seconds that the gateway may be behind the chain


class Client(Payer):
    """Plans, posts, waits, fetches, verifies; from several threads at once, if they like. `AsyncClient` is the same for
    `async` functions.

    Usable as a context manager. Errors are those of `eigentensor.errors`; whatever is raised, no money is stuck: each
    state of a task ends by time, and this client ends the tasks that it waits for if nobody else does.
    """

    # ---- Waiting ----

    def wait(
        self, task: TaskView, stage: str = "final", *, timeout: float | None = None, report: Report = silent
    ) -> TaskView:
        """Waits until the task is `result`, `checked` or `final`, and moves it on where everybody else is late.

        Raises NobodyAccepted, ExecutorFailed, ExecutorConvicted, TaskCancelled, NotChecked if it was not drawn or too
        few verifiers confirm it, and NotYet after `timeout` seconds.
        """
        return steps.finish(self.waiting(task, stage, timeout, report))

    # ---- Results ----

    def deliver(self, task: TaskView, report: Report = silent, *, states: bool = True) -> TaskResult:
        """`fetch`, but waits a while for bytes that are still on their way from the executor."""
        return steps.finish(self.delivering(task, report, states))

    def complete(
        self,
        task: TaskView,
        stage: str = "final",
        *,
        timeout: float | None = None,
        retries: int = 0,
        report: Report = silent,
    ) -> TaskResult:
        """`wait`, then `deliver`. If it is interrupted, or the network is away, the error says how to go on.

        Where nobody accepted, or the executor failed or was convicted, its work is posted again, up to `retries` times:
        the escrow is back before, and the result names the tasks in `earlier`. `timeout` is for all of them together.
        """
        attempts = Attempts([task], self.again, retries, report)
        with steps.going_on(attempts.current):
            return steps.finish(self.completing(attempts, stage, timeout, report))

    def run(
        self,
        work: Work,
        terms: Terms,
        stage: str = "final",
        *,
        timeout: float | None = None,
        retries: int = 0,
        report: Report = silent,
    ) -> TaskResult:
        """Post, wait, fetch, verify; `retries` as in `complete`. The stage `checked` makes the terms' check certain."""
        (task,) = self.post([work], orders.terms_for(stage, terms), report)
        return self.complete(task, stage, timeout=timeout, retries=retries, report=report)

    # ---- Sessions ----

    def session(
        self,
        program: Program,
        weights: Part,
        states: Part,
        terms: Terms,
        path: Path | None = None,
        report: Report = silent,
    ) -> Session:
        """A session that begins with these states; weights and states are tensors, or the bindings root of some that
        the gateway has. Uploads what the gateway does not have, spends nothing.

        `path` is its file, which must not exist; without one a killed process loses it. Raises BindingError,
        TermsRefused, NotDisputable, StoreError, ConfigError.
        """
        return Session.start(self, program, weights, states, terms, path, report)

    def resume(self, path: Path) -> Session:
        """The session in a file, from another process or machine. `Session.run` of the same work, or `Session.wait`,
        waits for what is under way in it.

        Raises BlobNotFound without a file, SessionBusy if another process has it, ConfigError if it is none of this
        account on this network.
        """
        return Session.resume(self, path)

    # ---- Tasks ----

    def tasks(self) -> Iterator[TaskView]:
        """The account's tasks, newest first. The gateway names them, the chain says how they stand."""
        self._wait_for_gateway()
        cursor: dict[str, Any] = {}
        while True:
            page = self.gateway.tasks(client=self.address, **cursor)
            for entry in page["tasks"]:
                yield self.view(self._order(entry))
            if not page.get("next"):
                return
            cursor = {"cursor": page["next"]}

    def task(self, name: str) -> TaskView:
        """A task by its uuid, or one of the account's by the beginning of it. Raises TaskNotFound."""
        name = name.lower().removeprefix("0x")
        if len(name) == 64:
            self._wait_for_gateway()
            try:
                return self.view(self._order(self.gateway.task(name)))
            except BlobNotFound:
                raise TaskNotFound(f"there is no task {name}") from None
        matches = [task for task in self.tasks() if task.uuid.startswith(name)]
        if len(matches) != 1:
            what = f"{len(matches)} tasks of {self.address} begin with {name!r}"
            raise TaskNotFound(what, fix="`eigentensor ps` lists them.")
        return matches[0]

    def explain(self, task: TaskView) -> dict[str, Any]:
        """What each operator says about a task, from the gateway; of what a conviction slashed, from which block on it
        can be paid, from the chain."""
        payable = payable_from(self.chain, task.life)
        return self.gateway.explain(task.uuid) | ({} if payable is None else {"payable_from": payable})

    def _wait_for_gateway(self) -> None:
        """Gives the gateway a moment to see what the chain shows: what was posted just now is then among the tasks."""
        block, started = self.chain.node.block_number(), time.monotonic()
        while self.gateway.tasks(limit=1)["block"] < block and time.monotonic() - started < PATIENCE:
            time.sleep(self.poll)

    def _order(self, entry: dict[str, Any]) -> Order:
        order = Order.from_json(entry["order"])
        if order_uuid(order, self.network.deployment.domain).hex() != entry["task"]:
            raise BlobCorrupt(f"the gateway gave another order for task {entry['task']}")
        return order
