"""Slots of this process: threads that execute whole programs, and the tensors of each session."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from numpy.typing import NDArray

from eigentensor.errors import BindingError, ExecutionError, LimitError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Role
from eigentensor_cluster.engine.executing import Programs
from eigentensor_cluster.engine.interface import Spent, Work

Values = dict[int, NDArray[Any]]


class InProcess:
    """A worker whose slots are threads of this process. Sessions that end while it executes leave nothing."""

    is_lost = False

    def __init__(self, programs: Programs, slots: int, name: str, host: str) -> None:
        self.programs, self.slots, self.name, self.host, self.device = programs, slots, name, host, programs.device
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="slot")
        self._held: dict[int, Values] = {}

    def put(self, session: int, number: int, value: NDArray[Any], dtype: DType) -> Awaitable[None]:
        """As `Worker.put`."""
        self._held.setdefault(session, {})[number] = value
        return _done(None)

    def run(self, work: Work) -> Awaitable[Spent]:
        """As `Worker.run`. Raises BindingError for a tensor that is not there."""
        held = self._held.setdefault(work.session, {})
        program = work.program
        missing = [number for number in work.inputs if number not in held]
        if missing:
            raise BindingError(f"tensor {missing[0]} is not at this worker")
        tensors = dict(zip(program.named(Role.INPUT), (held[number] for number in work.inputs), strict=True))
        variables = {v.name: value for v, value in zip(program.variables, work.variables, strict=True)}

        def execute() -> Spent:
            start = time.perf_counter()
            try:
                ran = self.programs.run(work, tensors, variables)
            except MemoryError as error:
                raise LimitError("out of memory", fix="Run a smaller program.") from error
            except OSError as error:
                raise ExecutionError(f"this worker cannot execute: {error}") from error
            for number, result in zip(work.outputs, program.results, strict=True):
                if number:
                    held[number] = ran.outputs[result.name]
            return Spent((time.perf_counter() - start) * ran.slots, ran.compiled)

        return asyncio.get_running_loop().run_in_executor(self._threads, execute)

    def get(self, session: int, number: int) -> Awaitable[NDArray[Any]]:
        """As `Worker.get`. Raises BindingError for a tensor that is not there."""
        value = self.at_hand(session, number)
        if value is None:
            raise BindingError(f"tensor {number} is not at this worker")
        return _done(value)

    def at_hand(self, session: int, number: int) -> NDArray[Any] | None:
        """As `Worker.at_hand`."""
        return self._held.get(session, {}).get(number)

    def free(self, session: int, numbers: Sequence[int]) -> None:
        """As `Worker.free`."""
        held = self._held.get(session, {})
        for number in numbers:
            held.pop(number, None)

    def end(self, session: int) -> None:
        """As `Worker.end`."""
        self._held.pop(session, None)
        self._threads.submit(self.programs.end, session)

    def close(self) -> None:
        """Ends the threads when they have done what they do, and the programs that are ready."""
        self._threads.shutdown(cancel_futures=True)
        self.programs.close()


def _done(value: Any) -> "asyncio.Future[Any]":
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future
