"""One worker: its pieces of buffers, and its list of what to compute, copy, send and receive."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Program, Role
from eigentensor.program.restriction import Restricted
from eigentensor.regions.boxes import Box, extents_of_box, slices, volume, within
from eigentensor.regions.rebasing import rebased
from eigentensor.runtime.cpu.device import empty
from eigentensor.runtime.sharded.machines import BoxCall, Machine
from eigentensor.runtime.sharded.mail import Port
from eigentensor.sharding.layout import axes_of
from eigentensor.sharding.plan import Compute, Copy, Piece, Receive, Send, Step, WorkerPlan

Values = NDArray[Any]
Action = Callable[[Sequence[int], Port], None]


class Worker:
    """Runs its part of a plan. Nothing that it was not given, sent, or computed itself is in its memory.

    `evaluations` are those of instructions in an iteration, by call.
    """

    def __init__(self, program: Program, planned: WorkerPlan, machine: Machine) -> None:
        self.program, self.planned, self.axes = program, planned, axes_of(program)
        self.shared = empty(np.uint8, planned.shared)  #: what pieces take turns in
        self.pieces = [self._memory(piece) for piece in planned.pieces]  #: arrays in the shape of their boxes
        self.constants: dict[int, int] = {}  #: where loops begin, by number of the value, after those of variables
        self.evaluations: dict[int, int] = {}
        runs = _runs((*planned.steps, None, *planned.renewing))
        ready = iter(machine.ready([[self._call(of) for of in run] for run in runs if isinstance(run, list)]))
        actions: list[Action | None] = [
            _computing(next(ready), self.constants) if isinstance(run, list) else run and self._action(run)
            for run in runs
        ]
        border = actions.index(None)
        self.actions = [action for action in actions[:border] if action is not None]
        self.renewing = [action for action in actions[border:] if action is not None]

    def give(self, tensors: Mapping[int, Values]) -> None:
        """Puts what is needed of these whole tensors, in the shape of their axes, by number of buffer, in its place."""
        for number in self.planned.given:
            buffer, box, _ = self.planned.pieces[number]
            if buffer in tensors:
                self.fill(number, tensors[buffer][slices(box)])

    def fill(self, piece: int, elements: Values) -> None:
        """Puts all elements of a given piece, in the shape of its box, in their place."""
        self.pieces[piece][...] = elements

    def run(self, values: Sequence[int], port: Port) -> None:
        """One iteration, with the values of all of the program's variables."""
        for action in self.actions:
            action(values, port)

    def renew(self, port: Port) -> None:
        """Lets the new states be the states of the next iteration."""
        for action in self.renewing:
            action((), port)

    def read(self, piece: int, box: Box) -> Values:
        """A box of a piece; the next iteration may write over it."""
        part: Values = self.pieces[piece][slices(within(self.planned.pieces[piece].box, box))]
        return part

    def _memory(self, piece: Piece) -> Values:
        dtype, extents = STORAGE[self.program.parameter(piece.buffer).dtype], extents_of_box(piece.box)
        if piece.offset is None:
            own: Values = empty(dtype, volume(piece.box)).reshape(extents)
            return own
        size = volume(piece.box) * dtype.itemsize
        part: Values = self.shared[piece.offset : piece.offset + size].view(dtype).reshape(extents)
        return part

    def _call(self, step: Compute) -> BoxCall:
        of = self.program.calls[step.call]
        restricted = over_boxes(self.program, self.planned, step)
        self.evaluations[step.call] = restricted.evaluations
        inputs = [step.operands[parameter - 1] for parameter in restricted.parameters]
        values = tuple(of.variables[v] if v >= 0 else self._constant(step.box[-1 - v][0]) for v in restricted.variables)
        flat = tuple(self.pieces[n].reshape(-1) for n in inputs if n is not None)
        return BoxCall(restricted, self.pieces[step.result].reshape(-1), flat, values)

    def _constant(self, value: int) -> int:
        return self.constants.setdefault(value, len(self.program.variables) + len(self.constants))

    def _action(self, step: Copy | Send | Receive) -> Action:
        if isinstance(step, Copy):
            source, target = self.read(step.source, step.box), self.read(step.target, step.box)
            return lambda *_: np.copyto(target, source)
        if isinstance(step, Send):
            sent = self.read(step.source, step.box)
            return lambda _, port: port.send(step.worker, step.number, sent)
        got = self.read(step.target, step.box)
        return lambda _, port: np.copyto(got, port.receive(step.worker, step.number).reshape(got.shape))


def over_boxes(program: Program, planned: WorkerPlan, step: Compute) -> Restricted:
    """What a worker executes of a call: a body over the boxes that it has."""
    of, axes = program.calls[step.call], axes_of(program)
    shapes = tuple(axes[argument] for argument in of.arguments)
    held = tuple(None if n is None else planned.pieces[n].box for n in step.operands)
    return rebased(program.bodies[of.body], shapes, step.box, held)


def constants(program: Program) -> dict[int, Values]:
    """The constants of a program, in the shape of their axes, by number of buffer."""
    axes = axes_of(program)
    return {
        number: np.frombuffer(b.data, STORAGE[b.dtype].newbyteorder("<")).reshape(axes[number])
        for number, b in enumerate(program.buffers)
        if b.role is Role.CONSTANT
    }


def _runs(steps: Sequence[Step | None]) -> list[list[Compute] | Copy | Send | Receive | None]:
    """What is computed with nothing between is one run."""
    runs: list[list[Compute] | Copy | Send | Receive | None] = []
    for step in steps:
        if not isinstance(step, Compute):
            runs.append(step)
        elif runs and isinstance(last := runs[-1], list):
            last.append(step)
        else:
            runs.append([step])
    return runs


def _computing(run: Callable[[Sequence[int]], None], constants: Mapping[int, int]) -> Action:
    return lambda values, _: run((*values, *constants))
