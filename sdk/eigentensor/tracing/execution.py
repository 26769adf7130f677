"""The trace of an execution: what each executed call wrote, by its tensor root, followed by the outputs root.

Execution is deterministic, so nothing is kept on the honest path: a trace is made again when somebody asks for it, and
once more with the tensors of the calls that are disputed.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock
from typing import Any, Protocol, TypeVar, cast

from eigentensor import merkle, reference
from eigentensor.errors import WitnessError
from eigentensor.merkle import LEAF
from eigentensor.numerics.dtypes import DType
from eigentensor.program.binding import Results, bind, iteration_values
from eigentensor.program.codec import split, to_bytes
from eigentensor.program.model import Body, Program, Role
from eigentensor.reference import Values
from eigentensor.tracing.hashes import Hashes

T = TypeVar("T")
#: Elements, and leaves, of which an account remembers what was evaluated: a few hundred bytes, and 300 kB at most.
REMEMBERED = 256


class Execute(Protocol):
    """`reference.execute`, or whatever gives its bits and lets every call be observed as it does: `runtime.execute`."""

    def __call__(
        self,
        program: Program,
        tensors: Mapping[str, Any],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        observe: Callable[[int, Values], None] | None = None,
    ) -> Results: ...


class Retrace(Protocol):
    """`retrace`, or whatever makes the same account: `reexecution.confined.retracing` does in a sandbox."""

    def __call__(
        self,
        program: Program,
        tensors: Mapping[str, Any],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        keep: Collection[int] = frozenset(),
    ) -> "Execution": ...


class Compute(Protocol):
    """The results of a small program, without repeats, with the bits of the reference; it raises ExecutionError."""

    def __call__(
        self, program: Program, tensors: Mapping[str, Any], variables: Mapping[str, int] | None = None
    ) -> Results: ...


@dataclass(frozen=True)
class Flat:
    """A flat tensor, and the tree over its leaves, which is hashed once, when it is first asked for."""

    dtype: DType
    array: Values

    @cached_property
    def leaves(self) -> Hashes:
        """The tree of the tensor's leaf hashes; kept, since several moves open it."""
        return Hashes(tuple(merkle.leaf_hashes(self._data)))

    @cached_property
    def root(self) -> bytes:
        """The tensor root."""
        return merkle.tensor_root_of(self.dtype, len(self.array), self.leaves.root)

    def leaf(self, index: int) -> bytes:
        """The 1,024 bytes of a leaf; the last one is filled with zeros."""
        return bytes(self._data[index * LEAF : (index + 1) * LEAF]).ljust(LEAF, b"\0")

    @cached_property
    def _data(self) -> memoryview:
        return merkle.little_endian(self.dtype, self.array).view("u1").data


