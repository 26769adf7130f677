"""A program that stays ready for call after call."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from numpy.typing import NDArray

from eigentensor.errors import EigenTensorError, ExecutionError
from eigentensor.runtime.sandbox.returned import Observed

Tensors = Mapping[str, NDArray[Any]]


class Given(NamedTuple):
    """What a call brings: inputs and states, and the values of variables."""

    tensors: Tensors
    variables: Mapping[str, int] = MappingProxyType({})


class ReadyProgram(ABC):
    """A program with its weights, here or elsewhere. Calls are executed one after the other, where nothing else is
    said; what is not ready is made ready by the next one."""

    most: int = 1  #: calls that are handed over together at most

    @property
    @abstractmethod
    def is_warm(self) -> bool:
        """Whether it is ready."""

    @property
    def may_widen(self) -> bool:
        """Whether `widen` may be worth a try."""
        return False

    @abstractmethod
    def warm(self) -> None:
        """Makes it ready, if it is not. Raises LimitError, ExecutionError and what else keeps it from being so."""

    def widen(self) -> None:
        """Makes it ready for several calls at once. Raises ExecutionError where each is executed alone."""
        raise ExecutionError("calls of it are executed one after the other")

    @abstractmethod
    def run(
        self, tensors: Tensors, variables: Mapping[str, int], repeat: int, *, keep: Collection[int], seconds: float
    ) -> Observed:
        """Results for inputs and states, and what the executed calls `keep` wrote.

        Raises BindingError if they do not fit the program, LimitError if it takes longer than `seconds`, of which a
        start is no part, or too much memory, ExecutionError.
        """

    async def run_async(
        self, tensors: Tensors, variables: Mapping[str, int], repeat: int, *, keep: Collection[int], seconds: float
    ) -> Observed:
        """As `run`, for one caller at a time: its event loop goes on meanwhile."""
        run = partial(self.run, tensors, variables, repeat, keep=keep, seconds=seconds)
        return await asyncio.get_running_loop().run_in_executor(None, run)

    async def run_all_async(
        self,
        calls: Sequence[Given],
        repeat: int,
        *,
        keep: Sequence[Collection[int]],
        seconds: float,
    ) -> list[Observed | EigenTensorError]:
        """What `run_async` has for each of several calls, at most `most`, or the error that it raises."""
        outcomes: list[Observed | EigenTensorError] = []
        for call, some in zip(calls, keep, strict=True):
            try:
                outcomes.append(await self.run_async(*call, repeat, keep=some, seconds=seconds))
            except EigenTensorError as error:
                outcomes.append(error)
        return outcomes

    @abstractmethod
    def close(self) -> None:
        """Ends what is ready; the next call makes it ready anew."""
