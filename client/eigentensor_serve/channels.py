"""Paid calls through channels: each is executed while it is asked for, by the first operator that takes it."""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypeVar

import structlog

from eigentensor.chain import to_wei
from eigentensor.errors import (
    CallRefused,
    ChainError,
    ChannelError,
    ChannelSpent,
    EigenTensorError,
    ExecutorConvicted,
    NoResponse,
    NotChecked,
    NotYet,
    TaskError,
    TaskNotFound,
    TermsRefused,
    WrongResult,
)
from eigentensor.program import Program, Role
from eigentensor.reexecution.inputs import load_role
from eigentensor.store import parse_name
from eigentensor.task import NONE
from eigentensor.task import objects as schemas
from eigentensor.web.problems import of_error
from eigentensor_client.channels.channel import Channel, outputs_of
from eigentensor_client.channels.ledger import Call, Stage
from eigentensor_client.channels.operators import Operators
from eigentensor_client.files import Tensors
from eigentensor_client.orders import Work
from eigentensor_client.transfer import bound
from eigentensor_serve.backend import Ask, Changes, Outcome
from eigentensor_serve.kept import ResultFiles
from eigentensor_serve.ledger import DAY, Budget, Job, Ledger, State, now
from eigentensor_serve.showing import explanation_of, plan_of, task_as

TOKENS = 16  #: repeats of a call, and so tokens of a chat, at most
_SALT = 64  # of a task's 256 random bits those that its call's salt does not have
_AWAY = 10.0  # seconds in which an operator that failed is asked last
_RESUMES = 2.0  # seconds that an operator has for calls that are taken up in the background
_ROUND = 1.0  # seconds between looks at what was left under way
_LOW = 4  # of the deposit: when less than this part is left, it is filled up
_KEPT = 30 * DAY  # seconds for which all events of a job stay
_PROGRAMS, _STATES = 64, 4096  # that stay in memory; of which it is known who keeps them
_WAITS = {"signed": "the commit of its batch", "committed": "the end of its batch's window"}
#: What may come of a call at one operator: the next one is asked then.
_FAILURES = (ChannelError, TaskError, ChainError)
_log = structlog.get_logger(__name__)
Taken = TypeVar("Taken")


@dataclass(frozen=True, slots=True)
class Signed:
    """What a job's `outputs` say: the call that gave them, and their roots in hex."""

    program: str
    states: str
    root: str
    channel: str
    index: int

    @classmethod
    def of(cls, channel: bytes, call: Call) -> Self:
        """Of a call that was responded to."""
        assert call.response is not None
        roots = call.response.states.hex(), call.receipt.outputs_root.hex()
        return cls(call.computation.program.hex(), *roots, channel.hex(), call.index)

    @classmethod
    def read(cls, text: str) -> Self:
        """The inverse of `text`."""
        program, states, root, channel, index = text.split()
        return cls(program, states, root, channel, int(index))

    @property
    def text(self) -> str:
        """With blanks between."""
        return f"{self.program} {self.states} {self.root} {self.channel} {self.index}"


