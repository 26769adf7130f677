"""`eigentensor.function`: the decorator that lets a function of Tensors be computed by somebody else's device."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import update_wrapper
from types import MethodType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from eigentensor.capture.adapter import LOCK
from eigentensor.capture.signatures import Programs, Signatures, Use
from eigentensor.errors import BindingError, EigenTensorError
from eigentensor.program.binding import Results
from eigentensor.runtime import CompiledGraph
from eigentensor_client.calls import Both, CallHandle, Calls, Handle, Options, Received, before, talking
from eigentensor_client.channels.functions import ChannelCalls
from eigentensor_client.channels.operators import Operators, Terms
from eigentensor_client.results import Plan
from eigentensor_client.steps import in_thread
from eigentensor_client.transfer import silent

P = ParamSpec("P")
R = TypeVar("R")


class Function(Generic[P, R]):
    """A function of Tensors, as it was, that can also be computed elsewhere.

    Called plainly it is the function itself. `remote` posts a paid task and returns what the function returns, as
    Tensors of which each has the task's `result`; tensors that the function assigns to have their new values then.
    Captured once for each kind of arguments: shapes, dtypes, and the values of all that is no tensor. What the function
    refers to is looked at for each call: its tensors are weights, or states where it assigns to them.
    """

    __wrapped__: Callable[P, R]

    def __init__(self, wrapped: Callable[P, R], options: Options, programs: Programs | None = None) -> None:
        update_wrapper(self, wrapped, updated=())
        self.options = options
        self.plan = Both(self._plan, self._plan_aio)
        self.local = Both(self._local, self._local_aio)
        self.remote = Both(self._remote, self._remote_aio)
        self.spawn = Both(self._spawn, self._spawn_aio)
        self.map = Both(self._map, self._map_aio)
        self.handle = Both(self._handle, self._handle_aio)
        self._signatures = Signatures(wrapped, programs, options.shards)
        self._name = self._signatures.name
        self._calls = Calls[R](self._signatures, options)
        operators = options.operators()
        self._channels = None if operators is None else ChannelCalls(operators)
        self._of_objects: dict[int, Programs] = {}

    def __repr__(self) -> str:
        return f"<Function {self._signatures.module}.{self._signatures.qualified}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> "Function[..., R]":
        """The method of an object; its programs are kept as long as the object lives, or as long as this method of one
        that cannot be referred to weakly."""
        if instance is None:
            return self
        programs = self._of_objects.get(id(instance)) or Programs()
        if id(instance) not in self._of_objects:
            with suppress(TypeError):
                weakref.finalize(instance, self._of_objects.pop, id(instance), None)
                self._of_objects[id(instance)] = programs
        return Function(MethodType(self.__wrapped__, instance), self.options, programs)

    def __reduce__(self) -> str:
        """Pickled as functions are: by name, for one at the top of a module."""
        return self._signatures.qualified

    def with_options(self, **changes: Any) -> "Function[P, R]":
        """The same function, and programs, with other options."""
        return Function(self.__wrapped__, replace(self.options, **changes), self._signatures.programs)

    def _plan(self, *args: P.args, **kwargs: P.kwargs) -> Plan:
        """What `remote` would cost. Nothing is sent. Raises BindingError, CaptureError, TermsRefused, NotDisputable."""
        return self._calls.plan(*self._signatures.uses([(args, kwargs)]))

    async def _plan_aio(self, *args: P.args, **kwargs: P.kwargs) -> Plan:
        return await in_thread(self._calls.plan, *self._signatures.uses([(args, kwargs)]))

    def _local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The bits that `remote` returns, computed on this machine. Raises BindingError, CaptureError."""
        with self._alone(args, kwargs) as use:
            return self._filled(use, self._executed(use))

    async def _local_aio(self, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._alone(args, kwargs) as use:
            results = await in_thread(self._executed, use)
            await asyncio.sleep(0)  # a cancellation meanwhile comes here: nothing is assigned
            return self._filled(use, results)

    def _executed(self, use: Use) -> Results:
        captured = use.captured
        with self._signatures.programs.compiling:
            captured.executable = captured.executable or CompiledGraph(captured.graph.program)
        results: Results = captured.executable.run({**use.inputs, **use.weights, **use.states}, use.variables)
        return results

    def _filled(self, use: Use, results: Results) -> R:
        returned: R = use.returns.filled(use.captured.graph.program, results.outputs, results.states)
        return returned

    def on(self, cluster: str | None = None, token: str | None = None) -> Both[P, R]:
        """The same function, computed by a cluster: `on(address)(x)`, and `await on(address).aio(x)`.

        `cluster` is the address that `cluster up` shows, by default that of the environment or this user's own; `token`
        names the file that lets in. What comes back has the bits that `local` gives; nothing is paid. Weights are put
        there once, and again when a value of theirs changes. A call raises BindingError, CaptureError, what the
        execution raises, and ClusterError where the cluster is away or lets nobody in like this.
        """
        from eigentensor_client.clusters import executed

        def blocks(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._alone(args, kwargs) as use:
                return self._filled(use, executed(use, cluster, token))

        async def aio(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._alone(args, kwargs) as use:
                results = await in_thread(executed, use, cluster, token)
                await asyncio.sleep(0)  # a cancellation meanwhile comes here: nothing is assigned
                return self._filled(use, results)

        return Both(blocks, aio)

    # ---- Paid ----

    def _remote(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Posts a call, waits, fetches, verifies. Wrong arguments are refused before anything is sent.

        Raises what `Client.post` and `Client.wait` raise. Interrupted it leaves the task running and says how to go on.
        With the option `channel` it is a paid call instead, in milliseconds; raises what `Operators.call` raises.
        """
        with self._alone(args, kwargs) as use, talking(self.options) as report:
            if self._channels is not None:
                called: R = self._channels.call(use, report, Received.of)
                return called
            (handle,) = self._calls.post([use], report)
            return handle.finished(report)

    async def _remote_aio(self, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._alone(args, kwargs) as use:
            if self._channels is not None:
                called: R = await in_thread(self._channels.call, use, silent, Received.of)
                return called
            (handle,) = await self._calls.post_aio([use])
            result: R = await handle.result.aio()
            return result

    def _spawn(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Posts a call and returns at once. Raises what `Client.post` raises. With the option `channel` the call is
        made meanwhile, in a thread; what went wrong is raised by the handle's `result`."""
        uses = self._stateless([(args, kwargs)])
        if self._channels is not None:
            return self._started(uses)[0]
        with talking(self.options) as report:
            (handle,) = self._calls.post(uses, report)
        return handle

    async def _spawn_aio(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        uses = self._stateless([(args, kwargs)])
        if self._channels is not None:
            return self._started(uses)[0]
        (handle,) = await self._calls.post_aio(uses)
        return handle

    def _map(self, *iterables: Iterable[Any], return_exceptions: bool = False) -> Iterator[R]:
        """Posts a call for each item of the iterables, 32 in a transaction; gives their results in order.

        All are posted when it returns. A call that fails raises in its turn, or is given as its error. With the option
        `channel` as many calls are under way as the operators' offers let.
        """
        uses = self._stateless(_listed(iterables))
        if self._channels is not None:
            return self._results(self._started(uses), return_exceptions)
        with talking(self.options) as report:
            handles = self._calls.post(uses, report)
        return self._results(handles, return_exceptions)

    async def _map_aio(self, *iterables: Iterable[Any], return_exceptions: bool = False) -> AsyncIterator[R]:
        uses = self._stateless(_listed(iterables))
        handles = await self._calls.post_aio(uses) if self._channels is None else self._started(uses)
        for number, handle in enumerate(handles):
            with before(handles[number + 1 :]):
                try:
                    result = await handle.result.aio()
                except EigenTensorError as error:
                    if not return_exceptions:
                        raise
                    result = error
            yield result

    def _results(self, handles: list[Handle[R]], return_exceptions: bool) -> Iterator[R]:
        for number, handle in enumerate(handles):
            with talking(self.options, f"{number + 1} of {len(handles)}: ") as report, before(handles[number + 1 :]):
                try:
                    result = handle.finished(report)
                except EigenTensorError as error:
                    if not return_exceptions:
                        raise
                    result = error  # type: ignore[assignment]
            yield result

    def _handle(self, uuid: str) -> Handle[R]:
        """A call of this function that this user posted on this machine, by its task's uuid or the beginning of it,
        from any process that has the function.

        Raises TaskNotFound where nobody wrote down what it returns, BindingError where that cannot be made any more.
        """
        return self._calls.taken_up(*self._calls.known(uuid))

    async def _handle_aio(self, uuid: str) -> Handle[R]:
        return self._calls.taken_up(*await in_thread(self._calls.known, uuid))

    # ---- How ----

    def _stateless(self, calls: Sequence[tuple[Sequence[Any], dict[str, Any]]]) -> list[Use]:
        uses = self._signatures.uses(calls)
        if assigned := {name for use in uses for name in use.captured.assigned}:
            raise BindingError(
                f"{self._name} assigns to {', '.join(sorted(assigned))}: a call goes on from what the last one left",
                fix="Call .remote, one after the other.",
            )
        return uses

    def _started(self, uses: Sequence[Use]) -> list[Handle[R]]:
        """Calls through channels, under way."""
        assert self._channels is not None
        return [CallHandle(self._channels.start(use, Received.of), self._name) for use in uses]

    @contextmanager
    def _alone(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Use]:
        """A call. Refuses a second one while one is under way that assigns to tensors."""
        calling = self._signatures.programs.calling
        with LOCK:  # within it the last call has assigned, or is still under way
            (use,) = self._signatures.uses([(args, kwargs)])
            if (assigned := use.captured.assigned) and not calling.acquire(blocking=False):
                raise BindingError(
                    f"a call of {self._name} is under way that assigns to {', '.join(assigned)}",
                    fix="Wait for it: the next one goes on from what it leaves.",
                )
        try:
            yield use
        finally:
            if assigned:
                calling.release()


def _listed(iterables: Sequence[Iterable[Any]]) -> list[tuple[Sequence[Any], dict[str, Any]]]:
    if others := [type(each).__name__ for each in iterables if not hasattr(each, "__iter__")]:
        raise BindingError(f"map over a {others[0]}", fix="Give what has items: a list, an array, a generator.")
    columns = [list(iterable) for iterable in iterables]
    if len(lengths := {len(column) for column in columns}) > 1:
        raise BindingError(f"map over {sorted(lengths)} items", fix="Give as many of each argument.")
    return [(items, {}) for items in zip(*columns, strict=True)]


@dataclass(frozen=True, kw_only=True)
class function(Options):  # noqa: N801
    """A decorator: `@function(max_price="0.05", wait="checked")`. The options are those of `eigentensor run`.

    Amounts are decimal strings in the market's token; `max_price` is the most that the executor is paid, enforced on
    chain. `wait` is the stage after which a call returns: `checked` asks for a check with certainty. NotYet comes after
    `timeout` seconds. A call whose escrow came back without a result is posted again up to `retries` times. `network`
    is a name or a file, by default what the environment names; a keystore too is named there. `progress` shows bars in
    a terminal.

    `channel=True` makes calls that are paid without a task each, at the operators that $EIGENTENSOR_OPERATORS names;
    `deposit` is what a channel is opened with, `recheck` the share of calls that is executed again here, `max_price`
    the most that one costs. `eigentensor.channels(URL).function(…)` names operators itself.

    Raises BindingError, ConfigError for values that no option has.
    """

    def __new__(cls, *positional: Any, **options: Any) -> Self:
        if positional:
            raise BindingError("the options of function have names", fix="Write @function(…) above it, with brackets.")
        return super().__new__(cls)

    def __call__(self, wrapped: Callable[P, R]) -> Function[P, R]:
        return Function(wrapped, self)


class channels(Operators):  # noqa: N801
    """Operators by their URLs, to call through channels: `channels("https://…", deposit="0.5")`.

    The first one that takes a call computes it; the next one does where it refuses or does not respond within `timeout`
    seconds. Amounts are decimal strings in the market's token. `with` lets the channels go at its end; on chain they
    stay open, and are taken up the next time. Raises BindingError for values that no option has.
    """

    def __init__(self, *urls: str, network: str | None = None, **terms: Any) -> None:
        try:
            chosen = Terms(**terms)
        except TypeError as error:
            raise BindingError(f"channels: {error}", fix="Its options are those of `Terms`.") from None
        super().__init__(urls, chosen, network)

    def function(self, **options: Any) -> function:
        """As `eigentensor.function`, of calls through these channels."""
        return function(channel=self, **options)
