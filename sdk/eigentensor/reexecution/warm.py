"""Executing one stranger's program for call after call: confined, within limits, and some of it rechecked."""

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom

from eigentensor.program import Program, Role
from eigentensor.program.binding import Results
from eigentensor.reexecution import sample
from eigentensor.reexecution.inputs import BoundProgram, Tensors, load_role
from eigentensor.runtime.sandbox.execution import Limits
from eigentensor.runtime.sandbox.warm import WarmProgram

SHARE = 0.1  #: of the time of calls that rechecks take
LEAST = 1 / 64  #: of the calls that are rechecked, however long that takes
_RECENT = 0.1  # by how much a measurement changes what is expected


class WarmExecution:
    """A program that stays in its sandbox, with its weights. Of some calls, chosen by chance after they came, a random
    sample is recomputed with the reference: so many that it takes a tenth of their time, one in 64 at least."""

    def __init__(
        self, program: Program, weights: Path | None, within: Limits, *, device: str = "CPU", unsafe: bool = False
    ) -> None:
        """`weights` is a file that has the bindings root which orders name. Raises BindingError, TensorFileError if it
        does not fit, and what `WarmProgram` raises."""
        self.program = program
        self._files = () if weights is None else (weights,)
        self._weights: Tensors = {} if weights is None else load_role(weights, program, Role.WEIGHT)
        self._warm = WarmProgram(program, self._files, within, device=device, unsafe=unsafe)
        self._random = SystemRandom()
        self._call = self._recheck = 0.0  # seconds that one takes

    @property
    def is_warm(self) -> bool:
        """Whether its process is there."""
        return self._warm.is_warm

    def warm(self) -> None:
        """Starts its process if there is none. Raises NoSandbox, LimitError, ExecutionError."""
        self._warm.warm()

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
        start = time.perf_counter()
        if self._random.random() >= self.part:
            results = self._warm.run(tensors, variables, repeat, seconds=seconds).results
            self._call = _moved(self._call, time.perf_counter() - start)
            return results
        seed = secrets.token_bytes(32)
        chosen = sample.choose(self.program, repeat, seed)
        observed = self._warm.run(tensors, variables, repeat, keep=chosen.keep, seconds=seconds)
        between = time.perf_counter()
        sample.recheck(self.bound(tensors, variables, repeat), chosen, observed.kept, seed)
        self._call = _moved(self._call, between - start)
        self._recheck = _moved(self._recheck, time.perf_counter() - between)
        return observed.results


def _moved(mean: float, value: float) -> float:
    return mean + _RECENT * (value - mean) if mean else value
