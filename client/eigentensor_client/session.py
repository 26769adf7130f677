"""Sessions: paid tasks of one program, of which each goes on with the states that the one before it left.

The states stay at the gateway: an order names them by their root. What is asked is in the session's file before it is
sent, and what came of it before it is told: whatever ends this process, nothing is lost and nothing is paid twice.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from eigentensor import merkle
from eigentensor.errors import (
    BindingError,
    ConfigError,
    EigenTensorError,
    ExecutorConvicted,
    ExecutorFailed,
    NobodyAccepted,
    Reverted,
    SessionBusy,
    SessionRewound,
    TaskCancelled,
    TaskError,
)
from eigentensor.program import Kind, Program
from eigentensor.task import NONE, State
from eigentensor_client import orders, steps, transfer
from eigentensor_client.files import Tensors
from eigentensor_client.history import Asked, History, SessionFile
from eigentensor_client.orders import Terms, Work
from eigentensor_client.payer import Payer
from eigentensor_client.results import Plan, TaskResult
from eigentensor_client.steps import Steps
from eigentensor_client.task_view import TaskView
from eigentensor_client.transfer import Part, Report, silent

ATTEMPTS = 3  # orders for one step, while tasks end without a result
#: How a task ends without a result that costs the client nothing.
_ENDS: dict[type[TaskError], str] = {
    NobodyAccepted: "expired",
    ExecutorFailed: "failed",
    ExecutorConvicted: "convicted",
}


class Session:
    """Begun by `Client.session`, taken up again by `Client.resume`; for one thread. Usable as a context manager.

    Steps are numbered from 0; `step` is the number of the next one.
    """

    def __init__(self, client: Payer, program: Program, history: History, file: SessionFile | None = None) -> None:
        self.client = client
        self.program = program
        self.history = history
        self._file = file

    @property
    def step(self) -> int:
        """The number of the next step: so many have a result."""
        return len(self.history.steps)

    @classmethod
    def start(
        cls,
        client: Payer,
        program: Program,
        weights: Part,
        states: Part,
        terms: Terms,
        path: Path | None = None,
        report: Report = silent,
    ) -> Self:
        """As `Client.session`."""
        if not program.new_states:
            raise BindingError("the program has no states: no task goes on from another", fix="Post it as a task.")
        client.check_program(program, terms)
        with ExitStack() as undo:
            file = None if path is None else SessionFile(path, new=True)
            if file is not None:
                undo.callback(file.close)
            roots = transfer.upload_fixed(client.gateway, program, weights, states, report)
            domain = client.network.deployment.domain
            history = History(domain, client.address, roots.program, roots.weights, roots.states, terms)
            session = cls(client, program, history)
            if file is not None:
                session._move(file)
            undo.pop_all()
        return session

    @classmethod
    def resume(cls, client: Payer, path: Path) -> Self:
        """As `Client.resume`."""
        file = SessionFile(path)
        try:
            history = file.read()
            mine = (client.network.deployment.domain, client.address)
            if (history.domain, history.client) != mine:
                raise ConfigError(
                    f"the session in {path} is of account {history.client} on market {history.domain.market} "
                    f"of chain {history.domain.chain_id}",
                    fix="Name its network and its keystore.",
                )
            session = cls(client, client.program(history.program.hex()), history, file)
            session._check_end()
            return session
        except BaseException:
            file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets another process have the file."""
        if self._file is not None:
            self._file.close()

    def save(self, path: Path) -> None:
        """From now on the session is in this new file, whole after every change. Raises SessionBusy, ConfigError."""
        self._move(SessionFile(path, new=True))

    # ---- Going on ----

    def run(
        self,
        inputs: Tensors,
        *,
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        stage: str = "result",
        terms: Terms | None = None,
        timeout: float | None = None,
        report: Report = silent,
    ) -> TaskResult:
        """The next step: a task from the states that the last one left, waited for until `stage`.

        If this very step is under way already, it is waited for instead. A task that ends without a result is paid for
        by nobody, and asked for again from the same states, up to ATTEMPTS times. `terms` hold from now on.
        The result's states stay at the gateway: `states` fetches them.

        Raises what `Client.run` raises; SessionBusy if another work is under way; SessionRewound, before anything is
        spent on this step, if the executor of an earlier one was convicted; BlobNotFound while the executor has not
        uploaded the result. The step is under way after NotYet, NotChecked and BlobNotFound.
        """
        with self.going_on():
            return steps.finish(self.running(inputs, variables or {}, repeat, stage, terms, timeout, report))

    def wait(self, stage: str = "final", *, timeout: float | None = None, report: Report = silent) -> None:
        """Waits until the step under way, if there is one, and all before it have reached a stage.

        `timeout` is for each of them. Raises as `run`.
        """
        with self.going_on():
            steps.finish(self.awaiting(stage, timeout, report))

    def look(self) -> None:
        """Asks the chain about all steps that are not final.

        Raises SessionRewound if an executor was convicted: the session stands before that step then.
        """
        history = self.history
        for number, step in enumerate(history.steps):
            if not step.final:
                state = self.client.chain.market.task_at(bytes.fromhex(history.task(step.order))).state
                if state is State.CONVICTED:
                    self._void(number, self.client.failure(self.client.view(step.order)))
                if state is State.FINAL:
                    history = history.finals(number)
        if history != self.history:
            self._write(history)

    def rewind(self, step: int) -> None:
        """Goes back to where a step begins: that one, all after it and the one under way count no more.

        What is under way is taken back if nobody has accepted it; whatever else is void stays paid for.
        Raises BindingError for a step that there is not.
        """
        if not 0 <= step <= self.step:
            raise BindingError(f"there is no step {step}", fix=f"The session has {self.step} of them.")
        self._rewind(step, "rewound")

    # ---- What there is ----

    def plan(self, repeat: int = 1) -> Plan:
        """What a step costs. Raises NotDisputable if it would be refused."""
        work = self._work({}, {}, repeat)
        self.client.check_program(self.program, self.history.terms, repeat)
        return self.client.estimate(work, self.history.terms)

    def result(self, step: int = -1, report: Report = silent) -> TaskResult:
        """The result of a step, the last one by default, fetched and verified again. Raises as `Client.fetch`."""
        if not -self.step <= step < self.step:
            raise BindingError(f"there is no step {step}", fix=f"The session has {self.step} of them.")
        task = self.client.view(self.history.steps[step].order)
        return self.client.fetch(task, report, states=False)

    def states(self, report: Report = silent) -> Tensors:
        """The states with which the next step begins; this machine's cache keeps a copy, should the gateway lose them.

        Raises BlobNotFound if they are gone.
        """
        return transfer.download_states(self.client.gateway, self.program, self.history.next_states, report)

    # ---- As steps ----

    def running(
        self,
        inputs: Tensors,
        variables: Mapping[str, int],
        repeat: int,
        stage: str,
        terms: Terms | None,
        timeout: float | None,
        report: Report,
    ) -> Steps[TaskResult]:
        """As `Session.run`."""
        self.look()
        chosen = orders.terms_for(stage, terms or self.history.terms)
        work = self._work(inputs, variables, repeat)
        self.client.check(work, chosen)
        if self.history.under_way is None:
            self.client.check_escrow(1, chosen)
        roots = transfer.upload(self.client.gateway, work, report)
        if self.history.under_way is None:
            history = self.history if terms is None else self.history.on(terms)
            (order,) = self.client.drafts([work], [roots], chosen)
            self._write(history.asks(order, work.variables))
        elif not self.history.is_under_way(roots, repeat):
            raise SessionBusy(
                f"step {self.step} is under way with another work: task {self.history.task(self._asked.order)}",
                fix="Wait for it (`session wait`), or give it up (`session rewind`).",
            )
        return (yield from self._finishing(stage, timeout, report))

    def awaiting(self, stage: str, timeout: float | None, report: Report) -> Steps[None]:
        """As `Session.wait`."""
        orders.check_stage(stage)
        if self.history.under_way is not None:
            yield from self._finishing(stage, timeout, report)
        for number, step in enumerate(self.history.steps):
            if not step.final:
                try:
                    task = self.client.view(step.order)
                    yield from self.client.waiting(task, stage, timeout, report)
                except ExecutorConvicted as error:
                    self._void(number, error)
        self.look()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Whatever ends the block early, but for the end of a task itself, says how to take up the step under way."""
        first = self.step
        try:
            yield
        except (TaskError, GeneratorExit):
            raise
        except BaseException as error:
            if (asked := self.history.under_way) is not None:
                task = self.history.task(asked.order)
                error.add_note(f"step {self.step} goes on as task {task}: `run` of the same, or `wait`, takes it up")
            elif self.step > first:
                error.add_note(f"step {first} is done: `result({first})` gives its result again")
            raise

    # ---- How ----

    def _work(self, inputs: Tensors, variables: Mapping[str, int], repeat: int) -> Work:
        weights: Part = {} if self.history.weights == NONE else self.history.weights
        return Work(self.program, inputs, weights, self.history.next_states, variables, repeat)

    def _finishing(self, stage: str, timeout: float | None, report: Report) -> Steps[TaskResult]:
        """The result of the step under way, asked for again if need be."""
        for last in [False] * (ATTEMPTS - 1) + [True]:
            task = self._sent(report)
            try:
                task = yield from self.client.waiting(task, stage, timeout, report)
                break
            except TaskCancelled:
                self._write(self.history.gives_up("cancelled"))
                raise
            except (NobodyAccepted, ExecutorFailed, ExecutorConvicted) as error:
                self.look()
                if last:
                    self._write(self.history.gives_up(_ENDS[type(error)]))
                    raise
                report(f"{error.what}; asked again from the same states")
                self._ask_again(_ENDS[type(error)])
        self.look()
        result = yield from self.client.delivering(task, report, False)
        outputs = merkle.kind_root(self.program, Kind.OUTPUT, result.outputs)
        self._write(self.history.answered(outputs, result.states_root))
        return result

    def _sent(self, report: Report) -> TaskView:
        """The task under way, posted now if it has not been."""
        while True:
            order = self._asked.order
            task = self.client.view(order)
            if task.state is not State.NONE:
                return task
            if task.block >= order.accept_by:
                self._ask_again("never posted")  # and no market would take it now
                continue
            try:
                return self.client.send([order], report)[0]
            except Reverted:
                again = self.client.view(order)
                if again.state is State.NONE and again.block < order.accept_by:
                    raise

    def _check_end(self) -> None:
        """Each order names the states before it, and its task is its hash: only the last step's are the file's word."""
        if self.step:
            last = self.history.steps[-1]
            task = bytes.fromhex(self.history.task(last.order))
            if self.client.chain.market.outputs_root_of(task) not in (NONE, last.outputs_root):
                raise ConfigError(
                    f"task {task.hex()} has another result than the session's file says",
                    fix="The file was changed: take one from before.",
                )

    def _ask_again(self, why: str) -> None:
        asked = self._asked
        block = self.client.chain.node.block_number()
        order = orders.renewed(asked.order, secrets.randbits(128), block, self.client.since(asked.order))
        self._write(self.history.gives_up(why).asks(order, asked.variables))

    @property
    def _asked(self) -> Asked:
        assert self.history.under_way is not None
        return self.history.under_way

    def _void(self, step: int, error: EigenTensorError | None) -> NoReturn:
        """An executor was convicted for a step: nothing that was built on it counts."""
        void = self.step - step
        self._rewind(step, "convicted" if void == 1 else "convicted, or built on what was")
        raise SessionRewound(
            f"step {step} was wrong, {void} of {step + void} steps are void{f': {error.what}' if error else ''}",
            step,
            fix=f"Run them again: the session goes on with the states before step {step}.",
        )

    def _rewind(self, step: int, why: str) -> None:
        if self.history.under_way is not None:
            task = self.client.view(self._asked.order)
            if task.state is State.OPEN:
                with suppress(Reverted):  # accepted just now
                    self.client.cancel(task)
        self._write(self.history.rewound(step, why))

    def _write(self, history: History) -> None:
        if self._file is not None:
            self._file.write(history)
        self.history = history

    def _move(self, file: SessionFile) -> None:
        file.write(self.history)
        self.close()
        self._file = file
