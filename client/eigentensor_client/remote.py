"""Calls of a function as paid tasks: posted, waited for, and their results given back as what the function returns."""

import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import update_wrapper
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from eigentensor.capture.signatures import Programs, Signatures, Use
from eigentensor.errors import BindingError, EigenTensorError
from eigentensor.runtime import CompiledGraph
from eigentensor_client import aio
from eigentensor_client.handles import Both, Handle, before, talking
from eigentensor_client.orders import Work
from eigentensor_client.results import Plan
from eigentensor_client.transfer import Tell, silent

if TYPE_CHECKING:
    from eigentensor_client.function import function

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

    def __init__(self, wrapped: Callable[P, R], options: "function", programs: Programs | None = None) -> None:
        update_wrapper(self, wrapped, updated=())
        self._name = getattr(wrapped, "__name__", type(wrapped).__name__)
        self.options = options
        self.remote = Both(self._remote, self._remote_aio)
        self.spawn = Both(self._spawn, self._spawn_aio)
        self.map = Both(self._map, self._map_aio)
        self._signatures = Signatures(wrapped, programs)
        self._of_objects: dict[int, Programs] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> "Function[..., R]":
        """The method of an object; its programs are kept as long as the object lives."""
        if instance is None:
            return self
        if id(instance) not in self._of_objects:
            weakref.finalize(instance, self._of_objects.pop, id(instance), None)
            self._of_objects[id(instance)] = Programs()
        return Function(MethodType(self.__wrapped__, instance), self.options, self._of_objects[id(instance)])

    def with_options(self, **changes: Any) -> "Function[P, R]":
        """The same function, and programs, with other options."""
        return Function(self.__wrapped__, replace(self.options, **changes), self._signatures.programs)

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> Plan:
        """What `remote` would cost. Nothing is sent. Raises BindingError, CaptureError, TermsRefused, NotDisputable."""
        (use,) = self._signatures.uses([(args, kwargs)])
        client = self.options.client()
        return client.plan(_work(use, use.weights), self.options.terms(client))

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The bits that `remote` returns, computed on this machine. Raises BindingError, CaptureError."""
        (use,) = self._signatures.uses([(args, kwargs)])
        with self._alone(use):
            captured = use.captured
            captured.executable = captured.executable or CompiledGraph(captured.graph.program)
            tensors = {**use.inputs, **use.weights, **use.states}
            results = captured.executable.run(tensors, use.variables)
            returned: R = use.returned(results.outputs, results.states)
            return returned

    # ---- Paid ----

    def _remote(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Posts a call, waits, fetches, verifies. Wrong arguments are refused before anything is sent.

        Raises what `Client.post` and `Client.wait` raise. Interrupted it leaves the task running and says how to go on.
        """
        (use,) = self._signatures.uses([(args, kwargs)])
        with self._alone(use), talking(self.options) as tell:
            (handle,) = self._posted([use], tell)
            return handle.finished(tell)

    async def _remote_aio(self, *args: P.args, **kwargs: P.kwargs) -> R:
        (use,) = self._signatures.uses([(args, kwargs)])
        with self._alone(use):
            (handle,) = await aio.in_thread(self._posted, [use])
            result: R = await handle.result.aio()
            return result

    def _spawn(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Posts a call and returns at once. Raises what `Client.post` raises."""
        uses = self._stateless([(args, kwargs)])
        with talking(self.options) as tell:
            (handle,) = self._posted(uses, tell)
        return handle

    async def _spawn_aio(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        (handle,) = await aio.in_thread(self._posted, self._stateless([(args, kwargs)]))
        return handle

    def _map(self, *iterables: Iterable[Any], return_exceptions: bool = False) -> Iterator[R]:
        """Posts a call for each item of the iterables, 32 in a transaction; gives their results in order.

        All are posted when it returns. A call that fails raises in its turn, or is given as its error.
        """
        uses = self._stateless(_calls(iterables))
        with talking(self.options) as tell:
            handles = self._posted(uses, tell)
        return self._results(handles, return_exceptions)

    async def _map_aio(self, *iterables: Iterable[Any], return_exceptions: bool = False) -> AsyncIterator[R]:
        handles = await aio.in_thread(self._posted, self._stateless(_calls(iterables)))
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
            with talking(self.options, f"{number + 1} of {len(handles)}: ") as tell, before(handles[number + 1 :]):
                try:
                    result = handle.finished(tell)
                except EigenTensorError as error:
                    if not return_exceptions:
                        raise
                    result = error  # type: ignore[assignment]
            yield result

    # ---- How ----

    def _posted(self, uses: Sequence[Use], tell: Tell = silent) -> list[Handle[R]]:
        if not uses:
            return []
        client = self.options.client()
        kept = {root for use in uses if (root := use.captured.root) and client.gateway.has(root)}
        works = [_work(use, use.captured.root if use.captured.root in kept else use.weights) for use in uses]
        tasks = client.post(works, self.options.terms(client), tell)
        for use, task in zip(uses, tasks, strict=True):
            if use.weights is use.captured.weights:
                use.captured.root = task.order.weights if use.weights else b""
        return [Handle(client, task, use, self.options) for use, task in zip(uses, tasks, strict=True)]

    def _stateless(self, calls: Sequence[tuple[Sequence[Any], dict[str, Any]]]) -> list[Use]:
        uses = self._signatures.uses(calls)
        if assigned := {name for use in uses for name in use.captured.assigned}:
            raise BindingError(
                f"{self._name} assigns to {', '.join(sorted(assigned))}: a call goes on from what the last one left",
                fix="Call .remote, one after the other.",
            )
        return uses

    @contextmanager
    def _alone(self, use: Use) -> Iterator[None]:
        """Refuses a second call while one is under way that assigns to tensors."""
        if not use.captured.assigned:
            yield
            return
        calling = self._signatures.programs.calling
        if not calling.acquire(blocking=False):
            raise BindingError(
                f"a call of {self._name} is under way that assigns to {', '.join(use.captured.assigned)}",
                fix="Wait for it: the next one goes on from what it leaves.",
            )
        try:
            yield
        finally:
            calling.release()


def _work(use: Use, weights: Any) -> Work:
    return Work(use.captured.graph.program, use.inputs, weights, use.states, use.variables)


def _calls(iterables: Sequence[Iterable[Any]]) -> list[tuple[Sequence[Any], dict[str, Any]]]:
    columns = [list(iterable) for iterable in iterables]
    if len(lengths := {len(column) for column in columns}) > 1:
        raise BindingError(f"map over {sorted(lengths)} items", fix="Give as many of each argument.")
    return [(items, {}) for items in zip(*columns, strict=True)]
