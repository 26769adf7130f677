"""Tasks executed by this machine: no chain, no payment, no check by anybody else, and all of it says so."""

import secrets
import tempfile
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import structlog

from eigentensor import merkle
from eigentensor.chain import NONE
from eigentensor.errors import BlobNotFound, EigenTensorError, LimitError, NotYet, ServiceBusy, TaskCancelled, TaskError
from eigentensor.program import Kind, Program
from eigentensor.program.binding import Results
from eigentensor.program.codec import decode, encode
from eigentensor.program.cost import costs, needs_of
from eigentensor.schemas import tasks as schemas
from eigentensor.store import LocalStore, describe, load_safetensors, save_safetensors
from eigentensor.web.problems import of_error
from eigentensor_client.orders import Work
from eigentensor_client.results import Plan, Tensors
from eigentensor_client.serving import book as books
from eigentensor_client.serving.backend import Ask, Outcome
from eigentensor_client.serving.book import Book, Job, State
from eigentensor_client.serving.changes import Changes
from eigentensor_client.serving.kept import KEPT, Given, ResultFiles
from eigentensor_client.serving.settings import Settings
from eigentensor_client.serving.tokens import Tokens
from eigentensor_client.transfer import Part, bound

_FORGETS = 60  # seconds between looks at what is too old
_COMPILED = 4  # programs with their weights that stay in memory
_log = structlog.get_logger(__name__)


class LocalBackend:
    """Executes one task after the other: what is deployed here in this process, and so what callers name while only
    the user of this machine can be the caller. Where there are tokens, what callers name is confined."""

    is_local = True

    def __init__(
        self, book: Book, changes: Changes, store: LocalStore, given: Given, settings: Settings, tokens: Tokens
    ) -> None:
        self._book = book
        self._changes = changes
        self._store = store
        self._settings = settings
        self._tokens = tokens
        self._results = ResultFiles(settings.data / "results", settings.max_kept)
        self._given = given
        self._forgot = 0.0
        self._programs: dict[str, Program] = {}
        self._compiled: OrderedDict[tuple[str, str | None], Any] = OrderedDict()
        self._waiting: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "execute")
        for job in book.unfinished():
            self._tell(job, "void", state=State.VOID, error=TaskError("the service ended before it was executed"))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def is_healthy(self) -> bool:
        return True

    # ---- Asking ----

    def program(self, uuid: str) -> Program:
        if uuid not in self._programs:
            try:
                program = decode(self._store.read(uuid))
            except BlobNotFound:
                raise _missing(f"no program {uuid}") from None
            if len(self._programs) >= 64:
                self._programs.clear()
            self._programs[uuid] = program
        return self._programs[uuid]

    def quote(self, ask: Ask) -> schemas.Plan:
        self._check(ask)
        unpaid = dict.fromkeys((*Plan.__dataclass_fields__, "affordable"))
        size = _size(ask.uuid, ask.program, ask.repeat)
        return cast(schemas.Plan, {"schema": "eigentensor.plan/1", **unpaid, **size, "local": True})

    def ask(self, ask: Ask, caller: str, key: str | None) -> Job:
        named = ask.named(caller, key)
        if (known := self._book.known(named)) is not None:
            return known
        self._check(ask)
        with self._lock:
            if len(self._waiting) >= self._settings.max_waiting:
                raise ServiceBusy(f"{len(self._waiting)} executions wait for their turn", fix="Ask again later.")
            mine = Job(secrets.token_hex(32), named, ask.app, books.now(), state=State.OPEN)
            job = self._book.add(mine, _said(mine, "queued"))
            if job is mine:
                self._waiting[job.task] = self._pool.submit(self._execute, job, ask)
        return job

    def _check(self, ask: Ask) -> None:
        if ask.weights is not None and ask.weights not in self._store:
            raise _missing(f"no weights {ask.weights}")
        weights: Part = {} if ask.weights is None else bytes.fromhex(ask.weights)
        bound(Work(ask.program, ask.inputs, weights, self._states(ask), ask.variables, ask.repeat))
        needs, limits = needs_of(ask.program, ask.repeat), self._settings
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
        return load_safetensors(self._store.path(ask.states))

    # ---- Executing ----

    def _execute(self, job: Job, ask: Ask) -> None:
        try:
            self._tell(job, "running")
            results = self._results_of(ask, {**ask.inputs, **self._states(ask)})
            dtypes = {(r.kind, r.name): ask.program.parameter(r.buffer).dtype for r in ask.program.results}
            outputs = {r.name: dtypes[Kind.OUTPUT, r.name] for r in ask.program.outputs.values()}
            self._results.write(job.task, results.outputs, outputs)
            roots = merkle.kind_root(ask.program, Kind.OUTPUT, results.outputs), NONE
            if results.states:
                roots = roots[0], self._keep(job, results.states, {n: dtypes[Kind.STATE, n] for n in results.states})
            outputs_root = merkle.outputs_root(*roots).hex()
            self._tell(
                job, "result", state=State.ENDED, cost=0, outputs=f"{ask.uuid} {roots[1].hex()}", root=outputs_root
            )
        except EigenTensorError as error:
            self._tell(job, "failed", state=State.ENDED, cost=0, error=error)
        except Exception as error:  # a fault of ours, or of the device: whoever waits must hear of it
            _log.error("execution failed", task=job.task, exc_info=error)
            said = TaskError(f"this service has a fault: {type(error).__name__}; its log says more")
            self._tell(job, "failed", state=State.ENDED, cost=0, error=said)
        finally:
            with self._lock:
                self._waiting.pop(job.task, None)
            self._forget()

    def _forget(self) -> None:
        if self._forgot < time.time() - _FORGETS:
            self._forgot = time.time()
            self._book.forget(self._forgot - KEPT, jobs=True)

    def _results_of(self, ask: Ask, tensors: Tensors) -> Results:
        if ask.app is not None or not self._tokens:
            results: Results = self._runner(ask).run(tensors, ask.variables, ask.repeat)
            return results
        from eigentensor import rechecked
        from eigentensor.runtime.sandbox import run_sandboxed

        if ask.weights is not None:
            tensors = tensors | load_safetensors(self._store.path(ask.weights))
        limits = rechecked.limits(self._settings.max_memory, self._settings.patience)
        return run_sandboxed(
            encode(ask.program), tensors, ask.variables, ask.repeat, limits, device=self._settings.device
        )

    def _runner(self, ask: Ask) -> Any:
        """The program compiled with its weights; the ones used last stay."""
        from eigentensor.runtime import CompiledGraph

        name = (ask.uuid, ask.weights)
        if name not in self._compiled:
            weights = None if ask.weights is None else self._store.path(ask.weights)
            self._compiled[name] = CompiledGraph(ask.program, weights, device=self._settings.device)
        self._compiled.move_to_end(name)
        while len(self._compiled) > _COMPILED:
            self._compiled.popitem(last=False)
        return self._compiled[name]

    def _keep(self, job: Job, states: Any, dtypes: Any) -> bytes:
        """Stores new states, for a task that goes on from them; their bindings root."""
        with tempfile.TemporaryDirectory(prefix="states-", dir=self._store.root) as folder:
            path = Path(folder, "states")
            save_safetensors(path, states, dtypes)
            names, _ = describe(path)
            self._given.adopt(path, names, job.key.caller)
        return bytes.fromhex(names.computed or "")

    def _tell(self, job: Job, stage: str, *, error: EigenTensorError | None = None, root: str | None = None,
              state: State | None = None, cost: int | None = None, outputs: str | None = None) -> None:  # fmt: skip
        problem = None if error is None else of_error(error)
        self._book.tell(job.task, _said(job, stage, root), state=state, cost=cost, outputs=outputs, problem=problem)
        self._changes.tell(job.task)

    # ---- What became of it ----

    def show(self, job: Job) -> schemas.Task:
        return self._book.last(job.task)

    def reached(self, job: Job, stage: str) -> bool:
        """A local result is a result, whatever is waited for: nobody else will check it."""
        return _has_ended(self._book.job(job.task))

    def result(self, job: Job) -> Outcome:
        job = self._book.job(job.task)
        if not _has_ended(job):
            raise NotYet(f"task {job.task} is not executed yet")
        uuid, states = (job.outputs or "").split()
        path = self._results.path(job.task)
        if not path.exists():
            raise BlobNotFound(f"the result of task {job.task} is not kept any more", fix="Execute it again.")
        program = self.program(uuid)
        outputs = {n: a.reshape(program.outputs[n].shape) for n, a in load_safetensors(path).items()}
        return Outcome(program, outputs, path, bytes.fromhex(states))

    def explain(self, job: Job) -> schemas.Explanation:
        now = self.show(job)
        return {
            "schema": "eigentensor.explanation/1",
            "task": job.task,
            "state": now["state"],
            "waits_for": now["waits_for"],
            "deadline": None,
            "block": None,
            "price": {"now": None, "maximum": None},
            "operators": [],
            "now": now,
        }

    def cancel(self, job: Job) -> schemas.Task:
        with self._lock:
            waiting = self._waiting.get(job.task)
            cancelled = waiting is not None and waiting.cancel()
            if cancelled:
                self._waiting.pop(job.task, None)
        if cancelled:
            self._tell(job, "cancelled", state=State.ENDED, cost=0, error=TaskCancelled("it was cancelled"))
        elif self._book.job(job.task).state is not State.ENDED:
            raise TaskError(f"task {job.task} is being executed", fix="It ends by itself.")
        return self.show(job)

    def receipt(self, job: Job) -> bytes:
        raise TaskError(
            "there is no receipt of what this machine executed itself: nobody signed it, nobody was paid",
            fix="Serve without --local.",
        )


