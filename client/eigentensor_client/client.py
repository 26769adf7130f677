"""The client: one account that pays for tasks on one network."""

from pathlib import Path

from eigentensor.program import Program
from eigentensor_client import orders, steps
from eigentensor_client.attempts import Attempts
from eigentensor_client.orders import Terms, Work
from eigentensor_client.payer import Payer
from eigentensor_client.results import TaskResult
from eigentensor_client.session import Session
from eigentensor_client.task_view import TaskView
from eigentensor_client.transfer import Part, Report, silent


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
