"""Tasks in a market, paid by this process's account within a budget."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import structlog

from eigentensor.errors import EigenTensorError, NotYet, Reverted, TaskError, TermsRefused
from eigentensor.program import Program
from eigentensor.reexecution.inputs import fetch_roots
from eigentensor.task import Closed, Order, State, order_uuid
from eigentensor.task import objects as schemas
from eigentensor.web.problems import of_error
from eigentensor_client import stages
from eigentensor_client.attempts import ENDS
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, Work, escrow, escrow_of, terms_for
from eigentensor_client.task_view import TaskView
from eigentensor_client.transfer import Part, upload
from eigentensor_client.verbs.show import Show
from eigentensor_serve.backend import Ask, Changes, Outcome
from eigentensor_serve.ledger import DAY, Budget, Job, Ledger, now
from eigentensor_serve.ledger import State as JobState

_KEPT = 30 * DAY  # seconds for which all events of a task stay
_REMEMBERED = 1000  # tasks that have ended and are not looked at again
_log = structlog.get_logger(__name__)


class PaidBackend:
    """Follows its tasks in threads until `close`, also those of the process before it: moves on what is late, posts
    again what ended without a result."""

    is_local = False
    is_prompt = False

    def __init__(
        self, client: Client, ledger: Ledger, changes: Changes, budget: Budget, max_price: int, retries: int = 0
    ) -> None:
        """`max_price` is the most that is offered, in wei: what it takes with one verifier at the least fee is the most
        that a caller's task may put into escrow. A job is posted again at most `retries` times."""
        self._client = client
        self._ledger = ledger
        self._changes = changes
        self._budget = budget
        self._most = escrow(client.network.deployment.parameters, Terms(max_price))
        self._retries = retries
        self._show = Show(client.network)
        self._views: dict[str, TaskView] = {}
        self._ended_views: dict[str, TaskView] = {}
        self._ended = threading.Event()
        self._forgot = 0.0
        self._failing: set[str] = set()
        # A post takes blocks: meanwhile the others are followed.
        rounds = {"follow": self._follow, "post again": self._post_again}
        self._threads = [threading.Thread(target=self._repeat, args=one, name=one[0]) for one in rounds.items()]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """As `Backend.close`."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def is_healthy(self) -> bool:
        """As `Backend.is_healthy`."""
        return not self._failing

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

    def most_repeat(self, program: Program, uuid: str, states: str | None = None) -> int:
        """As `Backend.most_repeat`."""
        return program.max_repeat

    def quote(self, ask: Ask) -> dict[str, Any]:
        """As `Backend.quote`."""
        return self._client.plan(self._work(ask), self._terms(ask)).to_json()

    def ask(self, ask: Ask, caller: str, key: str | None) -> Job:
        """As `Backend.ask`."""
        named = ask.named(caller, key)
        known = self._ledger.known(named)
        if known is not None and (known.retries or (known := self._sent(known)) is not None):
            return known
        work, terms = self._work(ask), self._terms(ask)
        self._client.check(work, terms)
        budgets = [(self._budget, None), *([(ask.budget, ask.app)] if ask.budget else [])]
        # `add` checks once more, when nobody comes between; here before what will not be paid for is uploaded.
        self._ledger.check(escrow(self._client.network.deployment.parameters, terms), now(), *budgets)
        self._client.check_escrow(1, terms)
        (order,) = self._client.drafts([work], [upload(self._client.gateway, work)], terms)
        task = order_uuid(order, self._client.network.deployment.domain).hex()
        job = Job(task, named, ask.app, now(), order.to_json(), escrow_of(order), cut=ask.cut)
        job = self._ledger.add(job, self._asked(job), *budgets)
        sent = self._sent(job)
        if sent is None:
            raise NotYet(f"task {job.current} was never posted in time", fix="Ask again.")
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
        states = ask.states if not isinstance(ask.states, str) else self._client.bindings(ask.states)
        weights: Part = {} if ask.weights is None else self._client.bindings(ask.weights)
        return Work(ask.program, ask.inputs, weights, states, ask.variables, ask.repeat)

    def _sent(self, job: Job) -> Job | None:
        """The job as a task, posted now if it has not been; None if it is too late for that: then it is void.

        An order becomes one task at most, however often it is sent.
        """
        if job.state is not JobState.ASKED:
            return job
        task = self._task(job)
        if task.state is State.NONE:
            if task.block >= task.order.accept_by:
                self._void(job, task, TaskError(f"task {job.current} was never posted"))
                return None
            try:
                self._client.send([task.order])
            except Reverted as error:
                if self._task(job).state is State.NONE:
                    self._void(job, task, error)
                    raise
        self._look(job)
        return self._ledger.job(job.task)

    def _task(self, job: Job) -> TaskView:
        """The job's task under way as the chain has it."""
        return self._client.view(Order.from_json(job.posted or {}))

    # ---- Following ----

    def _repeat(self, name: str, step: Callable[[], None]) -> None:
        """Until `close`, whatever a step raises: a fault must not leave all later tasks alone."""
        while not self._ended.wait(self._client.poll):
            try:
                step()
                self._failing.discard(name)
            except EigenTensorError as error:
                if name not in self._failing:
                    _log.warning(f"cannot {name}", error=error.what)
                self._failing.add(name)
            except Exception as error:
                _log.error(f"cannot {name}", exc_info=error)
                self._failing.add(name)

    def _follow(self) -> None:
        if self._forgot < now() - DAY:
            self._forgot = now()
            self._ledger.forget(self._forgot - _KEPT, jobs=False)
        for job in self._ledger.unfinished():
            self._look(job)

    def _look(self, job: Job) -> None:
        """Writes down how a task stands if that has changed, and moves it on if everybody else is late."""
        task = self._task(job)
        if task.state is State.NONE:
            if task.block > task.order.accept_by:  # also one that was in a block which the chain forgot
                self._void(job, task, TaskError(f"task {job.current} was never posted"))
            return
        before = self._views.get(job.current)
        if before is None or before.life != task.life:
            if self._goes_on(job, task):
                self._ask_again(job, task)
                return
            ended = task.state.is_terminal
            self._record(
                job, task, state=JobState.ENDED if ended else JobState.OPEN, cost=_cost(task) if ended else None
            )
        self._client.move_on(task)

    def _refresh(self, job: Job) -> None:
        """`_look` at the task under way now, if there is one."""
        if not (job := self._ledger.job(job.task)).is_over:
            self._look(job)

    # ---- Asking again ----

    def _goes_on(self, job: Job, task: TaskView) -> bool:
        """Whether a job is to be asked for again, now that its task has ended so."""
        if job.is_over or len(job.retries) >= self._retries:
            return False
        return isinstance(stages.failure(task, "result", self._client.amount), ENDS)

    def _ask_again(self, job: Job, task: TaskView) -> None:
        """Writes down the order of another task for the same work, which `_post_again` sends."""
        order = self._client.renewed(task)
        uuid = order_uuid(order, self._client.network.deployment.domain).hex()
        again = replace(job, posted=order.to_json(), retries=(*job.retries, uuid))
        if self._ledger.retry(again, self._response(job, task), self._asked(again)):
            self._views.pop(job.current, None)
            _log.info("asked again", task=job.task, ended=job.current, state=task.words, now=uuid)
            self._changes.notify(job.task)

    def _post_again(self) -> None:
        """Sends what is asked for again: together, or alone where one of them is refused."""
        jobs = [job for job in self._ledger.unfinished() if job.retries and job.state is JobState.ASKED]
        if not jobs:
            return
        with suppress(Reverted):
            self._client.send([Order.from_json(job.posted or {}) for job in jobs])
        for job in jobs:
            with suppress(Reverted):  # it is void then
                self._sent(job)

    # ---- Telling ----

    def _record(
        self, job: Job, task: TaskView, stage: str | None = None, *,
        state: JobState | None = None, cost: int | None = None, error: EigenTensorError | None = None,
    ) -> None:  # fmt: skip
        response, problem = self._response(job, task, stage), None if error is None else of_error(error)
        with self._ledger.database.lock:
            if self._ledger.job(job.task).current != job.current:
                return  # another thread has seen how it ended, and asked again
            if stage is None:
                self._remember(task)
            self._ledger.record(job.task, response, state=state, cost=cost, problem=problem)
        self._changes.notify(job.task)

    def _response(self, job: Job, task: TaskView, stage: str | None = None) -> schemas.Task:
        response = self._show.task(task)
        if job.earlier:
            response["earlier"] = list(job.earlier)
        return response if stage is None else {**response, "state": stage, "stage": stage}

    def _asked(self, job: Job) -> schemas.Task:
        """The task of an order that was not sent yet."""
        return self._response(job, _as(self._task(job), State.OPEN), "asked")

    def _void(self, job: Job, task: TaskView, error: EigenTensorError) -> None:
        self._views.pop(job.current, None)
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
        task = self._seen(job, "there is no result yet")
        result = self._client.deliver(task, states=False)
        outputs, _ = fetch_roots(self._client.gateway, result.outputs_root)
        program = self._client.program(task.order.program.hex())
        return Outcome(program, result.outputs, self._client.store.path(outputs), result.states_root)

    def explain(self, job: Job) -> schemas.Explanation:
        """As `Backend.explain`."""
        task = self._seen(job, "nobody says anything about it")
        return cast(schemas.Explanation, {**self._client.explain(task), "now": self.show(job)})

    def cancel(self, job: Job) -> schemas.Task:
        """As `Backend.cancel`."""
        self._refresh(job)  # of one that has ended just now the next is taken back
        task = self._seen(job, "it cannot be taken back yet")
        with suppress(Reverted):  # accepted just now: the next look says so
            self._client.cancel(task)
        self._refresh(job)
        return self.show(job)

    def receipt(self, job: Job) -> bytes:
        """As `Backend.receipt`."""
        return self._client.receipt(self._seen(job, "there is no receipt yet")).to_bytes()

    def _seen(self, job: Job, what: str) -> TaskView:
        """As `_view`. Raises NotYet, with what does not follow yet, where that is None."""
        if (task := self._view(job)) is None:
            raise NotYet(f"task {self._ledger.job(job.task).current} is not in a block yet: {what}")
        return task

    def _view(self, job: Job) -> TaskView | None:
        """The task under way as it was seen last; None before it is in a block, and once it is to be followed by
        another one. Raises why it was never posted."""
        job = self._ledger.job(job.task)
        if job.state is JobState.VOID:
            raise TaskError(f"task {job.current} was never posted: nothing is spent", fix="Ask again.")
        task = self._views.get(job.current) or self._ended_views.get(job.current)
        if task is None:
            task = self._task(job)
            if task.state is State.NONE:
                return None
            if task.state.is_terminal:
                self._remember(task)
        return None if self._goes_on(job, task) else task

    def _remember(self, task: TaskView) -> None:
        """What has not ended until it has, and some of what has."""
        if not task.state.is_terminal:
            self._views[task.uuid] = task
            return
        self._ended_views[task.uuid] = task
        self._views.pop(task.uuid, None)
        if len(self._ended_views) > _REMEMBERED:
            self._ended_views.clear()


def _as(task: TaskView, state: State) -> TaskView:
    """A task that is in no block, as one in a state."""
    return replace(task, life=replace(task.life, state=state))


def _cost(task: TaskView) -> int:
    """What an ended task took of its escrow, in wei."""
    refund = next((event.refund for event in task.events if isinstance(event, Closed)), 0)
    return escrow_of(task.order) - refund if task.state is State.FINAL else 0
