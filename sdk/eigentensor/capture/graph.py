"""What a capture makes: a program with names, and the data that its author already has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinygrad import Tensor
from tinygrad.dtype import strong_dtype

from eigentensor.capture import adapter
from eigentensor.capture.build import Draft, build
from eigentensor.capture.constants import constant
from eigentensor.capture.convert import dtype_of
from eigentensor.capture.kernel import Kernel, fresh_array, fresh_axis
from eigentensor.capture.schedule import Schedule
from eigentensor.errors import CaptureError
from eigentensor.merkle import program_root
from eigentensor.numerics.dtypes import STORAGE, DType
from eigentensor.program.codec import decode, encode
from eigentensor.program.expression import Array
from eigentensor.program.model import Buffer, Kind, Program, Role, Variable

CONSTANT_BYTES = 1024  #: host data of at most this size stand in the program, larger ones are weights
Values = NDArray[Any]


@dataclass(frozen=True, slots=True)
class GraphProgram:
    """A captured program with the data that its author already has: weights, and the first values of its states."""

    program: Program
    weights: Mapping[str, Values] = field(default_factory=dict)
    states: Mapping[str, Values] = field(default_factory=dict)

    @property
    def uuid(self) -> str:
        """The program root, in hex."""
        return program_root(self.to_bytes()).hex()

    def to_bytes(self) -> bytes:
        """The program as sdk/README.md defines it: without weights."""
        return encode(self.program)

    @classmethod
    def from_bytes(cls, data: bytes, weights: Mapping[str, Values] | None = None) -> "GraphProgram":
        """Raises FormatError or RuleError for bytes that are not a valid program."""
        return cls(decode(data), weights or {})


@dataclass(frozen=True, slots=True)
class Outside:
    """A tensor that comes from outside, and its data where the author has them."""

    role: Role
    name: str
    shape: tuple[int, ...]
    dtype: DType
    data: bytes | None = None


def static_shape(tensor: Tensor, name: str) -> tuple[int, ...]:
    """The shape as plain numbers."""
    if not all(isinstance(extent, int) for extent in tensor.shape):
        raise CaptureError(
            f"the shape {tensor.shape} of {name!r} depends on a variable", fix="reduce over that axis, or pad it to its maximum"
        )
    return tuple(int(extent) for extent in tensor.shape)


def cloned(results: Mapping[tuple[Kind, str], Tensor]) -> dict[tuple[Kind, str], Tensor]:
    """Each result in a buffer of its own. To be called while recording; what is not computed yet is recorded."""
    for (_, name), tensor in results.items():
        static_shape(tensor, name)
        dtype_of(strong_dtype(tensor.dtype))
    clones = {key: Tensor(t.uop.cast(strong_dtype(t.dtype)).clone(adapter.DEVICE)) for key, t in results.items()}
    computed = [tensor for tensor in clones.values() if tensor.numel()]
    if computed:
        Tensor.realize(*computed)
    return clones


def compiled(
    steps: Sequence[adapter.Step],
    results: Mapping[tuple[Kind, str], Tensor],
    outside: Mapping[Any, Outside],
    variables: Sequence[Variable],
    fingerprint: bool,
) -> GraphProgram:
    """The program of the recorded steps. `results` are clones; `outside` says what buffers mean."""
    schedule = Schedule()
    named = {schedule.external(buffer): part for buffer, part in outside.items()}
    for step in steps:
        schedule.add(step)
    arrays = {key: (_result(schedule, tensor, key[1]), static_shape(tensor, key[1])) for key, tensor in results.items()}
    aliases, unnamed = _unnamed(schedule, {part.name for part in named.values()})
    externals = {array: Buffer(p.role, p.dtype, p.shape, p.name) for array, p in (named | unnamed).items() if p.name}
    externals |= {a: Buffer(p.role, p.dtype, p.shape, data=p.data or b"") for a, p in unnamed.items() if not p.name}
    kernels = [kernel.reading(aliases) for kernel in schedule.kernels]
    program = build(Draft(kernels, externals, arrays, variables, fingerprint))
    data = {part.name: part for part in (named | unnamed).values() if part.data is not None}
    return GraphProgram(program, *({n: _values(data[n]) for n in program.named(role)} for role in (Role.WEIGHT, Role.STATE)))


def _result(schedule: Schedule, tensor: Tensor, name: str) -> Array:
    """The array that a result is computed into."""
    if not tensor.numel():
        array = fresh_array(dtype_of(tensor.dtype), 0)
        schedule.kernels.append(Kernel(array, (fresh_axis(0),), constant(array.dtype, 0)))
        return array
    buffer = adapter.buffer_of(tensor)
    if buffer not in schedule.written:
        raise CaptureError(f"{name!r} is never written: tinygrad drops this assignment", fix="build the tensor anew instead of assigning")
    return schedule.current[buffer]


def _unnamed(schedule: Schedule, taken: set[str]) -> tuple[dict[Array, Array], dict[Array, Outside]]:
    """Data that the function brought along without a name: small ones become constants, large ones weights."""
    aliases: dict[Array, Array] = {}
    found: dict[tuple[DType, bytes], Array] = {}
    parts: dict[Array, Outside] = {}
    for array, data in schedule.data.items():
        first = found.setdefault((array.dtype, data), array)
        if first is not array:
            aliases[array] = first
            continue
        is_small = len(data) <= CONSTANT_BYTES
        name = "" if is_small else next(n for i in range(len(taken) + 1) if (n := f"data_{i}") not in taken)
        taken.add(name)
        parts[array] = Outside(Role.CONSTANT if is_small else Role.WEIGHT, name, (array.elements,), array.dtype, data)
    return aliases, parts


def _values(part: Outside) -> Values:
    return np.frombuffer(part.data or b"", STORAGE[part.dtype]).reshape(part.shape)
