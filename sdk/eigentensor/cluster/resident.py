"""A program at a session: with weights that stay there, states that go on from iteration to iteration, and what a
sample takes of an execution.

A session's programs have inputs alone. So the program that goes there is the same computation with weights and states
among its inputs, and new states among its outputs; every iteration of a repeat is a run.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from numpy.typing import NDArray

from eigentensor.cluster.session import NOTHING, Session
from eigentensor.errors import ClusterError, ExecutionError, WorkerLost
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import Results, bind, iteration_values
from eigentensor.program.limits import RESULTS
from eigentensor.program.model import Kind, Program, Result, Role
from eigentensor.runtime import selftest
from eigentensor.runtime.sandbox.returned import Observed
from eigentensor.runtime.sandbox.slots import Slots

Tensors = Mapping[str, NDArray[Any]]
Named = tuple[Kind, str]


@dataclass(frozen=True)
class Bare:
    """A program whose weights and states are inputs, and whose new states are outputs: `names` are those of its outputs
    by kind and name of the results, `kept` those of calls whose results go out as well."""

    program: Program
    names: Mapping[Named, str]
    kept: Mapping[int, str]


def with_inputs_alone(program: Program, keep: Collection[int] = ()) -> Bare:
    """The same computation of inputs alone. `keep` are numbers of calls whose results are wanted beside the others;
    `room` says how many there may be. What is an output already keeps its name."""
    taken = {r.name for r in program.results if r.kind is Kind.OUTPUT}
    fresh = (name for number in count() if (name := f"result {number}") not in taken)
    names = {
        (r.kind, r.name): r.name if r.kind is Kind.OUTPUT or r.name not in taken else next(fresh)
        for r in program.results
    }
    results = [r._replace(kind=Kind.OUTPUT, name=names[r.kind, r.name]) for r in program.results]
    known, kept = {r.buffer: r.name for r in results}, dict[int, str]()
    for call in keep:
        buffer = len(program.buffers) + call
        kept[call] = known.get(buffer) or next(fresh)
        if buffer not in known:
            results.append(Result(Kind.OUTPUT, kept[call], buffer, (program.parameter(buffer).elements,)))
    given = [b if b.role is Role.CONSTANT else b._replace(role=Role.INPUT) for b in program.buffers]
    order = sorted(range(len(given)), key=lambda n: (given[n].role, given[n].name if given[n].name else n))
    place = {old: new for new, old in enumerate(order)}
    bare = replace(
        program,
        buffers=tuple(given[old] for old in order),
        calls=tuple(c._replace(arguments=tuple(place.get(a, a) for a in c.arguments)) for c in program.calls),
        results=tuple(sorted(results, key=lambda r: r.name)),
        max_repeat=1,
    )
    return Bare(bare, names, kept)


def room(program: Program) -> int:
    """How many results of calls may be kept beside those of the program."""
    return RESULTS - len(program.results)


class Resident:
    """A program at a session. For one thread at a time; what a run put there is gone after it, whatever came of it."""

    def __init__(
        self,
        session: Session,
        program: Program,
        stays: Tensors = NOTHING,
        numbers: Iterator[int] | None = None,
        *,
        kept: int = 0,
    ) -> None:
        """`stays` are tensors by name that every run reads: they are put once, by the first one. `numbers` are those of
        the session's tensors that nobody has had, by default of a session of one's own. New states of up to so many
        runs are `kept` there, too: one that goes on from these very arrays, which may not be written to then, brings no
        states."""
        self._session, self._program, self._stays = session, program, stays
        self._numbers = count(1) if numbers is None else numbers
        self._held: dict[str, int] = {}
        self._defined: dict[frozenset[int], tuple[bytes, Bare]] = {}
        self._kept = kept if program.new_states else 0
        self._slots = Slots(self._kept)
        self._left: dict[int, dict[str, int]] = {}  #: numbers of states, by slot

    def define(self) -> None:
        """Makes the program known to the session."""
        self._as(())

    def run(
        self, tensors: Tensors, variables: Mapping[str, int] = NOTHING, repeat: int = 1, keep: Collection[int] = ()
    ) -> Observed:
        """The results, and what executed calls of the last iteration wrote; beside what stays, all `tensors` are given.

        Raises BindingError for tensors and variables that do not fit, what the execution raises, and ClusterError.
        """
        handles, held = list[int](), self._slots.holding(tensors)
        (slot,) = self._slots.free(1, [held])
        if slot is not None:
            handles += self._left.pop(slot, {}).values()
        try:
            going_on = {} if held is None else self._left[held]
            root, bare, states = self._begun({**self._stays, **tensors}, variables, repeat, keep, handles, going_on)
            made = {name: next(self._numbers) for name in (*bare.names.values(), *bare.kept.values())}
            handles += made.values()
            values = self._values(variables, repeat - 1)
            self._session.run(root, states, made, values)
            observed = self._observed(bare, made, repeat)
            if slot is not None:
                self._slots.keep(slot, observed.results.states)
                left = self._left[slot] = {
                    name: made[bare.names[Kind.STATE, name]] for name in self._program.new_states
                }
                handles = [handle for handle in handles if handle not in left.values()]
            return observed
        finally:
            with suppress(ClusterError, ExecutionError):  # it is lost, or over, with all that it held
                self._session.free(handles)

    def work(self, tensors: Tensors, variables: Mapping[str, int], repeat: int) -> None:
        """Has so many iterations executed, and fetches nothing. Nothing is waited for."""
        handles = list[int]()
        root, _, states = self._begun(tensors, variables, repeat, (), handles)
        self._session.run(root, states, {}, self._values(variables, repeat - 1), handles)

    def leave(self) -> None:
        """Frees what stays, and kept states; a run puts it anew."""
        self._session.free([number for held in (self._held, *self._left.values()) for number in held.values()])
        self._held.clear()
        self._left.clear()
        self._slots = Slots(self._kept)

    def _begun(
        self,
        tensors: Tensors,
        variables: Mapping[str, int],
        repeat: int,
        keep: Collection[int],
        handles: list[int],
        going_on: Mapping[str, int] = NOTHING,
    ) -> tuple[bytes, Bare, dict[str, int]]:
        """All iterations but the last are asked for: what that executes, and the handles of what it reads. `handles`
        are those of tensors that it is over with, `going_on` those of states that are there."""
        program, first = self._program, (repeat - 1) * len(self._program.calls)
        given = self._put(tensors, variables, repeat, handles, going_on)
        root, bare = self._as(())
        for iteration in range(repeat - 1):
            new = {name: next(self._numbers) for name in program.new_states}
            outputs = {bare.names[Kind.STATE, name]: handle for name, handle in new.items()}
            before = [given[name] for name in new if iteration or name not in going_on]
            self._session.run(root, given, outputs, self._values(variables, iteration), before)
            given |= new
        handles += (given[name] for name in program.new_states if repeat > 1)
        return *self._as([number - first for number in keep]), given

    def _put(
        self,
        tensors: Tensors,
        variables: Mapping[str, int],
        repeat: int,
        handles: list[int],
        going_on: Mapping[str, int],
    ) -> dict[str, int]:
        given = {**self._held, **going_on}
        for buffer, flat in zip(self._program.buffers, bind(self._program, tensors, variables, repeat), strict=True):
            if buffer.role is Role.CONSTANT or buffer.name in given:
                continue
            given[buffer.name] = handle = next(self._numbers)
            if buffer.name in self._stays:
                self._held[buffer.name] = handle
            else:
                handles.append(handle)
            self._session.put(handle, flat.reshape(buffer.shape), buffer.dtype)
        return given

    def _as(self, keep: Iterable[int]) -> tuple[bytes, Bare]:
        """The root of the program that goes there, where the results of these calls are wanted, too."""
        calls = frozenset(keep)
        if calls not in self._defined:
            bare = with_inputs_alone(self._program, sorted(calls))
            self._defined[calls] = self._session.define(bare.program), bare
        root, bare = self._defined[calls]
        if not self._session.has(root):
            self._session.define(bare.program)
        return root, bare

    def _values(self, variables: Mapping[str, int], iteration: int) -> dict[str, int]:
        values = iteration_values(self._program, variables, iteration)
        return {v.name: value for v, value in zip(self._program.variables, values, strict=True)}

    def _observed(self, bare: Bare, made: Mapping[str, int], repeat: int) -> Observed:
        program, arrays = bare.program, dict[str, NDArray[Any]]()
        for name, result in program.outputs.items():
            array = self._session.get(made[name])
            expected = STORAGE[program.parameter(result.buffer).dtype], result.shape
            if (array.dtype, array.shape) != expected:
                raise ExecutionError(f"the session gives {array.dtype} of shape {array.shape} for {name!r}")
            arrays[name] = array
        kinds: dict[Kind, dict[str, NDArray[Any]]] = {Kind.OUTPUT: {}, Kind.STATE: {}}
        for (kind, name), own in bare.names.items():
            kinds[kind][name] = arrays[own]
        first = (repeat - 1) * len(program.calls)
        kept = {first + call: arrays[name].reshape(-1) for call, name in bare.kept.items()}
        return Observed(Results(kinds[Kind.OUTPUT], kinds[Kind.STATE]), kept, ())


def conform(session: Session) -> None:
    """The conformance self-test by a session's worker whose turn it is. Raises ExecutionError unless every bit is
    right, WorkerLost where there is no worker."""
    check_workers(session)
    selftest.check(lambda program, tensors: Resident(session, program).run(tensors).results)


def check_workers(session: Session) -> int | None:
    """Bytes that a program may take at most where the session executes, if something bounds them. Raises WorkerLost
    where nothing executes: what is asked would wait for a worker."""
    memory = session.stats().memory
    if memory == 0:
        raise WorkerLost("no worker has joined the cluster", fix="Let one join it.", topic="cluster")
    return memory
