"""Executing a stranger's program on the local device: confined, within limits, and rechecked."""

from dataclasses import dataclass

from eigentensor.runtime.sandbox import Limits, run_sandboxed

from eigentensor.program import encode
from eigentensor.program.binding import Results
from eigentensor_operator import sample
from eigentensor_operator.data import Bound


@dataclass(frozen=True, slots=True)
class Device:
    """tinygrad's name of the device, and what one execution may use of the machine."""

    name: str
    memory: int
    unsafe: bool = False

    def execute(self, bound: Bound, seconds: float, seed: bytes) -> Results:
        """The program's results, of which a random sample, chosen by `seed`, was recomputed with the reference.

        Raises ExecutionError when the program fails or exceeds its limits, WrongBits when the device does not compute
        what the reference computes.
        """
        chosen = sample.choose(bound.program, bound.repeat, seed)
        results = run_sandboxed(
            encode(sample.observed(bound.program, chosen)),
            bound.tensors,
            bound.variables,
            bound.repeat,
            Limits(memory=self.memory, seconds=seconds),
            device=self.name,
            unsafe=self.unsafe,
        )
        sample.recheck(bound, chosen, results, seed)
        return sample.separate(bound.program, results)
