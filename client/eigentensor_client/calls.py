"""Calls of a function as tasks: their terms, posted, written down, waited for, taken up by another process."""

import asyncio
import atexit
import json
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Generic, ParamSpec, Self, TypeVar

from tinygrad import Tensor

from eigentensor import merkle, spending
from eigentensor.capture.returns import Returns
from eigentensor.capture.signatures import Signatures, Use
from eigentensor.capture.values import values_of
from eigentensor.chain import Network, to_wei
from eigentensor.chain.keys import checked_address
from eigentensor.chain.network import state_folder
from eigentensor.economics.words import read_rate
from eigentensor.errors import BindingError, ConfigError, EigenTensorError, NotYet, TaskNotFound
from eigentensor.lowering.shards import Shards
from eigentensor.pace import UNKNOWN
from eigentensor.program import Program, Role
from eigentensor.receipt import Receipt
from eigentensor.receipt.calls import SignedCall
from eigentensor.system import held_over_forks
from eigentensor.task import order_uuid
from eigentensor_client import notebook, steps
from eigentensor_client.attempts import Attempts
from eigentensor_client.channels.channel import CallResult
from eigentensor_client.channels.functions import close as close_channels
from eigentensor_client.channels.functions import operators_of
from eigentensor_client.channels.operators import Operators
from eigentensor_client.channels.operators import Terms as ChannelTerms
from eigentensor_client.client import Client
from eigentensor_client.offers import Offer
from eigentensor_client.orders import Terms, Work, check_stage, read_terms, terms_for
from eigentensor_client.results import Plan, TaskResult
from eigentensor_client.screen import Screen, console
from eigentensor_client.steps import Steps, finish_async, in_thread
from eigentensor_client.task_view import TaskView
from eigentensor_client.transfer import Report, silent

P = ParamSpec("P")
R = TypeVar("R")

#: By process too: what a process has opened is not for those that it forks.
_clients: dict[tuple[int, Network, str | None], Client] = {}
_lock = Lock()
held_over_forks(_lock)


@dataclass(frozen=True, kw_only=True)
class Options(Offer):
    """The options of `eigentensor.function`, which choose this process's client.

    Raises BindingError, ConfigError for values that no option has.
    """

    wait: str = "final"
    timeout: float | None = None
    retries: int = 0
    network: str | None = None
    progress: bool = True
    channel: "bool | Operators" = False
    deposit: str | None = None
    recheck: str = "0%"
    shards: Shards = 1

    def __post_init__(self) -> None:
        for name in ("max_price", "min_price", "check_fee", "value_at_risk"):
            if not isinstance(value := getattr(self, name), str | None):
                raise BindingError(f"{name} is {value!r}, no text", fix=f'Write {name}="{value}".')
            if to_wei(value or "0") < 0:
                raise BindingError(f"{name} is {value}", fix="Write an amount that is not negative.")
        check_stage(self.wait)
        if not isinstance(self.check, str):
            raise BindingError(f"check is {self.check!r}, no text", fix='Write it as "20%" or as "0.2".')
        read_rate(self.check)
        least = {"ramp": 0, "verifiers": 1, "exec": 1, "accept_within": 1, "retries": 0}
        for name, first in least.items():
            value = getattr(self, name)
            if (value is not None or name not in ("exec", "ramp")) and (type(value) is not int or value < first):
                raise BindingError(f"{name} is {value!r}", fix=f"Write a whole number, {first} or more.")
        checked_address(self.operator, "operator")
        if self.timeout is not None and (not isinstance(self.timeout, int | float) or not self.timeout >= 0):
            raise BindingError(f"timeout is {self.timeout!r}", fix="Write seconds, or None.")
        if not isinstance(self.network, str | None):
            raise BindingError(f"network is {self.network!r}", fix="Write its name, or the path of its file.")
        if self.channel is False and (self.deposit is not None or self.recheck != "0%"):
            raise BindingError("deposit and recheck are of calls through channels", fix="Write channel=True as well.")

    def operators(self) -> Operators | None:
        """Where calls go, through channels; None: they are tasks."""
        if isinstance(self.channel, Operators):
            return self.channel
        if not self.channel:
            return None
        given = {"deposit": self.deposit, "timeout": self.timeout}
        terms = ChannelTerms(
            max_price=self.max_price, value_at_risk=self.value_at_risk, recheck=self.recheck,
            **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
        )  # fmt: skip
        return operators_of((), self.network, terms)

    def terms(self, client: Client) -> Terms:
        """With which the stage can be waited for."""
        return terms_for(self.wait, read_terms(client.network, self))

    def client(self) -> Client:
        """This process's client of the network and the account. Raises ConfigError."""
        with _lock:
            network = Network.load(self.network)
            key = os.getpid(), network, os.environ.get("EIGENTENSOR_KEYSTORE")
            if key not in _clients:
                _clients[key] = Client(network)
            return _clients[key]


