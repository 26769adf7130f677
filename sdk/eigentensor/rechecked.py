"""Executing a stranger's program on this machine: confined, within limits, and rechecked with the reference."""

import math
import os
from collections.abc import Mapping

from eigentensor import sample
from eigentensor.bound import Bound, Tensors
from eigentensor.program import Program, encode
from eigentensor.program.binding import Results
from eigentensor.runtime.sandbox import Limits, run_sandboxed
from eigentensor.tracing import Execute
from eigentensor.tracing.observed import observed_by

OVERHEAD = 4 << 30  # address space of the interpreter and its libraries, of the sample and of results in transit


def limits(memory: int, seconds: float) -> Limits:
    """Those of one execution: `memory` bytes for its buffers, and all processors for so many seconds."""
    threads = os.cpu_count() or 1
    return Limits(memory + OVERHEAD, seconds, math.ceil(seconds * threads), threads)


def execute(bound: Bound, within: Limits, seed: bytes, *, device: str = "CPU", unsafe: bool = False) -> Results:
    """The program's results, of which a random sample, chosen by `seed`, was recomputed with the reference.

    Raises ExecutionError when the program fails or exceeds its limits, WrongBits when the device does not compute what
    the reference computes. `unsafe` does without the sandbox.
    """
    chosen = sample.choose(bound.program, bound.repeat, seed)
    observed = encode(sample.observed(bound.program, chosen))
    results = run_sandboxed(observed, bound.files, bound.variables, bound.repeat, within, device=device, unsafe=unsafe)
    sample.recheck(bound, chosen, results, seed)
    return sample.separate(bound.program, results)


def observing(within: Limits, *, device: str = "CPU", unsafe: bool = False) -> Execute:
    """What executes a program again for a game, so that every call can be observed; each run has these limits.

    It raises ExecutionError.
    """

    def run(program: Program, tensors: Tensors, variables: Mapping[str, int]) -> Results:
        return run_sandboxed(encode(program), tensors, variables, 1, within, device=device, unsafe=unsafe)

    return observed_by(run)
