"""A body and a schedule as C text: a function that computes some of the tiles of a call."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from math import prod

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import REDUCTIONS, Op
from eigentensor.runtime.expressions import MEMORY, STEP, STORED, apply, identity, register
from eigentensor.runtime.schedule import Schedule
from eigentensor.runtime.tile import Tile

UNITS = 64  #: parts of a call that threads share, if its loops have as many


def write(body: Body, schedule: Schedule) -> str:
    """C text, to be compiled after semantics.h, of

    `int64_t kernel(void *const *buffers, const int64_t *variables, int64_t first, int64_t last)`

    which computes the units first…last−1 of a call into buffers[0], from the buffers and variables of its parameters;
    with a negative `last` it only returns how many units there are.
    """
    return _Writer(body, schedule).text()


class _Writer:
    def __init__(self, body: Body, schedule: Schedule) -> None:
        self.body = body
        self.schedule = schedule
        self.tile = Tile(body, schedule)
        self.analysis = self.tile.analysis
        self.lines: list[str] = []
        self.depth = 0
        self.packed: frozenset[int] = schedule.packed

    # Loops: (axis, step), outermost first

    @cached_property
    def loops(self) -> list[tuple[int, int]]:
        s = self.schedule
        tiled = [(s.vector, s.lanes * s.columns), (s.row, s.rows)]
        inner = [(axis, min(step, self.body.output_ranges[axis])) for axis, step in tiled if axis is not None]
        outer = [(axis, 1) for axis in range(self.analysis.outputs) if axis not in (s.vector, s.row)]
        return outer + inner

    @cached_property
    def trips(self) -> list[int]:
        return [-(-self.body.output_ranges[axis] // step) for axis, step in self.loops]

    @cached_property
    def shared(self) -> int:
        """How many of the outermost loops become units; packed values serve all rows, so the loop over rows stays."""
        most = len(self.loops) - bool(self.packed)
        return next((n for n in range(most) if prod(self.trips[:n]) >= UNITS), most)

    # Text

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head + " {")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def text(self) -> str:
        index = "i32" if all(low >= -(1 << 31) and high < 1 << 31 for low, high in self.index_bounds()) else "i64"
        head = f"#define LANES {self.schedule.lanes}\n#define INDEX {index}\n"
        with self.block(
            "i64 kernel(void *const *restrict buffers, const i64 *restrict variables, i64 first, i64 last)"
        ):
            self.line(f"if (last < 0) return {prod(self.trips[: self.shared])};")
            for number, parameter in enumerate(self.body.parameters):
                const = "const " if number else ""
                kind = STORED[parameter.dtype]
                self.line(f"{const}{kind} *restrict const p{number} = ({const}{kind} *)buffers[{number}];")
            if self.schedule.lanes > 1:
                self.line(f"const xv lane = {{{', '.join(map(str, range(self.schedule.lanes)))}}};")
            self.level(0)
            with self.block("for (i64 unit = first; unit < last; unit++)"):
                self.line("i64 rest = unit;")
                for (axis, step), trips in reversed(list(zip(self.loops, self.trips, strict=True))[: self.shared]):
                    self.line(f"i64 i{axis} = rest % {trips}{f' * {step}' if step > 1 else ''};")
                    self.line(f"rest /= {trips};")
                    self.last_tile(axis, step)
                for level in range(1, self.shared + 1):
                    self.level(level)
                self.inner(self.shared)
            self.line("return last;")
        return head + '#include "semantics.h"\n' + "\n".join(self.lines) + "\n"

    def index_bounds(self) -> Iterator[tuple[int, int]]:
        for instruction, bounds in zip(self.body.instructions, self.analysis.intervals, strict=True):
            if instruction.dtype is DType.INDEX:
                yield bounds

    def last_tile(self, axis: int, step: int) -> None:
        """The last tile ends at the end of the axis, over elements that the one before has computed, too."""
        extent = self.body.output_ranges[axis]
        if extent % step:
            self.line(f"if (i{axis} > {extent - step}) i{axis} = {extent - step};")

    def inner(self, loop: int) -> None:
        if loop == len(self.loops):
            self.store()
            return
        axis, step = self.loops[loop]
        with self.block(f"for (i64 t{axis} = 0; t{axis} < {self.trips[loop] * step}; t{axis} += {step})"):
            self.line(f"i64 i{axis} = t{axis};")
            self.last_tile(axis, step)
            self.level(loop + 1)
            self.inner(loop + 1)

    def level(self, level: int) -> None:
        """Everything whose innermost output loop this is."""
        for number, instruction in enumerate(self.body.instructions):
            if self.analysis.scopes[number] is None and self.level_of(number) == level:
                if instruction.op in REDUCTIONS:
                    self.reduce(number, instruction)
                elif instruction.op is not Op.CONST:
                    self.define(number)
        if self.packed and level == len(self.loops) - 1:
            for number in sorted(self.packed):
                self.pack(number)

    def level_of(self, number: int) -> int:
        depends = self.analysis.depends[number]
        return max((i + 1 for i, (axis, _) in enumerate(self.loops) if axis in depends), default=0)

    # Values

    def define(self, number: int, text: str = "") -> None:
        """A variable for each instance of a value; `text` is where it comes from if not from its operands."""
        kind = register(self.body.instructions[number].dtype, self.tile.is_vector(number))
        for row, column in self.tile.copies(number):
            source = f"{text} + {column}]" if text else self.tile.expression(number, row, column)
            self.line(f"const {kind} {self.tile.name(number, row, column)} = {source};")

    # Reductions

    def reduce(self, number: int, reduction: Instruction) -> None:
        kind = register(reduction.dtype, self.tile.is_vector(number))
        start = f"({kind})({identity(reduction.op, reduction.dtype)})"
        for row, column in self.tile.copies(number):
            self.line(f"{kind} {self.tile.name(number, row, column)} = {start};")
        ranges = self.analysis.ranges_of(reduction.c)
        inside = self.needed([v for v in reduction.values if self.analysis.scopes[v] is not None], stop=self.packed)
        self.steps(ranges, inside, lambda: self.step(number, reduction))

    def step(self, number: int, reduction: Instruction) -> None:
        for row, column in self.tile.copies(number):
            terms = [self.tile.value(v, row, column, self.tile.is_vector(number)) for v in reduction.values]
            total = self.tile.name(number, row, column)
            operands = [*terms, total] if reduction.op is Op.REDUCE_MULACC else [total, *terms]
            operation = apply(
                STEP[reduction.op], reduction.dtype, reduction.dtype, operands, self.tile.is_vector(number)
            )
            self.line(f"{total} = {operation};")

    def steps(self, ranges: tuple[int, ...], inside: list[int], finish: Callable[[], None]) -> None:
        """The loops of a reduction, each value in the outermost that it depends on, then `finish` in the innermost."""
        if not ranges:
            finish()
            return
        head, *rest = ranges
        extent = self.tile.value(self.body.reduce_ranges[head - self.analysis.outputs].extent, 0, 0, False)
        with self.block(f"for (i64 j{head} = 0; j{head} < {extent}; j{head}++)"):
            for number in inside:
                if not self.analysis.depends[number].intersection(rest):
                    self.define(number, self.pack_at(number) if number in self.packed else "")
            self.steps(tuple(rest), [n for n in inside if self.analysis.depends[n].intersection(rest)], finish)

    def needed(self, roots: list[int], stop: frozenset[int]) -> list[int]:
        """The values inside a reduction that the roots need, and the roots, in order; not what those of `stop` need."""
        found, stack = set(roots), [r for r in roots if r not in stop]
        while stack:
            for v in self.body.instructions[stack.pop()].values:
                if self.analysis.scopes[v] is not None and v not in found:
                    found.add(v)
                    if v not in stop:
                        stack.append(v)
        return sorted(found)

    # Values that are kept for all steps while the loop over rows runs

    def pack_ranges(self, number: int) -> tuple[int, ...]:
        return tuple(sorted(r for r in self.analysis.depends[number] if r >= self.analysis.outputs))

    def pack_at(self, number: int) -> str:
        position = "0"
        for r in self.pack_ranges(number):
            position = f"({position} * {self.analysis.extents[r]} + j{r})"
        return f"pack{number}[{position} * {self.schedule.columns}"

    def pack(self, number: int) -> None:
        kind = register(self.body.instructions[number].dtype, True)
        ranges = self.pack_ranges(number)
        self.line(f"{kind} pack{number}[{prod(self.analysis.extents[r] for r in ranges) * self.schedule.columns}];")

        def keep() -> None:
            for row, column in self.tile.copies(number):
                self.line(f"{self.pack_at(number)} + {column}] = {self.tile.name(number, row, column)};")

        packed, self.packed = self.packed, frozenset()
        self.steps(ranges, self.needed([number], stop=frozenset()), keep)
        self.packed = packed

    # The result

    def store(self) -> None:
        last = len(self.body.instructions) - 1
        dtype, s, extents = self.body.parameters[0].dtype, self.schedule, self.body.output_ranges
        step = {axis: prod(extents[axis + 1 :]) for axis in range(len(extents))}
        place = " + ".join(f"i{axis} * {step[axis]}" for axis in step) or "0"
        self.line(f"const i64 place = {place};")
        for row in range(s.rows):
            for column in range(s.columns):
                offset = row * step[s.row] if s.row is not None else 0
                value = self.tile.value(last, row, column, s.lanes > 1)
                if s.lanes == 1 or s.vector is None:
                    self.line(f"store_{MEMORY[dtype]}(p0, place + {offset}, {value});")
                    continue
                offset += self.tile.column_at(column) * step[s.vector]
                if step[s.vector] == 1:
                    self.line(f"put_{MEMORY[dtype]}(p0, place + {offset}, {value});")
                else:
                    self.line(f"scatter_{MEMORY[dtype]}(p0, place + {offset}, {step[s.vector]}, {value});")