class ChannelBackend:
    """One channel for each operator that is called, all callers behind it, within a budget.

    A job is in the service's ledger before its call is signed, with a name of which the call's salt is a part: so the
    ledger of channels says after a restart what became of it. What was under way then is taken up.
    """

    is_local = False
    is_prompt = True

    def __init__(
        self,
        operators: Operators,
        ledger: Ledger,
        changes: Changes,
        results: ResultFiles,
        budget: Budget,
        max_price: int,
    ) -> None:
        """`max_price` is the most that a caller's own call may cost, in wei. The operators, which `close` closes, say
        what is paid into a channel, at first and when it is spent."""
        self.operators, self._client = operators, operators.client
        self._ledger, self._changes, self._results = ledger, changes, results
        self._budget, self._most = budget, max_price
        self._deposit = to_wei(operators.terms.deposit, self._client.network.deployment.token_decimals)
        self._programs: dict[str, Program] = {}
        self._roots: dict[str, bytes] = {}
        self._weights: dict[str, bytes] = {}
        self._keepers: OrderedDict[bytes, str] = OrderedDict()  # who keeps which states
        self._away: dict[str, float] = {}
        self._tasks = {_salt_of(job.task): job.task for job in ledger.unfinished()}  # by the salts of their calls
        self._active: set[str] = set()  # those that a thread of this process has
        self._lock, self._funding = threading.Lock(), threading.Lock()
        self._forgot = 0.0
        self._is_failing = False
        operators.keep = self._keep
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._rounds, name="calls")
        self._thread.start()

    def close(self) -> None:
        """As `Backend.close`."""
        self._ended.set()
        self._thread.join()
        self.operators.close()

    def is_healthy(self) -> bool:
        """As `Backend.is_healthy`."""
        return not self._is_failing

    # ---- Asking ----

    def program(self, uuid: str) -> Program:
        """As `Backend.program`."""
        program = self._programs.get(uuid)
        if program is None:
            program = self._client.program(uuid)
            if len(self._programs) >= _PROGRAMS:
                self._programs.clear()
            self._roots[uuid] = bytes.fromhex(self._client.store.names(uuid).computed or uuid)
            self._programs[uuid] = program
        return program

    def is_warm(self, uuid: str) -> bool:
        """As `Backend.is_warm`."""
        return uuid in self._programs

    def is_quick(self, ask: Ask) -> bool:
        """As `Backend.is_quick`."""
        return False  # it waits for an operator

    def most_repeat(self, program: Program, uuid: str, states: str | None = None) -> int:
        """As `Backend.most_repeat`: what the operator offers that is asked first, 16 at most."""
        for url in self._urls(states):
            try:
                return min(TOKENS, self.operators.quoted(url, bytes.fromhex(uuid))[0].repeat)
            except _FAILURES as error:
                self._failed(url, error)
        return min(TOKENS, program.max_repeat)

    def quote(self, ask: Ask) -> dict[str, Any]:
        """As `Backend.quote`: of the first operator that would take it."""
        self._check(ask)
        failures: list[EigenTensorError] = []
        for url in self._urls(ask.states):
            try:
                quoted, fee = self.operators.quoted(url, *self._wanted(ask))
            except _FAILURES as error:
                failures.append(self._failed(url, error))
            else:
                price = quoted.price_of(ask.repeat)
                return plan_of(ask, min_price=str(price), max_price=str(price), escrow=str(price + fee))
        raise _chief(failures)

    def ask(self, ask: Ask, caller: str, key: str | None) -> Job:
        """As `Backend.ask`: the call is executed meanwhile. One that was left under way is asked for again."""
        named = ask.named(caller, key)
        known = self._ledger.known(named)
        if known is not None and known.is_over:
            return known
        self._check(ask)
        new = Job(secrets.token_hex(32), named, ask.app, now(), cut=ask.cut)
        if known is None:
            return self._taken(new, lambda: self._called(new, ask, is_new=True))
        return self._taken(known, lambda: self._again(known, ask)) or self.ask(ask, caller, key)

    def _again(self, job: Job, ask: Ask) -> Job | None:
        """A job that was left under way: as the operator responds that has it, or another one; None if none had it."""
        self._take_up(job)
        job = self._ledger.job(job.task)
        if job.state is State.VOID:
            return None
        return job if job.is_over else self._called(job, ask, is_new=False)

    def _taken(self, job: Job, go_on: Callable[[], Taken]) -> Taken | Job:
        """What becomes of a job that this thread takes; the job itself if another one has it."""
        with self._lock:
            if job.task in self._active:
                return job
            self._active.add(job.task)
            self._tasks[_salt_of(job.task)] = job.task
        try:
            return go_on()
        finally:
            with self._lock:
                self._active.discard(job.task)
                if self._is_over(job):
                    self._tasks.pop(_salt_of(job.task), None)

    def _is_over(self, job: Job) -> bool:
        try:
            return self._ledger.job(job.task).is_over
        except TaskNotFound:  # it was refused before it was written
            return True

    def _check(self, ask: Ask) -> None:
        """Raises what is wrong with it whoever executes it."""
        if ask.app is None and ask.terms.max_price > self._most:
            raise TermsRefused(
                f"a max_price of {ask.terms.max_price} wei is more than the {self._most} of a call at most",
                fix="Offer less, or start the service with a higher --max-price.",
            )
        if ask.terms.value_at_risk:
            raise TermsRefused(
                "the channels of this service put nothing at risk beyond the prices of calls",
                fix="Leave value_at_risk out, or ask for a task: `eigentensor serve` without --channels.",
            )
        weights: Any = {} if ask.weights is None else NONE
        states: Any = NONE if isinstance(ask.states, str) else ask.states
        bound(Work(ask.program, ask.inputs, weights, states, ask.variables, ask.repeat))

    def _wanted(self, ask: Ask) -> tuple[bytes, int, int]:
        return self._roots.get(ask.uuid) or bytes.fromhex(ask.uuid), ask.repeat, ask.terms.max_price

    def _urls(self, states: Tensors | str | None) -> list[str]:
        """The operators in the order in which they are asked: those that failed just now last, who keeps the states
        first. Raises ConfigError where there are none."""
        keeper = self._keepers.get(bytes.fromhex(parse_name(states))) if isinstance(states, str) else None
        at = time.monotonic()
        return sorted(self.operators.named(), key=lambda url: (self._away.get(url, 0.0) > at, url != keeper))

    def _failed(self, url: str, error: EigenTensorError) -> EigenTensorError:
        """The error of an operator, which is asked last for a while unless it refused alone."""
        if not isinstance(error, CallRefused | TermsRefused | ChannelSpent):
            self._away[url] = time.monotonic() + _AWAY
        return error

    def _called(self, job: Job, ask: Ask, *, is_new: bool) -> Job:
        """The job once an operator has executed it. Raises why none did, BudgetSpent."""
        failures: list[EigenTensorError] = []
        fees, is_written = 0, not is_new
        try:
            for url in self._free_urls(job, ask):
                try:
                    quoted, fee = self.operators.quoted(url, *self._wanted(ask))
                    written = self._written(job, ask, quoted.price_of(ask.repeat), fees + fee, is_new=not is_written)
                    if written.task != job.task:
                        return written
                    is_written = True
                    channel = self.operators.at(url, *self._wanted(ask)[:2])
                    fees += fee
                    return self._finish(job, fees, channel, self._call(url, channel, job, ask))
                except _FAILURES as error:
                    failures.append(self._failed(url, error))
            raise _chief(failures)
        except EigenTensorError as error:
            if is_written:
                self._fail(job, fees, error)
            raise

    def _free_urls(self, job: Job, ask: Ask) -> list[str]:
        """The operators that have no call of a job under way. Raises NoResponse where all have one."""
        ledger = self.operators.ledger
        calls = self._calls_of(job)
        busy = {ledger.account(channel.hex()).agreement.url for channel, call in calls if call.response is None}
        free = [url for url in self._urls(ask.states) if url not in busy]
        if not free:
            raise NoResponse(f"task {job.task} is under way at {', '.join(sorted(busy))}")
        return free

    def _written(self, job: Job, ask: Ask, price: int, fees: int, *, is_new: bool) -> Job:
        """The job in the ledger, with all that it may cost: what is under way elsewhere as well."""
        budgets = [(self._budget, None), *([(ask.budget, ask.app)] if ask.budget else [])]
        if is_new:
            shown = task_as(job.task, "asked", "asked", waits_for="an operator")
            return self._ledger.add(replace(job, escrow=price + fees), shown, *budgets)
        owed = sum(call.price for _, call in self._calls_of(job))
        return self._ledger.expect(job.task, owed + price + fees, *budgets)

    def _call(self, url: str, channel: Channel, job: Job, ask: Ask) -> Call:
        """The call at one operator. Raises as `Channel.call`."""
        program, repeat, most = self._wanted(ask)
        weights = self._bindings(ask)
        states, root = self._states(ask, url)
        is_refilled = False
        while True:
            try:
                result = channel.call(
                    ask.program, program, ask.inputs, weights=weights, states=states, variables=ask.variables,
                    repeat=repeat, max_price=most, seconds=self.operators.terms.timeout, salt=_salt_of(job.task),
                )  # fmt: skip
                break
            except ChannelSpent:
                if is_refilled or not self._refilled(channel, channel.quoted(program, repeat).price_of(repeat)):
                    raise
                is_refilled = True
            except CallRefused:
                if not isinstance(states, bytes) or self._keepers.get(states) != url:
                    raise
                del self._keepers[states]  # it may have forgotten them
                states, root = self._states(ask, url)
                if isinstance(states, bytes):
                    raise
        self._keep_states(url, root, result.states)
        return result.response.call

    def _states(self, ask: Ask, url: str) -> tuple[bytes | Tensors, bytes]:
        """What a call goes on from, and its root where that is known: by the root alone where the operator keeps it."""
        if not isinstance(ask.states, str):
            return ask.states, NONE
        store = self._client.store
        if ask.states not in store:
            return (root := bytes.fromhex(parse_name(ask.states))), root
        root = bytes.fromhex(store.names(ask.states).computed or "")
        if self._keepers.get(root) == url:
            return root, root
        return load_role(store.path(ask.states), ask.program, Role.STATE), root

    def _keep_states(self, url: str, *roots: bytes) -> None:
        with self._lock:
            for root in roots:
                if root != NONE:
                    self._keepers[root] = url
                    self._keepers.move_to_end(root)
            while len(self._keepers) > _STATES:
                self._keepers.popitem(last=False)

    def _bindings(self, ask: Ask) -> bytes:
        """The root of the weights. Raises BlobNotFound."""
        if ask.weights is None:
            return NONE
        if ask.weights not in self._weights:
            self._weights[ask.weights] = self._client.bindings(ask.weights)
        return self._weights[ask.weights]

    # ---- Money ----

    def _refilled(self, channel: Channel, price: int) -> bool:
        """Whether a channel has what a call costs, now that as much as a deposit was added where the budget lets."""
        with self._funding:
            side = channel.payer
            if side.left >= price:
                return True  # another thread was faster
            if side.deal.most - (side.owed - side.paid) < price:
                return False  # of one batch no more may be spent: the next one comes
            channel.fund(max(price - side.left, min(self._deposit, self._left())))
            return True

    def _fill_up(self) -> None:
        """Adds to deposits before they are spent."""
        for channel in self.operators.channels:
            side = channel.payer
            is_low = side.paid + side.deposit - side.owed < self._deposit // _LOW
            if is_low and channel.account.stage is Stage.OPEN and (left := self._left()) > 0:
                with self._funding:
                    channel.fund(min(self._deposit, left))

    def _left(self) -> int:
        """Wei of the budget that are not spent."""
        today = now() - now() % DAY
        limits = (self._budget.day, today), (self._budget.total, 0)
        left = [limit - self._ledger.spent(since) for limit, since in limits if limit is not None]
        return max(0, min(left, default=self._deposit))

    # ---- What became of calls ----

    def _keep(self, call: Call, outputs: bytes) -> None:
        """Keeps the outputs of a call, before the ledger of channels has its response. Raises ConfigError."""
        task = self._tasks.get(call.payment.salt)
        if task is None:
            return
        program = self.program(call.computation.program.hex())
        with suppress(WrongResult):  # whoever waits for them is told
            dtypes = {name: program.parameter(r.buffer).dtype for name, r in program.outputs.items()}
            self._results.write(task, outputs_of(program, outputs), dtypes)

    def _calls_of(self, job: Job) -> list[tuple[bytes, Call]]:
        """The calls that were signed for a job, each with its channel: one for each operator that may have it."""
        return self.operators.ledger.calls_of(_salt_of(job.task))

    def _finish(self, job: Job, fees: int, channel: Channel, call: Call) -> Job:
        """Writes that a job has its result."""
        agreed = channel.account.agreement
        signed = Signed.of(agreed.channel, call)
        owed = sum(one.price for _, one in self._calls_of(job))
        shown = task_as(
            job.task, "signed", "signed", client=agreed.deal.client, executor=agreed.offer.operator,
            price=str(call.price), outputs_root=signed.root,
        )  # fmt: skip
        self._ledger.record(job.task, shown, state=State.ENDED, cost=owed + fees, outputs=signed.text)
        self._changes.notify(job.task)
        return self._ledger.job(job.task)

    def _fail(self, job: Job, fees: int, error: EigenTensorError) -> None:
        """Writes that no operator gave a result: what is under way at one may still come."""
        calls = self._calls_of(job)
        if any(call.response is None for _, call in calls):
            shown = task_as(job.task, "open", "open", waits_for="the response of an operator")
            self._ledger.record(job.task, shown, state=State.OPEN)
        else:
            cost, state = sum(call.price for _, call in calls) + fees, State.ENDED if calls else State.VOID
            shown = task_as(job.task, *["failed" if calls else "void"] * 2)
            self._ledger.record(job.task, shown, state=state, cost=cost, problem=of_error(error))
        self._changes.notify(job.task)

    # ---- Rounds ----

    def _rounds(self) -> None:
        """Until `close`, whatever a round raises."""
        while True:
            try:
                self._round()
                self._is_failing = False
            except Exception as error:
                if not self._is_failing:
                    known = isinstance(error, EigenTensorError)
                    _log.warning("cannot go on with calls", error=str(error), exc_info=None if known else error)
                self._is_failing = True
            if self._ended.wait(_ROUND):
                return

    def _round(self) -> None:
        """Takes up what nobody has, fills up deposits, tells whoever waits for a batch."""
        for job in self._ledger.unfinished():
            if not self._ended.is_set():
                self._taken(job, partial(self._take_up, job))
        self._fill_up()
        for task in self._changes.watched_tasks():
            self._changes.notify(task)
        if self._forgot < now() - DAY:
            self._forgot = now()
            self._ledger.forget(self._forgot - _KEPT, jobs=False)

    def _take_up(self, job: Job) -> None:
        """Finishes a job that was left, unless the operator that has its call failed just now."""
        if (job := self._ledger.job(job.task)).is_over:
            return
        for channel in {channel for channel, call in self._calls_of(job) if call.response is None}:
            url = self.operators.ledger.account(channel.hex()).agreement.url
            if self._away.get(url, 0.0) > time.monotonic():
                continue
            try:
                self.operators.take_up(channel).resume(_RESUMES)
            except EigenTensorError as error:  # a later round tries again
                _log.debug("a call stays under way", task=job.task, error=error.what)
                self._failed(url, error)
        calls = self._calls_of(job)
        done = [(channel, call) for channel, call in calls if call.response is not None]
        fees = max(0, job.escrow - sum(call.price for _, call in calls)) if done else 0
        if done and self._results.path(job.task).exists():
            channel, call = done[0]
            self._finish(job, fees, self.operators.take_up(channel), call)
        elif not any(call.response is None for _, call in calls):
            lost = "its outputs do not fit its program" if done else "the service ended before an operator had it"
            self._fail(job, fees, TaskError(lost, fix="Ask again."))

    # ---- What became of it ----

    def show(self, job: Job) -> schemas.Task:
        """As `Backend.show`: of a call that was signed as far as its batch was looked at."""
        last, signed = self._ledger.last(job.task), self._signed(job)
        if signed is None:
            return last
        stage, _, checked = self._words(signed).partition(", ")
        state = "committed" if stage.startswith("checked(") else stage
        shown: Any = {
            **last, "state": state, "stage": stage, "waits_for": _WAITS.get(state),
            "checked": checked or (stage if state != stage else None),
        }  # fmt: skip
        return shown  # type: ignore[no-any-return]

    def _signed(self, job: Job) -> Signed | None:
        """The call of a job that has its result; None before."""
        outputs = job.outputs or self._ledger.job(job.task).outputs
        return None if outputs is None else Signed.read(outputs)

    def _words(self, signed: Signed) -> str:
        return self.operators.ledger.state_of(bytes.fromhex(signed.channel), signed.index)

    def reached(self, job: Job, stage: str) -> bool:
        """As `Backend.reached`."""
        job = self._ledger.job(job.task)
        if job.problem is not None:
            raise TaskError(job.problem["detail"], fix=job.problem.get("fix", ""))
        if (signed := self._signed(job)) is None or stage == "result":
            return signed is not None
        words = self._words(signed)
        if words == "convicted":
            raise ExecutorConvicted(f"the operator of task {job.task} was convicted: what its batch cost comes back")
        if stage == "final" or words.startswith(("checked(", "final, checked(")):
            return stage != "final" or words.startswith("final")
        if words.startswith("final"):
            raise NotChecked(f"task {job.task} is {words}: no drawn verifier had it", fix="Ask for a task instead.")
        return False

    def result(self, job: Job) -> Outcome:
        """As `Backend.result`."""
        if not self.reached(job, "result") or (signed := self._signed(job)) is None:
            raise NotYet(f"task {job.task} is under way at an operator")
        program, path = self.program(signed.program), self._results.path(job.task)
        outputs = {n: a.reshape(program.outputs[n].shape) for n, a in self._results.read(job.task).items()}
        return Outcome(program, outputs, path, bytes.fromhex(signed.states))

    def explain(self, job: Job) -> schemas.Explanation:
        """As `Backend.explain`."""
        return explanation_of(self.show(job))

    def cancel(self, job: Job) -> schemas.Task:
        """As `Backend.cancel`."""
        raise TaskError(f"task {job.task} is a call: it cannot be taken back once it is signed", fix="Let it end.")

    def receipt(self, job: Job) -> bytes:
        """As `Backend.receipt`: the file of a call receipt, valid offline at once."""
        if not self.reached(job, "result") or (signed := self._signed(job)) is None:
            raise NotYet(f"task {job.task} is under way at an operator: there is no receipt yet")
        ledger = self.operators.ledger
        return ledger.receipt(ledger.account(signed.channel), signed.index).to_bytes()


def _salt_of(task: str) -> int:
    """The random part of the nonce of a job's calls."""
    return int(task, 16) >> _SALT


def _chief(failures: Iterable[EigenTensorError]) -> EigenTensorError:
    """Of what operators raised, one after the other, what is raised: that one gives no response, or the last."""
    *others, last = sorted(failures, key=lambda error: isinstance(error, NoResponse))
    for other in others:
        last.add_note(other.what)
    return last
