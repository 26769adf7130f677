"""Calls that are tasks: what is waited for, and what comes of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

from tinygrad import Tensor

from eigentensor.capture.returns import Returns
from eigentensor.program import Program
from eigentensor.receipt import Receipt
from eigentensor_client import aio, waiting
from eigentensor_client.client import Client
from eigentensor_client.results import TaskResult, TaskView
from eigentensor_client.screen import Screen, console
from eigentensor_client.transfer import Tell, silent

if TYPE_CHECKING:
    from eigentensor_client.function import function

P = ParamSpec("P")
R = TypeVar("R")


class _LikeTensor(type(Tensor)):  # type: ignore[misc]
    """tinygrad asks whether one operand is of the other's class: here that is any Tensor."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Received(Tensor, metaclass=_LikeTensor):  # type: ignore[misc]
    """A Tensor out of a task's result; what is computed from it is any other Tensor."""

    result: TaskResult

    @classmethod
    def of(cls, uop: Any, result: TaskResult) -> Self:
        tensor = cls(uop)
        tensor.result = result
        return tensor

    @classmethod
    def _wrap_uop(cls, u: Any) -> Tensor:
        return Tensor(u)

    @property
    def receipt(self) -> Receipt:
        """The task's receipt as it stands when it is asked for; read from the chain each time."""
        return self.result.receipt


class Both(Generic[P, R]):
    """A method that blocks, and as `.aio` the same for asyncio."""

    def __init__(self, blocks: Callable[P, R], aio: Callable[P, Any]) -> None:
        self._blocks = blocks
        self.aio = aio

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._blocks(*args, **kwargs)


class Handle(Generic[R]):
    """A call that was posted as a task; `uuid` is the task's, by which another process takes it up."""

    def __init__(
        self, client: Client, posted: TaskView, program: Program, returns: Returns, options: "function", name: str
    ) -> None:
        self.uuid = posted.uuid
        self.result = Both(self._result, self._result_aio)
        self.look = Both(self._look, self._look_aio)
        self.cancel = Both(self._cancel, self._cancel_aio)
        self._client, self.posted, self._options, self._name = client, posted, options, name
        self._program, self._returns = program, returns
        self._value: R | None = None

    @property
    def task(self) -> TaskView:
        """As `look`."""
        return self._look()

    def _look(self) -> TaskView:
        """The task as it stands now, with its events."""
        return self._client.look(self.posted)

    async def _look_aio(self) -> TaskView:
        return await aio.in_thread(self._look)

    def _cancel(self) -> TaskView:
        """Takes the task back, the whole escrow returns. Raises TaskError if somebody has accepted it."""
        return self._client.cancel(self.posted)

    async def _cancel_aio(self) -> TaskView:
        return await aio.in_thread(self._cancel)

    def _result(self, timeout: float | None = None) -> R:
        """What the function returns, when the task has reached the stage that the options name. Raises NotYet after
        `timeout` seconds, by default those of the options, and what `Client.wait` raises."""
        with talking(self._options) as tell:
            return self.finished(tell, timeout)

    async def _result_aio(self, timeout: float | None = None) -> R:
        if self._value is None:
            with self.going_on():
                result = await aio.finish(self._steps(silent, timeout))
            self._take(result)
        return self._value  # type: ignore[return-value]

    def finished(self, tell: Tell, timeout: float | None = None) -> R:
        """As `result`, told to `tell`."""
        if self._value is None:
            with self.going_on():
                result = waiting.finish(self._steps(tell, timeout))
            self._take(result)
        return self._value  # type: ignore[return-value]

    def going_on(self) -> AbstractContextManager[None]:
        """Whatever ends the block early, but for the task's own end, says how to take the task up."""
        return waiting.going_on([self.posted], f"{self._name}.handle")

    def note(self, error: BaseException) -> None:
        """Adds to an error how to take the task up."""
        waiting.note(error, [self.uuid], f"{self._name}.handle")

    def _steps(self, tell: Tell, timeout: float | None) -> waiting.Steps[TaskResult]:
        limit = self._options.timeout if timeout is None else timeout
        return waiting.complete(self._client, self.posted, self._options.wait, limit, tell)

    def _take(self, result: TaskResult) -> None:
        made = partial(Received.of, result=result)
        self._value = self._returns.filled(self._program, result.outputs, result.states, made)


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
def talking(options: "function", prefix: str = "") -> Iterator[Tell]:
    """A bar in a terminal, nothing elsewhere."""
    if not options.progress or not console(stderr=True).is_terminal:
        yield silent
        return
    with Screen().work() as bar:
        yield lambda text, done=None, total=None: bar(prefix + text, done, total)
