"""Executing a stranger's program on this machine: confined, within limits, and rechecked with the reference."""

import math
import secrets
from collections.abc import Collection, Mapping
from typing import Any

from eigentensor import merkle
from eigentensor.errors import WrongBits
from eigentensor.program import Program, encode
from eigentensor.program.binding import Results
from eigentensor.reexecution import sample
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.runtime import devices
from eigentensor.runtime.sandbox.execution import Limits, observe_sandboxed, run_sandboxed
from eigentensor.system import processors
from eigentensor.tracing import Execution, Retrace

OVERHEAD = 4 << 30  # address space of the interpreter and its libraries, of the sample and of results in transit


def limits(memory: int, seconds: float) -> Limits:
    """Those of one execution: `memory` bytes for its buffers, and all processors for so many seconds."""
    threads = processors()
    return Limits(memory + OVERHEAD, seconds, math.ceil(seconds * threads), threads)


def execute(bound: BoundProgram, within: Limits, seed: bytes, *, device: str = "CPU", unsafe: bool = False) -> Results:
    """The program's results, of which a random sample, chosen by `seed`, was recomputed with the reference.

    Raises ExecutionError when the program fails or exceeds its limits, WrongBits when the device does not compute what
    the reference computes. `unsafe` does without the sandbox.
    """
    chosen = sample.choose(bound.program, bound.repeat, seed)
    arguments = bound.files, bound.variables, bound.repeat, within
    observed = observe_sandboxed(encode(bound.program), *arguments, keep=chosen.keep, device=device, unsafe=unsafe)
    sample.recheck(bound, chosen, observed.kept, seed)
    return observed.results


def repeated(bound: BoundProgram, claimed: bytes, within: Limits, *, unsafe: bool = False) -> tuple[bytes, Results]:
    """The outputs root and the results of what somebody claims to have executed; twice, if they are not the `claimed`.
    By CPU, or what stands in for it where clang is missing.

    Whoever contradicts stakes a bond on its device: it must give the same again. Raises what `execute` raises,
    WrongBits also where the second execution gives other bits than the first.
    """
    device = devices.default(confined=not unsafe)
    results = execute(bound, within, secrets.token_bytes(32), device=device, unsafe=unsafe)
    root = merkle.results_root(bound.program, results)
    if root != claimed:
        second = execute(bound, within, secrets.token_bytes(32), device=device, unsafe=unsafe)
        if (again := merkle.results_root(bound.program, second)) != root:
            raise WrongBits(f"this device gives {root.hex()}, and then {again.hex()}")
    return root, results


def retracing(within: Limits, *, device: str = "CPU", unsafe: bool = False) -> Retrace:
    """What executes a program again for a game, confined and within limits. It raises ExecutionError.

    What is asked about single elements of long reductions is computed in the same way.
    """

    def compute(program: Program, tensors: Mapping[str, Any], variables: Mapping[str, int] | None = None) -> Results:
        return run_sandboxed(encode(program), tensors, variables, limits=within, device=device, unsafe=unsafe)

    def retrace(
        program: Program,
        tensors: Mapping[str, Any],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        keep: Collection[int] = frozenset(),
    ) -> Execution:
        arguments = tensors, variables, repeat
        observed = observe_sandboxed(
            encode(program), *arguments, within, keep=keep, roots=True, device=device, unsafe=unsafe
        )
        return Execution.of(program, *arguments, observed.roots, observed.kept, compute)

    return retrace
