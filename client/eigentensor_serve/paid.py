"""Tasks in a market, paid by this process's account within a budget."""

import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import structlog

from eigentensor.errors import BlobNotFound, EigenTensorError, NotYet, Reverted, TaskError, TermsRefused
from eigentensor.program import Program
from eigentensor.reexecution.inputs import fetch_roots
from eigentensor.store import parse_name
from eigentensor.task import Closed, Order, State, order_uuid
from eigentensor.task import objects as schemas
from eigentensor.web.problems import of_error
from eigentensor_client import stages
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, Work, escrow, escrow_of, terms_for
from eigentensor_client.results import TaskView
from eigentensor_client.transfer import Part, upload
from eigentensor_client.verbs.show import Show
from eigentensor_serve.backend import Ask, Changes, Outcome
from eigentensor_serve.ledger import DAY, Budget, Job, Ledger, now
from eigentensor_serve.ledger import State as JobState

_KEPT = 30 * DAY  # seconds for which all events of a task stay
_REMEMBERED = 1000  # tasks that have ended and are not looked at again
_log = structlog.get_logger(__name__)


class PaidBackend:
    """Follows its tasks in a thread until `close`, also those of the process before it; moves on what is late."""

    is_local = False

    def __init__(self, client: Client, ledger: Ledger, changes: Changes, budget: Budget, max_price: int) -> None:
        """`max_price` is the most that is offered, in wei: what it takes with one verifier at the least fee is the most
        that a caller's task may put into escrow."""
        self._client = client
        self._ledger = ledger
        self._changes = changes
        self._budget = budget
        self._most = escrow(client.network.deployment.parameters, Terms(max_price))
        self._show = Show(client.network)
        self._views: dict[str, TaskView] = {}
        self._ended_views: dict[str, TaskView] = {}
        self._ended = threading.Event()
        self._healthy = True
        self._thread = threading.Thread(target=self._follow, name="follow")
        self._thread.start()

    def close(self) -> None:
        """As `Backend.close`."""
        self._ended.set()
        self._thread.join()

    def is_healthy(self) -> bool:
        """As `Backend.is_healthy`."""
        return self._healthy

    # ---- Asking ----

    def program(self, uuid: str) -> Program:
        """As `Backend.program`."""
        return self._client.program(uuid)

    def is_warm(self, uuid: str) -> bool:
        """As `Backend.is_warm`."""
        return False  # it asks a chain

    def is_quick(self, ask: Ask) -> bool:
        """As `Backend.is_quick`."""
        return False

    def quote(self, ask: Ask) -> dict[str, Any]:
        """As `Backend.quote`."""
        return self._client.plan(self._work(ask), self._terms(ask)).to_json()

    def ask(self, ask: Ask, caller: str, key: str | None) -> Job:
        """As `Backend.ask`."""
        named = ask.named(caller, key)
        known = self._ledger.known(named)
        if known is not None and (sent := self._sent(known)) is not None:
            return sent
        work, terms = self._work(ask), self._terms(ask)
        self._client.check(work, terms)
        budgets = [(self._budget, None), *([(ask.budget, ask.app)] if ask.budget else [])]
        # `add` checks once more, when nobody comes between; here before what will not be paid for is uploaded.
        self._ledger.check(escrow(self._client.network.deployment.parameters, terms), now(), *budgets)
        self._client.check_escrow(1, terms)
        (order,) = self._client.drafts([work], [upload(self._client.gateway, work)], terms)
        task = order_uuid(order, self._client.network.deployment.domain).hex()
        job = Job(task, named, ask.app, now(), order.to_json(), escrow_of(order), cut=ask.cut)
        response = self._response(_as(self._client.view(order), State.OPEN), "asked")
        job = self._ledger.add(job, response, *budgets)
        sent = self._sent(job)
        if sent is None:
            raise NotYet(f"task {job.task} was never posted in time", fix="Ask again.")
        return sent

    def _terms(self, ask: Ask) -> Terms:
        """Raises TermsRefused for a caller's terms that would cost more than the service's own at most."""
        terms = terms_for(ask.stage, ask.terms)
        most = escrow(self._client.network.deployment.parameters, terms)
        if ask.app is None and most > self._most:
            raise TermsRefused(
                f"price and verifiers together may cost {most} wei, more than the {self._most} of a task at most",
                fix="Offer less, fewer verifiers or a lower check_fee; or start the service with a higher --max-price.",
            )
        return terms

    def _work(self, ask: Ask) -> Work:
        states = ask.states if not isinstance(ask.states, str) else self._bindings(ask.states)
        weights: Part = {} if ask.weights is None else self._bindings(ask.weights)
        return Work(ask.program, ask.inputs, weights, states, ask.variables, ask.repeat)

    def _bindings(self, name: str) -> bytes:
        """The root by which orders name a file of tensors. Raises BlobNotFound."""
        store, gateway = self._client.store, self._client.gateway
        names = store.names(name) if name in store else gateway.names(name)
        if names is None or names.computed is None:
            raise BlobNotFound(
                f"there are no tensors {parse_name(name)} here or at the gateway",
                fix="Upload them: `eigentensor blob put FILE`.",
            )
        return bytes.fromhex(names.computed)

    def _sent(self, job: Job) -> Job | None:
        """The job as a task, posted now if it has not been; None if it is too late for that: then it is void.

        An order becomes one task at most, however often it is sent.
        """
        if job.state is not JobState.ASKED:
            return job
        order = Order.from_json(job.posted or {})
        task = self._client.view(order)
        if task.state is State.NONE:
            if task.block >= order.accept_by:
                self._void(job, task, TaskError(f"task {job.task} was never posted"))
                return None
            try:
                self._client.send([order])
            except Reverted as error:
                if self._client.view(order).state is State.NONE:
                    self._void(job, task, error)
                    raise
        self._look(job)
        return self._ledger.job(job.task)

    # ---- Following ----

    def _follow(self) -> None:
        forgot = 0.0
        while not self._ended.wait(self._client.poll):
            try:
                if forgot < now() - DAY:
                    forgot = now()
                    self._ledger.forget(forgot - _KEPT, jobs=False)
                for job in self._ledger.unfinished():
                    self._look(job)
                self._healthy = True
            except EigenTensorError as error:
                if self._healthy:
                    _log.warning("cannot follow", error=error.what)
                self._healthy = False
            except Exception as error:  # a fault must not leave all later tasks unfollowed
                _log.error("cannot follow", exc_info=error)
                self._healthy = False

    def _look(self, job: Job) -> None:
        """Writes down how a task stands if that has changed, and moves it on if everybody else is late."""
        order = Order.from_json(job.posted or {})
        task = self._client.view(order)
        if task.state is State.NONE:
            if task.block > order.accept_by:  # also one that was in a block which the chain forgot
                self._void(job, task, TaskError(f"task {job.task} was never posted"))
            return
        before = self._views.get(job.task)
        if before is None or before.life != task.life:
            ended = task.state.is_terminal
            self._record(
                job, task, state=JobState.ENDED if ended else JobState.OPEN, cost=_cost(task) if ended else None
            )
        self._client.move_on(task)

    def _record(
        self, job: Job, task: TaskView, stage: str | None = None, *,
        state: JobState | None = None, cost: int | None = None, error: EigenTensorError | None = None,
    ) -> None:  # fmt: skip
        if stage is None:
            self._remember(job, task)
        response = self._response(task, stage)
        self._ledger.record(
            job.task, response, state=state, cost=cost, problem=None if error is None else of_error(error)
        )
        self._changes.notify(job.task)

    def _response(self, task: TaskView, stage: str | None = None) -> schemas.Task:
        response = self._show.task(task)
        return response if stage is None else {**response, "state": stage, "stage": stage}

    def _void(self, job: Job, task: TaskView, error: EigenTensorError) -> None:
        self._views.pop(job.task, None)
        self._record(job, _as(task, State.CANCELLED), "void", state=JobState.VOID, cost=0, error=error)

    # ---- What became of it ----

    def show(self, job: Job) -> schemas.Task:
        """As `Backend.show`."""
        return self._ledger.last(job.task)

    def reached(self, job: Job, stage: str) -> bool:
        """As `Backend.reached`."""
        task = self._view(job)
        if task is None:
            return False
        if stages.reached(task, stage):
            return True
        if (error := self._client.failure(task, stage)) is not None:
            raise error
        return False

    def result(self, job: Job) -> Outcome:
        """As `Backend.result`."""
        task = self._view(job)
        if task is None:
            raise NotYet(f"task {job.task} is not in a block yet: there is no result yet")
        result = self._client.deliver(task, states=False)
        outputs, _ = fetch_roots(self._client.gateway, result.outputs_root)
        program = self._client.program(task.order.program.hex())
        return Outcome(program, result.outputs, self._client.store.path(outputs), result.states_root)

    def explain(self, job: Job) -> schemas.Explanation:
        """As `Backend.explain`."""
        task = self._view(job)
        if task is None:
            raise NotYet(f"task {job.task} is not in a block yet: nobody says anything about it")
        return cast(schemas.Explanation, {**self._client.explain(task), "now": self.show(job)})

    def cancel(self, job: Job) -> schemas.Task:
        """As `Backend.cancel`."""
        task = self._view(job)
        if task is None:
            raise NotYet(f"task {job.task} is not in a block yet: it cannot be taken back yet")
        with suppress(Reverted):  # accepted just now: the next look says so
            self._client.cancel(task)
        self._look(job)
        return self.show(job)

    def receipt(self, job: Job) -> bytes:
        """As `Backend.receipt`."""
        task = self._view(job)
        if task is None:
            raise NotYet(f"task {job.task} is not in a block yet: there is no receipt yet")
        return self._client.receipt(task).to_bytes()

    def _view(self, job: Job) -> TaskView | None:
        """The task as it was seen last; None before it is in a block. Raises why it was never posted."""
        if self._ledger.job(job.task).state is JobState.VOID:
            raise TaskError(f"task {job.task} was never posted: nothing is spent", fix="Ask again.")
        if (task := self._views.get(job.task) or self._ended_views.get(job.task)) is not None:
            return task
        task = self._client.view(Order.from_json(job.posted or {}))
        if task.state is State.NONE:
            return None
        if task.state.is_terminal:
            self._remember(job, task)
        return task

    def _remember(self, job: Job, task: TaskView) -> None:
        """What has not ended until it has, and some of what has."""
        if not task.state.is_terminal:
            self._views[job.task] = task
            return
        self._ended_views[job.task] = task
        self._views.pop(job.task, None)
        if len(self._ended_views) > _REMEMBERED:
            self._ended_views.clear()


def _as(task: TaskView, state: State) -> TaskView:
    """A task that is in no block, as one in a state."""
    return replace(task, life=replace(task.life, state=state))


def _cost(task: TaskView) -> int:
    """What an ended task took of its escrow, in wei."""
    refund = next((event.refund for event in task.events if isinstance(event, Closed)), 0)
    return escrow_of(task.order) - refund if task.state is State.FINAL else 0
