"""A program without any compiler: the reference computes it, slowly, with the bits that it has everywhere."""

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from eigentensor import clang, reference
from eigentensor.errors import LimitError
from eigentensor.program.cost import costs
from eigentensor.program.model import Program, Result, Role
from eigentensor.runtime.watch import UNWATCHED, Watch

#: Evaluations of operations of one run, some ten seconds' worth: for more somebody wants a compiler.
MOST = 1 << 31


class Interpreted:
    """A program and its tensors. It keeps what calls write for as long as an iteration lasts."""

    compiled = 0

    def __init__(self, program: Program) -> None:
        self.program = program
        self.evaluations = costs(program).evaluations
        self.states = {i: program.new_states[b.name] for i, b in enumerate(program.buffers) if b.role is Role.STATE}
        self.bound: dict[int, NDArray[Any]] = {}
        self.written: list[NDArray[Any]] = []  #: all buffers after the last iteration

    def bind(self, arrays: Mapping[int, NDArray[Any]]) -> None:
        """These flat arrays, by number of buffer, are read in every run."""
        self.bound = dict(arrays)

    def run(
        self, arrays: Mapping[int, NDArray[Any]], values: Iterable[tuple[int, ...]], watch: Watch = UNWATCHED
    ) -> None:
        """All calls in order on the bound arrays and these, once for each tuple of the variables' values.

        Raises LimitError where that is more than somebody should wait for, ExecutionError where this thread does not
        compute as the reference must.
        """
        reference.check_arithmetic()
        iterations = list(values)
        if (wanted := self.evaluations * len(iterations)) > MOST:
            raise LimitError(
                f"clang is not installed, and the reference takes at most {MOST:,} evaluations: here are {wanted:,}",
                fix=clang.FIX,
            )
        known = {**({} if arrays.keys() >= self.states.keys() else self._left()), **self.bound, **arrays}
        for iteration, of in enumerate(iterations):
            tensors = [known[number] for number in range(len(self.program.buffers))]
            pauses = dict(watch.pauses(iteration))
            self.written = list(tensors)
            for call, result in enumerate(reference.calls(self.program, tensors, of)):
                self.written.append(result)
                if call in pauses:
                    watch.observe(pauses[call], result)
            known |= self._left()

    def run_in(
        self,
        arrays: Mapping[int, NDArray[Any]],
        states: Mapping[int, NDArray[Any]],
        values: Iterable[tuple[int, ...]],
    ) -> None:
        """As `run`, from states in these arrays, into which the new ones are copied. Raises as `run`."""
        self.run({**arrays, **states}, values)
        for number, array in self._left().items():
            states[number][:] = array

    def read(self, result: Result) -> NDArray[Any]:
        """What the last run wrote, shaped, as a new array."""
        return self.written[result.buffer].reshape(result.shape).copy()

    def _left(self) -> dict[int, NDArray[Any]]:
        """The new states of the last iteration, by number of the state."""
        return {number: self.written[new.buffer] for number, new in self.states.items()}
