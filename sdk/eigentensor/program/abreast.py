"""A program for several executions of another one side by side, each with inputs, states and variables of its own.

Each element is the expression that it was, of what its own execution has: so its bits are those of the execution alone,
whoever else is there. Weights are read once for all of them: a call that reads any has one more axis, the rows, of
which each execution is one. Calls that bind variables or read a state are made row by row; what depends on no
execution, once.
"""

from collections.abc import Hashable
from functools import reduce
from typing import NamedTuple

from eigentensor.program.assemble import assemble
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
from eigentensor.program.model import Bounds, Buffer, Program, Role, Variable
from eigentensor.program.ops import DType, Op

MOST = 16  #: executions side by side
_ROWS = -1  # the name of their axis: a body's own are numbered from zero


class _Row(NamedTuple):
    """What one row has of a buffer."""

    buffer: int
    row: int


class _Rows(NamedTuple):
    """What all rows have of a buffer, one after the other."""

    buffer: int


def named(name: str, row: int) -> str:
    """What an input, a state, an output or a variable of a row is called."""
    return f"{name}@{row}"


def abreast(program: Program, count: int, repeat: int | None = None) -> Program:
    """A valid program for `count` executions side by side, 2 to MOST, whose tensors and variables `named` calls; it has
    a variable more for each row, `named("", row)`, which is bound to the row's number. `repeat` is its largest, the
    program's unless it is said.

    Raises RuleError where what it comes to is not admitted, for example because of too many states.
    """
    making, rows = _Making(program, count), range(count)
    for number in range(len(program.calls)):
        making.take(number)
    externals: dict[Hashable, Buffer] = {}
    for n, buffer in enumerate(program.buffers):
        if n in making.apart:
            externals |= {_Row(n, row): buffer._replace(name=named(buffer.name, row)) for row in rows}
        else:
            externals[n] = buffer
    results = {
        (r.kind, named(r.name, row)): (_Row(r.buffer, row) if r.buffer in making.apart else r.buffer, r.shape)
        for r in program.results
        for row in rows
    }
    variables = [v._replace(name=named(v.name, row)) for v in program.variables for row in rows]
    variables += [Variable(named("", row), 0, count - 1) for row in rows]
    return assemble(making.calls, externals, results, variables, repeat or program.max_repeat)


class _Making:
    """The calls so far, and of which buffers each row has its own, `apart`, or all have theirs together, `joined`."""

    def __init__(self, program: Program, count: int) -> None:
        self.program, self.count = program, count
        self.calls: list[tuple[Hashable, Lowered]] = []
        self.apart = {n for n, b in enumerate(program.buffers) if b.role in (Role.INPUT, Role.STATE)}
        self.joined = set[int]()
        self._states = {n for n, b in enumerate(program.buffers) if b.role is Role.STATE}
        self._results = {r.buffer for r in program.results}
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
            if result in self._results:
                self._part(result)
        else:
            joined = frozenset(own & self.joined - self.apart)
            self.calls += [(_Row(result, row), self._call(number, row, joined)) for row in range(self.count)]
            self.apart.add(result)

    def _is_joint(self, number: int, own: set[int]) -> bool:
        """Whether a call is made for all rows at once: it reads what they have in common, or only what is joined."""
        call, buffers = self.program.calls[number], self.program.buffers
        if call.variables or own & self._states:
            return False
        common = {a for a in call.arguments if a not in own}
        return own <= self.joined or any(a >= len(buffers) or buffers[a].role is Role.WEIGHT for a in common)

    def _join(self, buffer: int) -> None:
        """Puts together what rows have apart."""
        dtype, elements = self.program.parameter(buffer)
        rows, element = Axis(_ROWS, self.count), counter(Axis(0, elements))
        parts = [load(Array(_Row(buffer, row), dtype, elements), element) for row in range(self.count)]

        def chosen(later: Node, row: int) -> Node:
            is_before = binary(Op.CMPLT, counter(rows), const(DType.INDEX, row + 1))
            return node(Op.WHERE, dtype, is_before, parts[row], later)

        value = reduce(chosen, reversed(range(self.count - 1)), parts[-1])
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