def _has_ended(job: Job) -> bool:
    if job.problem is not None:
        raise TaskError(job.problem["detail"], fix=job.problem.get("fix", ""))
    return job.state is State.ENDED


def _said(job: Job, stage: str, root: str | None = None) -> schemas.Task:
    return {
        "schema": "eigentensor.task/1",
        "task": job.task,
        "state": "local",
        "stage": "local" if stage == "result" else stage,
        "checked": None,
        "waits_for": {"queued": "its turn on this machine", "running": "this machine"}.get(stage),
        "deadline": None,
        "block": None,
        "client": None,
        "executor": None,
        "price": None,
        "collateral": None,
        "stake": None,
        "penalty": None,
        "draw": None,
        "verifiers": None,
        "games": [],
        "outputs_root": root,
        "posted": None,
        "order": None,
        "events": [],
    }


def _missing(what: str) -> BlobNotFound:
    return BlobNotFound(f"{what} on this machine", fix="Give it: PUT /v1/blobs/{its uuid}.")


@lru_cache(maxsize=64)
def _size(uuid: str, program: Program, repeat: int) -> dict[str, Any]:
    """What a plan says of a program whoever executes it."""
    from eigentensor.runtime.memory import estimate_memory_requirements  # with tinygrad

    cost, encoded = costs(program), encode(program)
    return {
        "program": uuid,
        "calls": cost.calls * repeat,
        "evaluations": cost.evaluations * repeat,
        "upload": len(encoded) + cost.input_bytes + cost.weight_bytes + cost.state_bytes,
        "memory": estimate_memory_requirements(program, repeat=repeat)["CPU"],
        "results": cost.result_bytes,
        "repeat": repeat,
    }
