"""Recorded steps → a program with names, and the data that its author already has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any, NamedTuple

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import strong_dtype

from eigentensor.capture import adapter
from eigentensor.capture.convert import dtype_of, refuse_unsupported
from eigentensor.capture.schedule import Schedule
from eigentensor.errors import CaptureError
from eigentensor.lowering.build import Draft, build
from eigentensor.lowering.constants import constant
from eigentensor.lowering.graph_program import CONSTANT_BYTES, GraphProgram, Values
from eigentensor.lowering.kernel import Kernel, fresh_array, fresh_axis
from eigentensor.lowering.shards import Shards
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.expression import Array, counter, node
from eigentensor.program.model import Buffer, Kind, Role, Variable
from eigentensor.program.ops import Op
from eigentensor.talk import doing, each


@dataclass(frozen=True, slots=True)
class Outside:
    """A tensor that comes from outside, and its data where the author has them."""

    role: Role
    name: str
    shape: tuple[int, ...]
    dtype: DType
    data: bytes | None = None

    @property
    def buffer(self) -> Buffer:
        """The program's record of it: only a constant carries its elements."""
        data = self.data or b"" if self.role is Role.CONSTANT else b""
        return Buffer(self.role, self.dtype, self.shape, self.name, data)


def static_shape(tensor: Tensor, name: str) -> tuple[int, ...]:
    """The shape as plain numbers."""
    if not all(isinstance(extent, int) for extent in tensor.shape):
        raise CaptureError(
            f"the shape {tensor.shape} of {name!r} depends on a variable", fix="reduce over that axis, or pad it"
        )
    return tuple(int(extent) for extent in tensor.shape)


class Clone(NamedTuple):
    """The buffer that a result is recorded into."""

    buffer: Any
    shape: tuple[int, ...]
    dtype: DType


def cloned(results: Mapping[tuple[Kind, str], Tensor]) -> dict[tuple[Kind, str], Clone]:
    """Each result in a buffer of its own. To be called while recording; what is not computed yet is recorded."""
    for (_, name), tensor in results.items():
        static_shape(tensor, name)
        refuse_unsupported(tensor.uop)
    doing("scheduling what it computes")
    with adapter.refusing("tinygrad cannot schedule this"):
        clones = {key: Tensor(t.uop.cast(strong_dtype(t.dtype)).clone(adapter.DEVICE)) for key, t in results.items()}
        computed = [tensor for tensor in clones.values() if tensor.numel()]
        if computed:
            Tensor.realize(*computed)
    return {key: Clone(adapter.buffer_of(t), static_shape(t, key[1]), dtype_of(t.dtype)) for key, t in clones.items()}


def compiled(
    recording: adapter.Recording,
    results: Mapping[tuple[Kind, str], Clone],
    outside: Mapping[Any, Outside],
    variables: Sequence[Variable],
    fingerprint: bool,
    shards: Shards,
) -> GraphProgram:
    """The program of what was recorded. `results` are clones; `outside` says what buffers mean."""
    schedule = Schedule(recording.relocation.origins)
    moved = recording.relocation.moved
    named = {schedule.external(moved.get(buffer, buffer)): part for buffer, part in outside.items()}
    for call in each("reading kernels", recording.calls):
        schedule.add(call)
    arrays = {key: (_result(schedule, clone, key[1]), clone.shape) for key, clone in results.items()}
    parts = named | _unnamed(schedule, {part.name for part in named.values()})
    externals = {array: part.buffer for array, part in parts.items()}
    program = build(Draft(schedule.kernels, externals, arrays, variables, fingerprint, shards))
    values = {part.name: _values(part) for part in parts.values() if part.data is not None}
    weights, states = ({name: values[name] for name in program.named(role)} for role in (Role.WEIGHT, Role.STATE))
    return GraphProgram(program, weights, states)


def _result(schedule: Schedule, clone: Clone, name: str) -> Array:
    """The array that a result is computed into."""
    if not prod(clone.shape):
        array = fresh_array(clone.dtype, 0)
        schedule.kernels.append(Kernel(array, (fresh_axis(0),), constant(array.dtype, 0)))
        return array
    if clone.buffer not in schedule.written:
        raise CaptureError(
            f"nothing that tinygrad schedules writes {name!r}", fix="build the tensor anew, without assigning"
        )
    array = schedule.current[clone.buffer]
    if array not in schedule.data:
        return array
    axis, copy = fresh_axis(array.elements), fresh_array(array.dtype, array.elements)
    schedule.kernels.append(Kernel(copy, (axis,), node(Op.LOAD, array.dtype, counter(axis), arg=array)))
    return copy


def _unnamed(schedule: Schedule, taken: set[str]) -> dict[Array, Outside]:
    """Data that the function brought along without a name: small ones become constants, large ones weights."""
    parts: dict[Array, Outside] = {}
    names = (name for i in count() if (name := f"data_{i}") not in taken)
    for array, data in schedule.data.items():
        is_small = len(data) <= CONSTANT_BYTES
        role, name = (Role.CONSTANT, "") if is_small else (Role.WEIGHT, next(names))
        parts[array] = Outside(role, name, (array.elements,), array.dtype, data)
    return parts


def _values(part: Outside) -> Values:
    return np.frombuffer(part.data or b"", STORAGE[part.dtype]).reshape(part.shape)
