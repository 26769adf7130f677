"""Tasks executed by this machine: no chain, no payment, no check by anybody else, and all of it says so."""

import secrets
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import structlog

from eigentensor import merkle
from eigentensor.errors import BlobNotFound, EigenTensorError, LimitError, NotYet, ServiceBusy, TaskCancelled, TaskError
from eigentensor.program import Kind, Program, Role
from eigentensor.program.codec import decode
from eigentensor.reexecution.inputs import load_role
from eigentensor.scratch import scratch
from eigentensor.store import LocalStore, describe, save_safetensors
from eigentensor.task import NONE
from eigentensor.task import objects as schemas
from eigentensor.web.problems import of_error
from eigentensor_client.orders import Work
from eigentensor_client.transfer import Part, bound
from eigentensor_serve.backend import Ask, Changes, Outcome
from eigentensor_serve.executor import Executor
from eigentensor_serve.kept import KEPT, ResultFiles, Uploads
from eigentensor_serve.ledger import Job, Ledger, State, now
from eigentensor_serve.settings import Settings
from eigentensor_serve.showing import explanation_of, plan_of, task_as
from eigentensor_serve.tokens import Tokens

_FORGETS = 0.5  # seconds between looks at what is too old
_QUEUES = 0.05  # seconds after which who waits for its turn is queued
_log = structlog.get_logger(__name__)