@dataclass(frozen=True)
class Execution:
    """An account of one execution. `calls` are the tensor roots of all executed calls, `outputs` is the outputs root.

    `buffers` are the flat buffers of the program's records, `kept` the flat results of the executed calls asked for.
    Executed calls are numbered iteration · calls + call. What `compute` does faster than the reference, if there is
    one, is left to it: long reductions of single elements.
    """

    program: Program
    buffers: Sequence[Values]
    variables: Mapping[str, int]
    calls: tuple[bytes, ...]
    outputs: bytes
    kept: Mapping[int, Values]
    compute: Compute | None = None
    _memory: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _lock: RLock = field(default_factory=RLock, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        program: Program,
        tensors: Mapping[str, Any],
        variables: Mapping[str, int] | None,
        repeat: int,
        calls: Sequence[bytes],
        kept: Mapping[int, Values],
        compute: Compute | None = None,
    ) -> "Execution":
        """The account that the tensor roots of all executed calls make, with the results of some."""
        buffers = bind(program, tensors, variables or {}, repeat)
        return cls(program, buffers, variables or {}, tuple(calls), outputs_of(program, calls), kept, compute)

    @cached_property
    def trace(self) -> Hashes:
        """The tree whose leaves are the tensor roots of all executed calls and then the outputs root."""
        return Hashes((*self.calls, self.outputs))

    @cached_property
    def encoded(self) -> tuple[bytes, tuple[bytes, ...]]:
        """The program's header and its records."""
        header, records = split(to_bytes(self.program))
        return header, tuple(records)

    @cached_property
    def records(self) -> Hashes:
        """The tree over the program's records."""
        return Hashes(tuple(merkle.record_hash(record) for record in self.encoded[1]))

    @cached_property
    def bound_tensors(self) -> dict[Role, dict[str, bytes]]:
        """The tensor roots of the inputs, weights and states by name."""
        roots: dict[Role, dict[str, bytes]] = {Role.INPUT: {}, Role.WEIGHT: {}, Role.STATE: {}}
        for number, buffer in enumerate(self.program.buffers):
            if buffer.role is not Role.CONSTANT:
                roots[buffer.role][buffer.name] = self.flat(number, 0).root
        return roots

    def flat(self, buffer: int, iteration: int) -> Flat:
        """A buffer in an iteration. Raises WitnessError if it is a result that was not kept."""
        source = self.source(buffer, iteration)
        key = ("bound", buffer) if source is None else ("kept", source)
        if key not in self._flats:
            if source is not None and source not in self.kept:
                raise WitnessError(f"the result of executed call {source} was not kept", fix="Trace again and keep it.")
            array = self.buffers[buffer] if source is None else self.kept[source]
            self._flats[key] = Flat(self.program.parameter(buffer).dtype, array)
        return self._flats[key]

    def written(self, number: int) -> Flat:
        """The result of an executed call. Raises WitnessError if it was not kept."""
        iteration, call = divmod(number, len(self.program.calls))
        return self.flat(len(self.program.buffers) + call, iteration)

    def remembered(self, key: Hashable, evaluate: Callable[[], T]) -> T:
        """What was evaluated under this key, or is now: games about the same task ask for the same again and again."""
        with self._lock:
            known = self._memory[key] = self._memory.pop(key) if key in self._memory else evaluate()
            while len(self._memory) > REMEMBERED:
                self._memory.pop(next(iter(self._memory)))
        return cast(T, known)

    @cached_property
    def _flats(self) -> dict[tuple[str, int], Flat]:
        return {}

    def source(self, buffer: int, iteration: int) -> int | None:
        """The executed call whose result a buffer is in an iteration; None if it comes from outside."""
        first, each = len(self.program.buffers), len(self.program.calls)
        if buffer >= first:
            return iteration * each + buffer - first
        record = self.program.buffers[buffer]
        if record.role is not Role.STATE or iteration == 0:
            return None
        return (iteration - 1) * each + self.program.new_states[record.name].buffer - first

    def needs(self, number: int) -> frozenset[int]:
        """The executed calls whose results an executed call reads."""
        iteration, call = divmod(number, len(self.program.calls))
        sources = (self.source(buffer, iteration) for buffer in self.program.calls[call].arguments)
        return frozenset(source for source in sources if source is not None)

    def arguments(self, number: int) -> list[Flat]:
        """The tensors for parameters 1, 2, … of an executed call. Raises WitnessError if one was not kept."""
        iteration, call = divmod(number, len(self.program.calls))
        return [self.flat(buffer, iteration) for buffer in self.program.calls[call].arguments]

    def body(self, number: int) -> Body:
        """The body of an executed call."""
        return self.program.bodies[self.program.calls[number % len(self.program.calls)].body]

    def bound(self, number: int) -> tuple[int, ...]:
        """The values of the body's variables in an executed call."""
        iteration, call = divmod(number, len(self.program.calls))
        values = iteration_values(self.program, self.variables, iteration)
        return tuple(values[i] for i in self.program.calls[call].variables)


def retrace(
    program: Program,
    tensors: Mapping[str, Any],
    variables: Mapping[str, int] | None = None,
    repeat: int = 1,
    *,
    keep: Collection[int] = frozenset(),
    execute: Execute = reference.execute,
) -> Execution:
    """Executes a program, remembers the root of each executed call, and the results of those in `keep` alone.

    A result is hashed before the next call runs: beside what `execute` needs, `keep` alone takes memory.
    """
    roots: list[bytes] = []
    kept: dict[int, Values] = {}

    def observe(number: int, result: Values) -> None:
        call = number % len(program.calls)
        roots.append(merkle.array_root(program.parameter(len(program.buffers) + call).dtype, result))
        if number in keep:
            kept[number] = result.copy()

    execute(program, tensors, variables, repeat, observe=observe)
    return Execution.of(program, tensors, variables, repeat, roots, kept)


def outputs_of(program: Program, calls: Sequence[bytes]) -> bytes:
    """The outputs root that the tensor roots of all executed calls imply: what the collect verdict compares with."""
    last = len(calls) - len(program.calls) - len(program.buffers)
    outputs = {name: calls[last + r.buffer] for name, r in program.outputs.items()}
    states = {name: calls[last + r.buffer] for name, r in program.new_states.items()}
    return merkle.outputs_root(merkle.bindings_root(outputs), merkle.bindings_root(states))
