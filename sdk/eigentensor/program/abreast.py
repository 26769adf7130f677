"""A program for several executions of another one side by side, each with inputs, states and variables of its own.

Each element is the expression that it was, of what its own execution has: so its bits are those of the execution alone,
whoever else is there. Weights are read once for all of them: a call that reads any has one more axis, the rows, of
which each execution is one. Calls that bind variables are made row by row, as those are that read large states; what
depends on no execution, once.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigentensor.program.assemble import numbered
from eigentensor.program.binding import Results
from eigentensor.program.expression import (
    Array,
    Axis,
    Lowered,
    Named,
    Node,
    binary,
    const,
    counter,
    load,
    node,
    nodes_of,
    rewrite,
    to_body,
)
from eigentensor.program.model import Bounds, Buffer, Kind, Program, Role, Variable
from eigentensor.program.ops import DType, Op

_ROWS = -1  # the name of their axis: a body's own are numbered from zero
Arrays = Mapping[str, NDArray[Any]]
_T = TypeVar("_T")


class _Row(NamedTuple):
    """What one row has of a buffer."""

    buffer: int
    row: int


class _Rows(NamedTuple):
    """What all rows have of a buffer, one after the other."""

    buffer: int


@dataclass(frozen=True, slots=True)
class Abreast:
    """`count` executions of a program by one of `program`. `places` says which of its calls has the result of each call
    of the original, for each row: that of the row alone, or those of all rows, one after the other; or the one that
    all have in common."""

    program: Program
    count: int
    places: tuple[tuple[int, ...], ...]

    def inputs(self, stacked: Arrays) -> Arrays:
        """What the program is given of inputs that have one more axis before their own, the rows."""
        return stacked if self.count > 1 else {name: array[0] for name, array in stacked.items()}

    def states(self, rows: Sequence[Arrays]) -> Arrays:
        """What it is given of the states of each row: the same arrays, where these are apart."""
        if self._is_stacked:
            return {name: np.stack([of[name] for of in rows]) for name in rows[0]}
        return self._named(rows)

    def variables(self, rows: Sequence[Mapping[str, int]]) -> dict[str, int]:
        """Its variables by those of each row."""
        known = {v.name for v in self.program.variables}
        return {**self._named(rows), **{name: row for row in range(self.count) if (name := named("", row)) in known}}

    def outputs(self, outputs: Arrays, row: int) -> dict[str, NDArray[Any]]:
        """What a row has of the outputs."""
        return {name: array[row] for name, array in outputs.items()} if self.count > 1 else dict(outputs)

    def results(self, results: Results, row: int) -> Results:
        """What a row has of the results."""
        if self.count == 1:
            return results
        if self._is_stacked:
            states = {name: array[row] for name, array in results.states.items()}
        else:
            end = named("", row)
            states = {name.removesuffix(end): array for name, array in results.states.items() if name.endswith(end)}
        return Results(self.outputs(results.outputs, row), states)

    @property
    def _is_stacked(self) -> bool:
        return self.count > 1 and not self.program.variables

    def _named(self, rows: Sequence[Mapping[str, _T]]) -> dict[str, _T]:
        if self.count == 1:
            return dict(rows[0])
        return {named(name, row): value for row, of in enumerate(rows) for name, value in of.items()}


def named(name: str, row: int) -> str:
    """What a state or a variable of a row is called."""
    return f"{name}@{row}"


def abreast(program: Program, count: int, repeat: int | None = None) -> Abreast:
    """A valid program for `count` executions side by side; of one it is the program itself.

    Inputs and outputs have one more axis, the rows, before their own; so have states, if there are no variables. Else
    states and variables are each row's own, as `named` calls them, and `named("", row)` is the row's number, where
    there is a variable of that name. `repeat` is its largest, the program's unless it is said. Raises RuleError where
    what it comes to is not admitted, for example because of too many states.
    """
    if count == 1:
        return Abreast(program, 1, tuple((number,) for number in range(len(program.calls))))
    making, rows = _Making(program, count), range(count)
    for number in range(len(program.calls)):
        making.take(number)
    results = making.results()
    externals: dict[Hashable, Buffer] = {}
    for n, buffer in enumerate(program.buffers):
        if n in making.states:
            externals |= {_Row(n, row): buffer._replace(name=named(buffer.name, row)) for row in rows}
        elif buffer.role in (Role.INPUT, Role.STATE):
            externals[_Rows(n)] = buffer._replace(shape=(count, *buffer.shape))
        else:
            externals[n] = buffer
    bound = {variable.name for _, lowered in making.calls for variable in lowered.variables}
    variables = [v._replace(name=named(v.name, row)) for v in program.variables for row in rows]
    variables += [Variable(name, 0, count - 1) for row in rows if (name := named("", row)) in bound]
    wide, numbers = numbered(making.calls, externals, results, variables, repeat or program.max_repeat)
    places = (tuple(numbers[key] - len(wide.buffers) for key in keys) for keys in making.made)
    return Abreast(wide, count, tuple(places))


class _Making:
    """The calls so far, and of which buffers each row has its own, `apart`, or all have theirs together, `joined`."""

    def __init__(self, program: Program, count: int) -> None:
        self.program, self.count = program, count
        self.calls: list[tuple[Hashable, Lowered]] = []
        own = {n for n, b in enumerate(program.buffers) if b.role in (Role.INPUT, Role.STATE)}
        self.states = {n for n in own if program.variables and program.buffers[n].role is Role.STATE}
        self.apart, self.joined = set(self.states), own - self.states
        self.made: list[list[Hashable]] = []  #: what has the result of each call, for each row
        self._lowered: dict[Hashable, Lowered] = {}

    def take(self, number: int) -> None:
        """The next call of the program, made once, for all rows, or for each row."""
        call, result = self.program.calls[number], len(self.program.buffers) + number
        own = {a for a in call.arguments if a in self.apart or a in self.joined}
        if not own and not call.variables:
            self.calls.append((result, self._call(number, None, frozenset())))
        elif self._is_joint(number, own):
            for buffer in sorted(own - self.joined):
                self._join(buffer)
            self.calls.append((_Rows(result), self._call(number, None, frozenset(own))))
            self.joined.add(result)
        else:
            joined = frozenset(own - self.apart)
            self.calls += [(_Row(result, row), self._call(number, row, joined)) for row in range(self.count)]
            self.apart.add(result)
        self.made.append([self.key(result, row) for row in range(self.count)])

    def results(self) -> dict[tuple[Kind, str], tuple[Hashable, tuple[int, ...]]]:
        """Outputs of all rows together, new states as the states are."""
        made: dict[tuple[Kind, str], tuple[Hashable, tuple[int, ...]]] = {}
        for r in self.program.results:
            if r.kind is Kind.OUTPUT or not self.states:
                if r.buffer not in self.joined:
                    self._join(r.buffer)
                made[r.kind, r.name] = _Rows(r.buffer), (self.count, *r.shape)
                continue
            if r.buffer in self.joined - self.apart:
                self._part(r.buffer)
            for row in range(self.count):
                made[r.kind, named(r.name, row)] = self.key(r.buffer, row), r.shape
        return made

    def key(self, buffer: int, row: int) -> Hashable:
        """Where a row finds what a buffer holds."""
        if buffer in self.apart:
            return _Row(buffer, row)
        return _Rows(buffer) if buffer in self.joined else buffer

    def _is_joint(self, number: int, own: set[int]) -> bool:
        """Whether a call is made for all rows at once: it reads what is joined alone, or weights, and no more of states
        than of them."""
        call, buffers = self.program.calls[number], self.program.buffers
        states = own & self.states - self.joined
        common = {a for a in call.arguments if a not in own and (a >= len(buffers) or buffers[a].role is Role.WEIGHT)}
        held, shared = (sum(self.program.parameter(a).elements for a in of) for of in (states, common))
        return not call.variables and (own <= self.joined or held <= shared > 0)

    def _join(self, buffer: int) -> None:
        """Puts together what rows have apart, or in common."""
        dtype, elements = self.program.parameter(buffer)
        rows, element = Axis(_ROWS, self.count), counter(Axis(0, elements))
        parts = [load(Array(self.key(buffer, row), dtype, elements), element) for row in range(self.count)]

        def chosen(later: Node, row: int) -> Node:
            is_before = binary(Op.CMPLT, counter(rows), const(DType.INDEX, row + 1))
            return node(Op.WHERE, dtype, is_before, parts[row], later)

        value = reduce(chosen, reversed(range(self.count - 1)), parts[-1]) if buffer in self.apart else parts[0]
        self.calls.append((_Rows(buffer), to_body(value, (rows, Axis(0, elements)))))
        self.joined.add(buffer)

    def _part(self, buffer: int) -> None:
        """Takes apart what rows have together."""
        dtype, elements = self.program.parameter(buffer)
        value = self._of_row(load(Array(_Rows(buffer), dtype, elements), counter(Axis(0, elements))), None)
        lowered = to_body(value, (Axis(0, elements),))
        for row in range(self.count):
            bound = Named(named("", row), Bounds(0, self.count - 1))
            self.calls.append((_Row(buffer, row), lowered._replace(variables=(bound,))))
        self.apart.add(buffer)

    def _call(self, number: int, row: int | None, joined: frozenset[int]) -> Lowered:
        """A call of a row, or of all, that reads these buffers where all rows' are."""
        program, call = self.program, self.program.calls[number]
        places = tuple(call.arguments.index(argument) for argument in call.arguments)
        pattern = call.body, places, tuple(a in joined for a in call.arguments), row is None
        if pattern not in self._lowered:
            arrays = tuple(Array(n, *program.parameter(call.arguments[n])) for n in places)
            self._lowered[pattern] = self._body(
                call.body, arrays, {n for n in places if call.arguments[n] in joined}, row
            )
        body, arrays, variables = self._lowered[pattern]

        def key(argument: int) -> Hashable:
            if argument in joined:
                return _Rows(argument)
            return _Row(argument, row) if row is not None and argument in self.apart else argument

        names = {n: program.variables[v].name for n, v in enumerate(call.variables)}
        return Lowered(
            body,
            tuple(array._replace(key=key(call.arguments[int(str(array.key))])) for array in arrays),
            tuple(v._replace(name=named(names.get(int(v.name or -1), ""), row or 0)) for v in variables),
        )

    def _body(self, number: int, arrays: tuple[Array, ...], joined: set[int], row: int | None) -> Lowered:
        """A body of a row or of all, whose arrays are named by their places, and its variables, too, but for the row's
        number."""
        body = self.program.bodies[number]
        old = Lowered(body, arrays, tuple(Named(f"{n}", bounds) for n, bounds in enumerate(body.variables)))
        rows = Axis(_ROWS, self.count) if row is None else None
        value = rewrite(
            nodes_of(old)[-1], lambda n: self._of_row(n, rows) if n.op is Op.LOAD and n.arg.key in joined else n
        )
        axes = tuple(Axis(n, extent) for n, extent in enumerate(body.output_ranges))
        return to_body(value, (rows, *axes) if rows and joined else axes)

    def _of_row(self, read: Node, rows: Axis | None) -> Node:
        """What is read of one row, where all are: of that which an axis counts, or the variable without a name."""
        array: Array = read.arg
        if not array.elements:
            return read
        row = counter(rows) if rows else node(Op.VAR, DType.INDEX, arg=Named("", Bounds(0, self.count - 1)))
        begin = binary(Op.MUL, row, const(DType.INDEX, array.elements))
        whole = array._replace(elements=self.count * array.elements)
        return load(whole, binary(Op.ADD, begin, read.src[0]), *read.src[1:])
