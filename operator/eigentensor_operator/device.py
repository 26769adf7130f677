"""Executing a stranger's program on this machine: confined, within limits, and rechecked."""

import math
import os
from dataclasses import dataclass

from eigentensor.program import encode
from eigentensor.program.binding import Results
from eigentensor.runtime.sandbox import Limits, run_sandboxed
from eigentensor_operator import sample
from eigentensor_operator.data import Bound


@dataclass(frozen=True, slots=True)
class Device:
    """What one execution may use. `unsafe` does without the sandbox."""

    memory: int
    unsafe: bool = False

    def execute(self, bound: Bound, seconds: float, seed: bytes) -> Results:
        """The program's results, of which a random sample, chosen by `seed`, was recomputed with the reference.

        Raises ExecutionError when the program fails or exceeds its limits, WrongBits when the device does not compute
        what the reference computes.
        """
        chosen = sample.choose(bound.program, bound.repeat, seed)
        threads = os.cpu_count() or 1
        limits = Limits(self.memory, seconds, math.ceil(seconds * threads), threads)
        observed = encode(sample.observed(bound.program, chosen))
        results = run_sandboxed(observed, bound.files, bound.variables, bound.repeat, limits, unsafe=self.unsafe)
        sample.recheck(bound, chosen, results, seed)
        return sample.separate(bound.program, results)
