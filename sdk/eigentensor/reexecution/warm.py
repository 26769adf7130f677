"""Executing one stranger's program for call after call: confined, within limits, and some of it rechecked.

Calls that wait at the same time are executed together, with the bits that each has alone.
"""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

from eigentensor.errors import EigenTensorError, WrongBits
from eigentensor.program import Program, Role
from eigentensor.program.binding import Results
from eigentensor.reexecution import sample
from eigentensor.reexecution.inputs import BoundProgram, Tensors, load_role
from eigentensor.runtime.sandbox.execution import Limits, Observed
from eigentensor.runtime.sandbox.ready import Given, ReadyProgram
from eigentensor.runtime.sandbox.warm import WarmProgram

SHARE = 0.01  #: of the time of calls that rechecks take
LEAST = 1 / 64  #: of the calls that are rechecked, however long that takes
_SLOWER = 1 / 1024  # by how much of it more than the last one a call is expected to take at most
_NEWEST = 1 / 8  # of an average: what the newest recheck counts
_WORTH = 16  # calls that came together before the program is compiled for several at once


class WarmExecution:
    """A program that stays ready, in its sandbox or elsewhere, with its weights. Of some calls, chosen by chance after
    they came, a random sample is recomputed with the reference: so many that it takes 1 % of what they take alone, one
    in 64 at least."""

    def __init__(
        self,
        program: Program,
        weights: Path | None,
        within: Limits,
        *,
        device: str = "CPU",
        unsafe: bool = False,
        elsewhere: Callable[[Program, Tensors], ReadyProgram] | None = None,
        room: int | None = None,
    ) -> None:
        """`weights` is a file that has the bindings root which orders name. A program that is `elsewhere` is made of it
        and its weights; which calls of it are rechecked is chosen once, with up to `room` results kept besides, since
        each choice is another program there; which elements is chosen anew each time. Raises BindingError,
        TensorFileError if the weights do not fit, and what `WarmProgram` raises."""
        self.program = program
        self._files = () if weights is None else (weights,)
        self._weights: Tensors = {} if weights is None else load_role(weights, program, Role.WEIGHT)
        self._warm: ReadyProgram
        self._chosen, self._room = None if elsewhere is None else secrets.token_bytes(32), room
        if elsewhere is None:
            self._warm = WarmProgram(program, self._files, within, device=device, unsafe=unsafe)
        else:
            self._warm = elsewhere(program, self._weights)
        self._random = SystemRandom()
        self._call = self._recheck = 0.0  # seconds that one takes, a call alone
        self._gathering = 0  # calls that came together
        self._widening = threading.Thread()  # begun when enough did

    @property
    def is_warm(self) -> bool:
        """Whether its process is there."""
        return self._warm.is_warm

    @property
    def most(self) -> int:
        """How many calls are executed together at most."""
        return self._warm.most

    def warm(self) -> None:
        """Starts its process if there is none. Raises NoSandbox, LimitError, ExecutionError."""
        self._warm.warm()

    def widen(self) -> None:
        """Prepares it for several calls at once, for which it prepares itself when enough came together. Where that is
        not possible each is executed alone."""
        with suppress(EigenTensorError, OSError):
            self._warm.widen()

    def close(self) -> None:
        """Ends its process."""
        self._warm.close()

    @property
    def part(self) -> float:
        """The part of the calls that is rechecked, by what both took of late."""
        return max(LEAST, min(1.0, SHARE * self._call / self._recheck)) if self._recheck else 1.0

    def bound(self, tensors: Tensors, variables: Mapping[str, int], repeat: int) -> BoundProgram:
        """The program with its weights and what a call brings."""
        return BoundProgram(self.program, self._files, {**self._weights, **tensors}, variables, repeat)

    def execute(self, tensors: Tensors, variables: Mapping[str, int], repeat: int, seconds: float) -> Results:
        """The results for inputs and states. Raises what `WarmProgram.run` raises, and WrongBits where the device does
        not compute what the reference computes."""
        start, look = time.perf_counter(), self._look(repeat)
        observed = self._warm.run(tensors, variables, repeat, keep=look.keep if look else (), seconds=seconds)
        self._call = _expected(self._call, time.perf_counter() - start)
        if look is not None:
            self._check(look, self.bound(tensors, variables, repeat), observed)
        return observed.results

    async def execute_async(
        self, tensors: Tensors, variables: Mapping[str, int], repeat: int, seconds: float
    ) -> Results:
        """As `execute`, for one caller at a time: its event loop goes on meanwhile."""
        return await self._alone(_Looked(Given(tensors, variables), self._look(repeat)), repeat, seconds)

    async def execute_all_async(
        self, calls: Sequence[Given], repeat: int, seconds: float
    ) -> list[Results | EigenTensorError]:
        """What `execute_async` gives for each of several calls, or the error that it raises: what fails together is
        executed alone. As large a part of the calls is rechecked, each by what it gave together with others. Raises
        WrongBits, which is no fault of a call."""
        outcomes: list[Results | EigenTensorError] = []
        while left := calls[len(outcomes) :]:
            most = self._warm.most if self._call else 1  # what a call takes alone decides how many are rechecked
            some = [_Looked(given, self._look(repeat)) for given in left[:most]]
            outcomes += await self._together(some, repeat, seconds)
        return outcomes

    async def _together(
        self, calls: "Sequence[_Looked]", repeat: int, seconds: float
    ) -> list[Results | EigenTensorError]:
        if len(calls) == 1:
            return [await self._outcome(calls[0], repeat, seconds)]
        given, keep = [one.given for one in calls], [one.keep for one in calls]
        try:
            runs = await self._warm.run_all_async(given, repeat, keep=keep, seconds=seconds)
        except EigenTensorError as error:
            runs = [error] * len(calls)
        self._gathered(len(calls))
        outcomes: list[Results | EigenTensorError] = []
        for call, observed in zip(calls, runs, strict=True):
            if isinstance(observed, EigenTensorError):
                outcomes.append(await self._outcome(call, repeat, seconds))
            else:
                await self._rechecked(call, repeat, observed)
                outcomes.append(observed.results)
        return outcomes

    async def _outcome(self, call: "_Looked", repeat: int, seconds: float) -> Results | EigenTensorError:
        try:
            return await self._alone(call, repeat, seconds)
        except WrongBits:
            raise
        except EigenTensorError as error:
            return error

    async def _alone(self, call: "_Looked", repeat: int, seconds: float) -> Results:
        start = time.perf_counter()
        observed = await self._warm.run_async(*call.given, repeat, keep=call.keep, seconds=seconds)
        self._call = _expected(self._call, time.perf_counter() - start)
        await self._rechecked(call, repeat, observed)
        return observed.results

    async def _rechecked(self, call: "_Looked", repeat: int, observed: Observed) -> None:
        if call.look is not None:
            check = partial(self._check, call.look, self.bound(*call.given, repeat), observed)
            await asyncio.get_running_loop().run_in_executor(None, check)

    def _gathered(self, count: int) -> None:
        """So many calls came together: where that goes on, the program is compiled for it, while calls go on."""
        self._gathering += count
        if self._gathering >= _WORTH and self._warm.may_widen and not self._widening.is_alive():
            self._gathering = 0
            self._widening = threading.Thread(target=self.widen, name="widening", daemon=True)
            self._widening.start()

    def _look(self, repeat: int) -> "_Look | None":
        """What is rechecked of a call, chosen by chance; None: nothing."""
        if self._random.random() >= self.part:
            return None
        seed = secrets.token_bytes(32)
        return _Look(seed, sample.choose(self.program, repeat, self._chosen or seed, self._room))

    def _check(self, look: "_Look", bound: BoundProgram, observed: Observed) -> None:
        """Raises WrongBits."""
        start = time.perf_counter()
        sample.recheck(bound, look.chosen, observed.kept, look.seed)
        took = time.perf_counter() - start  # samples differ: as long as the last ones on average
        self._recheck += (took - self._recheck) * (_NEWEST if self._recheck else 1)


class _Look(NamedTuple):
    """A sample, and what it was chosen by."""

    seed: bytes
    chosen: sample.Sample

    @property
    def keep(self) -> tuple[int, ...]:
        """The executed calls whose results it takes."""
        return self.chosen.keep


class _Looked(NamedTuple):
    """A call, and what of it is rechecked."""

    given: Given
    look: _Look | None

    @property
    def keep(self) -> tuple[int, ...]:
        """The executed calls whose results that takes."""
        return self.look.keep if self.look else ()


def _expected(known: float, value: float) -> float:
    """What is expected after a measurement: as much as the quickest of late, since others waited for the machine."""
    return min(value, known * (1 + _SLOWER)) if known else value