@atexit.register
def _close() -> None:
    """Closes what this process has opened."""
    close_channels()
    for (process, *_), client in _clients.items():
        if process == os.getpid():
            client.close()


class _LikeTensor(type(Tensor)):  # type: ignore[misc]
    """tinygrad asks whether one operand is of the other's class: here that is any Tensor."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Received(Tensor, metaclass=_LikeTensor):  # type: ignore[misc]
    """A Tensor out of a task's result, or a call's; what is computed from it is any other Tensor."""

    result: TaskResult | CallResult

    @classmethod
    def of(cls, uop: Any, result: TaskResult | CallResult) -> Self:
        """The Tensor of a tinygrad expression, with the result that it comes from."""
        tensor = cls(uop)
        tensor.result = result
        return tensor

    @classmethod
    def _wrap_uop(cls, u: Any) -> Tensor:
        return Tensor(u)

    def _repr_html_(self) -> str:
        rows = [("shape", self.shape), ("dtype", self.dtype.name), ("state", self.state)]
        about = self.result._repr_html_() if isinstance(self.result, TaskResult) else ""
        return notebook.facts("tensor out of a result", rows, about)

    @property
    def receipt(self) -> Receipt | SignedCall:
        """The receipt as it stands when it is asked for: of a task, which is read from the chain each time; of a call,
        as far as the watch of its channel saw its batch."""
        return self.result.receipt

    @property
    def state(self) -> str:
        """How the call stands, as its receipt proves it: `signed`, `committed`, `checked(k)`, `final, …`; of a task, in
        the words that `ps` has."""
        return self.result.state if isinstance(self.result, CallResult) else self.result.task.words


class Both(Generic[P, R]):
    """A method that blocks, and as `.aio` the same for asyncio."""

    def __init__(self, blocks: Callable[P, R], aio: Callable[P, Any]) -> None:
        self._blocks = blocks
        self.aio = aio

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._blocks(*args, **kwargs)


class Handle(Generic[R]):
    """A call that was posted as a task, and again as another one where the options say so."""

    def __init__(
        self, client: Client, posted: TaskView, program: Program, returns: Returns, options: Options, name: str
    ) -> None:
        self.result = Both(self._result, self._result_aio)
        self.look = Both(self._look, self._look_aio)
        self.cancel = Both(self._cancel, self._cancel_aio)
        self._client, self._options, self._name = client, options, name
        self._attempts = Attempts([posted], self._again, options.retries)
        self._program, self._returns = program, returns
        self._value: R | None = None

    def __repr__(self) -> str:
        return f"<Handle of {self._name}, task {self.uuid[:10]}>"

    def _repr_html_(self) -> str:
        """As it stands now; as it was posted, where nobody can be asked."""
        try:
            task, pace = self._look(), self._client.pace
        except EigenTensorError:
            task, pace = self.posted, UNKNOWN
        return notebook.facts(f"{self._name}, task {self.uuid[:10]}", task.rows(pace))

    def __await__(self) -> Generator[Any, None, R]:
        """As `await handle.result.aio()`."""
        return self.result.aio().__await__()  # type: ignore[no-any-return]

    @property
    def posted(self) -> TaskView:
        """The task as it was when it was posted."""
        return self._attempts.current[0]

    @property
    def uuid(self) -> str:
        """The task's, by which another process takes it up."""
        return self.posted.uuid

    @property
    def task(self) -> TaskView:
        """As `look`."""
        return self._look()

    def _look(self) -> TaskView:
        """The task as it stands now, with its events."""
        return self._client.look(self.posted)

    async def _look_aio(self) -> TaskView:
        return await in_thread(self._look)

    def _cancel(self) -> TaskView:
        """Takes the task back, the whole escrow returns. Raises TaskError if somebody has accepted it."""
        return self._client.cancel(self.posted)

    async def _cancel_aio(self) -> TaskView:
        return await in_thread(self._cancel)

    def _result(self, timeout: float | None = None) -> R:
        """What the function returns, when the task has reached the stage that the options name. Raises NotYet after
        `timeout` seconds, by default those of the options, and what `Client.wait` raises."""
        with talking(self._options) as report:
            return self.finished(report, timeout)

    async def _result_aio(self, timeout: float | None = None) -> R:
        if self._value is None:
            with self.going_on(), in_notebook(self._options) as report:
                result = await finish_async(self._steps(report, timeout))
            self._take(result)
        return self._value  # type: ignore[return-value]

    def finished(self, report: Report, timeout: float | None = None) -> R:
        """As `result`, with reports of the progress."""
        if self._value is None:
            with self.going_on():
                result = steps.finish(self._steps(report, timeout))
            self._take(result)
        return self._value  # type: ignore[return-value]

    def going_on(self) -> AbstractContextManager[None]:
        """Whatever ends the block early, but for the task's own end, says how to take the task up."""
        return steps.going_on(self._attempts.current, f"{self._name}.handle")

    def note(self, error: BaseException) -> None:
        """Adds to an error how to take the task up."""
        steps.note(error, [self.uuid], f"{self._name}.handle")

    def _steps(self, report: Report, timeout: float | None) -> Steps[TaskResult]:
        limit = self._options.timeout if timeout is None else timeout
        return self._client.completing(self._attempts, self._options.wait, limit, report)

    def _again(self, task: TaskView) -> TaskView:
        """Written down as the first one was before it is posted."""
        order = self._client.renewed(task)
        uuid = order_uuid(order, self._client.network.deployment.domain).hex()
        keep_calls({uuid: find_call(task.uuid)})
        (posted,) = self._client.send([order])
        return posted

    def _take(self, result: TaskResult) -> None:
        made = partial(Received.of, result=result)
        self._value = self._returns.filled(self._program, result.outputs, result.states, made)