class LocalBackend:
    """Executes one task after the other: what is deployed here in this process, and so what callers name while only
    the user of this machine can be the caller. Where there are tokens, what callers name is confined."""

    is_local = True
    is_prompt = True

    def __init__(
        self, ledger: Ledger, changes: Changes, store: LocalStore, uploads: Uploads, settings: Settings, tokens: Tokens
    ) -> None:
        self._ledger = ledger
        self._changes = changes
        self._store = store
        self._settings = settings
        self._executor = Executor(store, settings, tokens)
        self._results = ResultFiles(settings.data / "results", settings.max_kept)
        self._uploads = uploads
        self._forgot = 0.0
        self._programs: dict[str, Program] = {}
        self._waiting: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()  # of whoever executes
        self._pool = ThreadPoolExecutor(1, "execute")
        for job in ledger.unfinished():
            ended = TaskError("the service ended before it was executed")
            self._record(replace(job, state=State.VOID, problem=of_error(ended)), "void")

    def close(self) -> None:
        """As `Backend.close`."""
        self._pool.shutdown(cancel_futures=True)
        with self._turn:  # what is executed at once has ended
            pass

    def is_healthy(self) -> bool:
        """As `Backend.is_healthy`."""
        return True

    # ---- Asking ----

    def program(self, uuid: str) -> Program:
        """As `Backend.program`."""
        if uuid not in self._programs:
            try:
                program = decode(self._store.read(uuid))
            except BlobNotFound:
                raise _missing(f"no program {uuid}") from None
            if len(self._programs) >= 64:
                self._programs.clear()
            self._programs[uuid] = program
        return self._programs[uuid]

    def is_warm(self, uuid: str) -> bool:
        """As `Backend.is_warm`."""
        return uuid in self._programs and self._executor.has_counted(uuid)

    def is_quick(self, ask: Ask) -> bool:
        """As `Backend.is_quick`."""
        is_free = not self._waiting and not self._turn.locked()
        has_files = bool(ask.program.new_states) or isinstance(ask.states, str)  # to read, or to write and wait for
        return is_free and not has_files and self._executor.is_quick(ask) and self._executor.device == "CPU"

    def most_repeat(self, program: Program, uuid: str, states: str | None = None) -> int:
        """As `Backend.most_repeat`."""
        return program.max_repeat

    def quote(self, ask: Ask) -> dict[str, Any]:
        """As `Backend.quote`."""
        self._check(ask)
        return plan_of(ask, local=True)

    def ask(self, ask: Ask, caller: str, key: str | None) -> Job:
        """As `Backend.ask`."""
        named = ask.named(caller, key)
        if (known := self._ledger.known(named)) is not None:
            return known
        self._check(ask)
        mine = Job(secrets.token_hex(32), named, ask.app, now(), state=State.OPEN, cut=ask.cut)
        if not self._waiting and self._executor.is_quick(ask) and self._turn.acquire(timeout=_QUEUES):
            try:
                return self._ledger.known(named) or self._executed(mine, ask)
            finally:
                self._turn.release()
        with self._lock:
            if len(self._waiting) >= self._settings.max_waiting:
                raise ServiceBusy(f"{len(self._waiting)} executions wait for their turn", fix="Ask again later.")
            job = self._ledger.add(mine, task_at(mine, "queued"))
            if job is mine:
                self._waiting[job.task] = self._pool.submit(self._execute, job, ask)
        return job

    def _check(self, ask: Ask) -> None:
        if ask.weights is not None and not self._executor.has_compiled(ask) and ask.weights not in self._store:
            raise _missing(f"no weights {ask.weights}")
        weights: Part = {} if ask.weights is None else bytes.fromhex(ask.weights)
        bound(Work(ask.program, ask.inputs, weights, self._states(ask), ask.variables, ask.repeat))
        needs, limits = self._executor.needs(ask), self._settings
        if needs.operations > limits.max_evaluations or needs.memory > limits.max_memory:
            raise LimitError(
                f"it takes {needs.operations:,} evaluations and {needs.memory:,} bytes; here at most "
                f"{limits.max_evaluations:,} and {limits.max_memory:,} are allowed",
                fix="Raise the service's limits, or execute it elsewhere.",
            )

    def _states(self, ask: Ask) -> dict[str, Any]:
        if not isinstance(ask.states, str):
            return ask.states
        if ask.states not in self._store:
            raise _missing(f"no states {ask.states}")
        return load_role(self._store.path(ask.states), ask.program, Role.STATE)

    # ---- Executing ----

    def _execute(self, job: Job, ask: Ask) -> None:
        """In its turn of those that wait."""
        try:
            with self._turn:
                self._record(job, "running")
                ended = self._ended(job, ask)
            self._record(ended, stage_of(ended))
        except Exception as error:  # it could not be written down, perhaps only once
            self._record(_failed(job, error), "failed")
        finally:
            with self._lock:
                self._waiting.pop(job.task, None)
            self._forget()

    def _executed(self, job: Job, ask: Ask) -> Job:
        """At once: all that happens is written together."""
        ended = self._ended(job, ask)
        then = task_at(job, "running"), task_at(ended, stage_of(ended))
        self._forget()
        return self._ledger.add(ended, task_at(job, "queued"), then=then)

    def _ended(self, job: Job, ask: Ask) -> Job:
        """The job when it is executed, as it came out."""
        try:
            return replace(job, state=State.ENDED, cost=0, outputs=self._results_of(job, ask))
        except Exception as error:
            return _failed(job, error)

    def _results_of(self, job: Job, ask: Ask) -> str:
        """Keeps the results; the program, its states root and its outputs root, with blanks between."""
        results = self._executor.run(ask, {**ask.inputs, **self._states(ask)}, job.key.caller)
        dtypes = {(r.kind, r.name): ask.program.parameter(r.buffer).dtype for r in ask.program.results}
        outputs = {r.name: dtypes[Kind.OUTPUT, r.name] for r in ask.program.outputs.values()}
        self._results.write(job.task, results.outputs, outputs)
        roots = merkle.kind_root(ask.program, Kind.OUTPUT, results.outputs), NONE
        if results.states:
            roots = roots[0], self._keep(job, results.states, {n: dtypes[Kind.STATE, n] for n in results.states})
        return f"{ask.uuid} {roots[1].hex()} {merkle.outputs_root(*roots).hex()}"

    def _forget(self) -> None:
        if self._forgot < time.time() - _FORGETS:
            self._forgot = time.time()
            self._ledger.forget(self._forgot - KEPT, jobs=True)

    def _keep(self, job: Job, states: Any, dtypes: Any) -> bytes:
        """Stores new states, for a task that goes on from them; their bindings root."""
        with scratch(self._store.root) as folder:
            path = folder / "states"
            save_safetensors(path, states, dtypes)
            names, _ = describe(path)
            self._uploads.adopt(path, names, job.key.caller)
        return bytes.fromhex(names.computed or "")

    def _record(self, job: Job, stage: str) -> None:
        self._ledger.record(
            job.task, task_at(job, stage), state=job.state, cost=job.cost, outputs=job.outputs, problem=job.problem
        )
        self._changes.notify(job.task)

    # ---- What became of it ----

    def show(self, job: Job) -> schemas.Task:
        """As `Backend.show`."""
        return self._ledger.last(job.task)

    def reached(self, job: Job, stage: str) -> bool:
        """A local result is a result, whatever is waited for: nobody else will check it."""
        return _has_ended(self._ledger.job(job.task))

    def result(self, job: Job) -> Outcome:
        """As `Backend.result`."""
        job = self._ledger.job(job.task)
        if not _has_ended(job):
            raise NotYet(f"task {job.task} is not executed yet")
        uuid, states = (job.outputs or "").split()[:2]
        program, path = self.program(uuid), self._results.path(job.task)
        outputs = {n: a.reshape(program.outputs[n].shape) for n, a in self._results.read(job.task).items()}
        return Outcome(program, outputs, path, bytes.fromhex(states))

    def explain(self, job: Job) -> schemas.Explanation:
        """As `Backend.explain`."""
        return explanation_of(self.show(job))

    def cancel(self, job: Job) -> schemas.Task:
        """As `Backend.cancel`."""
        with self._lock:
            waiting = self._waiting.get(job.task)
            cancelled = waiting is not None and waiting.cancel()
            if cancelled:
                self._waiting.pop(job.task, None)
        if cancelled:
            problem = of_error(TaskCancelled("it was cancelled"))
            self._record(replace(job, state=State.ENDED, cost=0, problem=problem), "cancelled")
        elif self._ledger.job(job.task).state is not State.ENDED:
            raise TaskError(f"task {job.task} is being executed", fix="It ends by itself.")
        return self.show(job)

    def receipt(self, job: Job) -> bytes:
        """As `Backend.receipt`."""
        raise TaskError(
            "there is no receipt of what this machine executed itself: nobody signed it, nobody was paid",
            fix="Serve without --local.",
        )


def _failed(job: Job, error: Exception) -> Job:
    """The job when it has ended so. What is no error of the tree is a fault of ours, or of the device: it is logged."""
    if not isinstance(error, EigenTensorError):
        _log.error("execution failed", task=job.task, exc_info=error)
        error = TaskError(f"this service has a fault: {type(error).__name__}; its log says more")
    return replace(job, state=State.ENDED, cost=0, problem=of_error(error))


def _has_ended(job: Job) -> bool:
    if job.problem is not None:
        raise TaskError(job.problem["detail"], fix=job.problem.get("fix", ""))
    return job.state is State.ENDED


def _missing(what: str) -> BlobNotFound:
    return BlobNotFound(f"{what} on this machine", fix="Give it: PUT /v1/blobs/{its uuid}.")


def stage_of(job: Job) -> str:
    """Of one that has ended."""
    return "failed" if job.problem else "local"


def task_at(job: Job, stage: str) -> schemas.Task:
    """As it stands at a stage."""
    waits_for = {"queued": "its turn on this machine", "running": "this machine"}.get(stage)
    root = None if job.outputs is None else job.outputs.split()[-1]
    return task_as(job.task, "local", stage, waits_for=waits_for, outputs_root=root)
