"""A part of a plan in a sandboxed process, as whoever is outside has it: boxes go in and out over the process's pipes.

The process has no way to other workers. It follows its list of steps, and so does this side: where the list sends a
box, the process hands it out, where it receives one, it is handed in. So what comes is known before, and how many bytes
it has, whatever a stranger's program does to the process.
"""

import json
from collections.abc import Hashable, Iterator, Sequence
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import EigenTensorError, ExecutionError
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.codec import encode
from eigentensor.program.model import Body, Parameter, Program, Role
from eigentensor.regions.boxes import Box, volume
from eigentensor.runtime.sandbox.piped import Child, Incoming, Turn, nonsense, response, send, waited
from eigentensor.runtime.sandbox.returned import tensor
from eigentensor.runtime.sandbox.warm_child import LENGTH
from eigentensor.runtime.sharded.mail import Port
from eigentensor.runtime.sharded.worker import over_boxes
from eigentensor.sharding import codec
from eigentensor.sharding.plan import Compute, Receive, Send, WorkerPlan

Values = NDArray[Any]


class SlotPart(NamedTuple):
    """What one worker of a plan does with a program, by a key that no other part of the same tenant has."""

    key: Hashable
    program: Program
    planned: WorkerPlan

    @property
    def given(self) -> tuple[int, ...]:
        """The pieces that a run is given, in order: not those of constants."""
        buffers, pieces = self.program.buffers, self.planned.pieces
        return tuple(n for n in self.planned.given if buffers[pieces[n].buffer].role is not Role.CONSTANT)

    def bodies(self) -> Iterator[Body]:
        """All that is computed by it, one after the other."""
        for step in self.planned.steps:
            if isinstance(step, Compute):
                yield from over_boxes(self.program, self.planned, step).program.bodies

    def request(self, number: int, toolchain: str) -> tuple[dict[str, Any], list[memoryview]]:
        """What makes it known to the process by a number: a header, and the bytes that follow."""
        program, planned = encode(self.program), codec.encode(self.planned)
        head = {"assign": number, "bytes": len(program), "planned": len(planned), "toolchain": toolchain}
        return head, [memoryview(program), memoryview(planned)]

    def parameter(self, piece: int, box: Box | None = None) -> Parameter:
        """Dtype and elements of a piece, or of a box of it."""
        buffer, whole, _ = self.planned.pieces[piece]
        return Parameter(self.program.parameter(buffer).dtype, volume(whole if box is None else box))


class Run(NamedTuple):
    """A run of a part that the process knows by a number: the elements of what is `given`, the values of all variables,
    and the pieces that are wanted back."""

    number: int
    part: SlotPart
    given: Sequence[Values]
    variables: Sequence[int]
    wanted: Sequence[int]

    def talk(self, child: Child, port: Port, seconds: float) -> list[Values]:
        """The pieces that are wanted, flat. Raises Silent, also for a process that takes longer than `seconds` for its
        turns; what it reports; and what the port raises: it is in the middle of the run then."""
        left, incoming, part = seconds, Incoming(child), self.part

        def turn(of: "Turn[Any]") -> Any:
            nonlocal left
            begin = monotonic()
            came = waited(of, begin + left)
            left -= monotonic() - begin
            if isinstance(came, EigenTensorError):
                raise came
            return came

        turn(send(child, self._request()))
        for step in part.planned.steps:
            if isinstance(step, Send):
                of = part.parameter(step.source, step.box)
                port.send(step.worker, step.number, _taken(turn(response(incoming, _bytes(of))), [of])[0])
            elif isinstance(step, Receive):
                box = _fitting(port.receive(step.worker, step.number), part.parameter(step.target, step.box))
                turn(send(child, [_view(box)]))
        each = [part.parameter(piece) for piece in self.wanted]
        results = _taken(turn(response(incoming, sum(map(_bytes, each)))), each)
        if incoming.is_ahead:
            raise nonsense()
        return results

    def _request(self) -> list[bytes | memoryview]:
        head = {"share": self.number, "variables": list(self.variables), "wanted": list(self.wanted)}
        text = json.dumps(head).encode()
        fitting = zip(self.given, map(self.part.parameter, self.part.given), strict=True)
        return [LENGTH.pack(len(text)) + text, *(_view(_fitting(box, of)) for box, of in fitting)]


def _taken(data: bytearray, each: Sequence[Parameter]) -> list[Values]:
    """Tensors that lie one after the other. Raises SandboxError for what is none."""
    array, at = np.frombuffer(data, np.uint8), 0

    def take(count: int) -> Values:
        nonlocal at
        at += count
        return array[at - count : at]

    return [tensor(take, of, "that a worker sends") for of in each]


def _fitting(box: Values, of: Parameter) -> Values:
    """A box, contiguous. Raises ExecutionError if it is not what should come."""
    if box.dtype != STORAGE[of.dtype] or box.size != of.elements:
        raise ExecutionError(f"a box has {box.size:,} elements of {box.dtype}, and {of.elements:,} should come")
    return np.ascontiguousarray(box)


def _view(box: Values) -> memoryview:
    return box.reshape(-1).view(np.uint8).data


def _bytes(of: Parameter) -> int:
    return of.elements * of.dtype.size