class CallHandle(Handle[R]):
    """A call that is under way through a channel. It is no task: it has a result, and nothing else to ask for."""

    def __init__(self, future: Future[R], name: str) -> None:
        self.result = Both(self._result, self._result_aio)
        self.look = Both(self._look, self._look_aio)
        self.cancel = Both(self._cancel, self._cancel_aio)
        self._future, self._name = future, name

    def __repr__(self) -> str:
        return f"<Handle of {self._name}, a call{'' if self._future.done() else ' under way'}>"

    def _repr_html_(self) -> str:
        return notebook.facts(self._name, [("a call", "done" if self._future.done() else "under way")])

    @property
    def posted(self) -> TaskView:
        """There is none. Raises BindingError."""
        raise BindingError(f"a call of {self._name} through a channel is no task", fix="Ask for its result.")

    def _look(self) -> TaskView:
        return self.posted

    def _cancel(self) -> TaskView:
        return self.posted

    def _result(self, timeout: float | None = None) -> R:
        """What the function returns. Raises NotYet after `timeout` seconds, and what `Operators.call` raises."""
        try:
            return self._future.result(timeout)
        except TimeoutError:
            if self._future.done():
                raise
            raise NotYet(
                f"a call of {self._name} has no result after {timeout} s", fix="Ask again: it goes on."
            ) from None

    async def _result_aio(self, timeout: float | None = None) -> R:
        return await in_thread(self._result, timeout)

    def finished(self, report: Report, timeout: float | None = None) -> R:
        """As `result`."""
        return self._result(timeout)

    def note(self, error: BaseException) -> None:
        """Adds nothing: what is under way ends by itself."""


@contextmanager
def before(later: Sequence[Handle[Any]]) -> Iterator[None]:
    """Whatever ends the block early says how to take up the tasks that nobody waits for then."""
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException as error:
        for handle in later:
            handle.note(error)
        raise


@contextmanager
def talking(options: Options, prefix: str = "") -> Iterator[Report]:
    """A bar in a terminal and in a notebook, nothing elsewhere."""
    if not options.progress or not (notebook.is_here() or console(stderr=True).is_terminal):
        yield silent
        return
    with notebook.bar() if notebook.is_here() else Screen().work() as bar:
        yield lambda text, done=None, total=None: bar(prefix + text, done, total)


@contextmanager
def in_notebook(options: Options) -> Iterator[Report]:
    """A bar in a notebook, where several may move at once; nothing elsewhere."""
    if not options.progress or not notebook.is_here():
        yield silent
        return
    with notebook.bar() as bar:
        yield bar


class Calls(Generic[R]):
    """Written down before they are posted: what a call returns is known to whoever has the function and the uuid."""

    def __init__(self, signatures: Signatures, options: Options) -> None:
        self.signatures = signatures
        self.options = options

    def plan(self, use: Use) -> Plan:
        """What a call would cost. Raises what `Client.plan` raises."""
        client = self.options.client()
        return client.plan(_work(use, use.weights), self.options.terms(client))

    def post(self, uses: Sequence[Use], report: Report = silent) -> list[Handle[R]]:
        """Posts calls. Weights that the gateway has are not looked at again. Raises what `Client.post` raises."""
        if not uses:
            return []
        spending.check()  # before a network is asked for
        client = self.options.client()
        kept = {root for use in uses if (root := use.captured.root) and client.gateway.has(root)}
        works = [_work(use, use.captured.root if use.captured.root in kept else use.weights) for use in uses]
        drafts = client.prepare(works, self.options.terms(client), report)
        for use, draft in zip(uses, drafts, strict=True):
            if use.weights is use.captured.weights:
                use.captured.root = draft.weights if use.weights else b""
        uuids = [order_uuid(draft, client.network.deployment.domain).hex() for draft in drafts]
        keep_calls(dict(zip(uuids, map(self._record, uses), strict=True)))
        tasks = client.send(drafts, report)
        return [
            self._handle(client, task, use.captured.graph.program, use.returns)
            for use, task in zip(uses, tasks, strict=True)
        ]

    async def post_aio(self, uses: Sequence[Use]) -> list[Handle[R]]:
        """As `post`, for asyncio."""
        handles = await in_thread(self.post, uses)
        with before(handles):
            await asyncio.sleep(0)  # a cancellation meanwhile comes here, where the tasks are known
        return handles

    def known(self, uuid: str) -> tuple[Client, TaskView, Program, Any]:
        """A task, its program, and what was written down of it. Raises TaskNotFound."""
        client = self.options.client()
        task = client.task(uuid)
        if (call := find_call(task.uuid)) is None:
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

    def _record(self, use: Use) -> dict[str, Any]:
        return {"function": self.signatures.qualified, "returns": use.returns.to_json(self.signatures.module)}

    def _handle(self, client: Client, task: TaskView, program: Program, returns: Returns) -> Handle[R]:
        return Handle(client, task, program, returns, self.options, self.signatures.name)


def _work(use: Use, weights: Any) -> Work:
    return Work(use.captured.graph.program, use.inputs, weights, use.states, use.variables)


# ---- The file ----


def keep_calls(calls: Mapping[str, Any]) -> None:
    """Writes calls down by their tasks' uuids, before these are posted. Raises ConfigError if that cannot be."""
    with _calls_file() as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS calls (task TEXT PRIMARY KEY, call TEXT NOT NULL)")
        rows = [(uuid, json.dumps(call)) for uuid, call in calls.items()]
        connection.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?)", rows)


def find_call(uuid: str) -> Any:
    """What was written down of a task; None if nothing was."""
    if not _calls_path().exists():
        return None
    with _calls_file() as connection:
        row = connection.execute("SELECT call FROM calls WHERE task = ?", (uuid,)).fetchone()
        return None if row is None else json.loads(row[0])


def _calls_path() -> Path:
    return state_folder() / "calls.sqlite"


@contextmanager
def _calls_file() -> Iterator[sqlite3.Connection]:
    try:
        _calls_path().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with closing(sqlite3.connect(_calls_path(), timeout=60)) as connection:
            yield connection
    except (OSError, sqlite3.Error) as error:
        raise ConfigError(f"cannot use {_calls_path()}: {error}", fix="Make room, or move it away.") from None
