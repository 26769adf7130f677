"""A body and a schedule as C text: a function that computes some of the tiles of a call."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from math import prod
from typing import NamedTuple

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import REDUCTIONS, Op
from eigentensor.runtime.bodies.expressions import MEMORY, STORED, Text
from eigentensor.runtime.bodies.part import Part
from eigentensor.runtime.bodies.quads import join_in_quads
from eigentensor.runtime.cpu.reduction import Reductions
from eigentensor.runtime.cpu.schedule import Schedule, apart
from eigentensor.runtime.cpu.tile import Tile
from eigentensor.runtime.memory.in_place import in_place

UNITS = 64  #: parts of a call that threads share, if its loops have as many


def write(body: Body, schedule: Schedule) -> str:
    """C text, to be compiled after semantics.h, of

    `int64_t kernel(void *const *buffers, const int64_t *variables, int64_t first, int64_t last)`

    which computes the units first…last−1 of a call into buffers[0], from the buffers and variables of its parameters;
    with a negative `last` it only returns how many units there are.
    """
    joined = join_in_quads(body, schedule.joined)
    if isinstance(body, Part):
        return _Writer(joined, schedule, True).kernel()
    over = bool(in_place(body))
    return _Writer(joined, apart(joined, schedule) if over else schedule, over).kernel()


class _Loop(NamedTuple):
    """A loop over an axis in steps; or over its rows in blocks, which other loops divide."""

    axis: int
    step: int
    trips: int
    in_blocks: bool = False

    @property
    def counter(self) -> str:
        return f"{'b' if self.in_blocks else 'i'}{self.axis}"


class _Writer:
    def __init__(self, body: Body, schedule: Schedule, in_place: bool) -> None:
        self.body = body
        self.in_place = in_place
        self.schedule = schedule
        self.tile = Tile(body, schedule)
        self.analysis = self.tile.analysis
        self.text = Text()
        self.reductions = Reductions(self.text, self.tile)

    # Loops, outermost first

    @cached_property
    def loops(self) -> list[_Loop]:
        s = self.schedule
        outer = [axis for axis in range(self.analysis.outputs) if axis not in (s.vector, s.row, s.inner)]
        if s.packed:  # what is read for each row again stays in the cache where an inner loop reads the same
            outer.sort(key=lambda axis: sum(axis not in self.analysis.depends[load.b] for load in self.loads))
        around = [self.loop(axis, 1) for axis in outer]
        vector = [] if s.vector is None else [self.loop(s.vector, s.lanes * s.columns)]
        inner = [] if s.inner is None else [self.loop(s.inner, 1)]
        if s.row is None and s.panel:
            assert s.vector is not None
            return [*around, self.loop(s.vector, s.block)._replace(in_blocks=True), *vector]
        if s.row is None:
            return around + vector + inner
        if s.stripes:
            return [*around, *vector, _Loop(s.row, 1, -(-self.body.output_ranges[s.row] // s.rows)), *inner]
        size = s.block or (self.body.output_ranges[s.row] if s.panel else 0)
        block = [self.loop(s.row, size)._replace(in_blocks=True)] if size else []
        return around + vector + block + [self.loop(s.row, s.rows)] + inner

    @cached_property
    def loads(self) -> list[Instruction]:
        return [instruction for instruction in self.body.instructions if instruction.op is Op.LOAD]

    def loop(self, axis: int, step: int) -> _Loop:
        step = min(step, self.body.output_ranges[axis])
        return _Loop(axis, step, -(-self.body.output_ranges[axis] // step))

    @cached_property
    def shared(self) -> int:
        """How many of the outermost loops become units; packed values and panels serve all of the innermost, so that
        stays."""
        most = len(self.loops) - bool(self.schedule.packed or self.schedule.panel)
        return next((n for n in range(most) if prod(loop.trips for loop in self.loops[:n]) >= UNITS), most)

    # Text

    def kernel(self) -> str:
        line, block = self.text.line, self.text.block
        index = "i32" if all(low >= -(1 << 31) and high < 1 << 31 for low, high in self.index_bounds()) else "i64"
        head = f"#define LANES {self.schedule.lanes}\n#define INDEX {index}\n"
        with block("i64 kernel(void *const *restrict buffers, const i64 *restrict variables, i64 first, i64 last)"):
            line(f"if (last < 0) return {prod(loop.trips for loop in self.loops[: self.shared])};")
            for number, parameter in enumerate(self.body.parameters):
                kind = f"const {STORED[parameter.dtype]}" if number else STORED[parameter.dtype]
                alone = "" if self.in_place else "restrict "
                line(f"{kind} *{alone}const p{number} = ({kind} *)buffers[{number}];")
            if self.schedule.lanes > 1:
                line(f"const xv lane = {{{', '.join(map(str, range(self.schedule.lanes)))}}};")
            self.level(0)
            with block("for (i64 unit = first; unit < last; unit++)"):
                line("i64 rest = unit;")
                for loop in reversed(self.loops[: self.shared]):
                    line(f"i64 {loop.counter} = rest % {loop.trips} * {loop.step};")
                    line(f"rest /= {loop.trips};")
                    self.last_tile(loop)
                for level in range(1, self.shared + 1):
                    self.level(level)
                self.inner(self.shared)
            line("return last;")
        return head + '#include "semantics.h"\n' + str(self.text)

    def index_bounds(self) -> Iterator[tuple[int, int]]:
        for instruction, bounds in zip(self.body.instructions, self.analysis.intervals, strict=True):
            if instruction.dtype is DType.INDEX:
                yield bounds

    def last_tile(self, loop: _Loop) -> None:
        """The last tile ends at the end of the axis, over elements that the one before has computed, too."""
        end = self.body.output_ranges[loop.axis] - loop.step
        if self.body.output_ranges[loop.axis] % loop.step and not loop.in_blocks:
            self.text.line(f"if ({loop.counter} > {end}) {loop.counter} = {end};")

    def inner(self, number: int) -> None:
        if number == len(self.loops):
            self.store()
        elif self.schedule.panel and number == len(self.loops) - 1:
            self.panels()
        else:
            with self.opened(number):
                self.level(number + 1)
                self.inner(number + 1)

    @contextmanager
    def opened(self, number: int) -> Iterator[None]:
        """The loop of this number around what follows."""
        loop = self.loops[number]
        name, low, high = f"t{loop.axis}", "0", str(loop.trips * loop.step)
        if number and self.loops[number - 1].in_blocks:
            low, block = f"b{loop.axis}", self.loops[number - 1].step
            high = f"({low} + {block} < {high} ? {low} + {block} : {high})"
        with self.text.block(f"for (i64 {name} = {low}; {name} < {high}; {name} += {loop.step})"):
            self.text.line(f"i64 {loop.counter} = {name};")
            self.last_tile(loop)
            yield

    def panels(self) -> None:
        """The innermost loop, once for each panel of the reduction's outermost loop."""
        last, extent, size = len(self.loops) - 1, self.analysis.extents[self.analysis.outputs], self.schedule.panel
        self.reductions.keep(self.loops[last - 1].step)
        with self.text.block(f"for (i64 from = 0; from < {extent}; from += {size})"):
            self.text.line(f"const i64 to = from + {size} < {extent} ? from + {size} : {extent};")
            self.pack()
            with self.opened(last):
                self.values(last + 1, 0, self.reductions.only + 1)
                with self.text.block(f"if (to < {extent})"):
                    self.reductions.save()
                    self.text.line("continue;")
                self.values(last + 1, self.reductions.only + 1, len(self.body.instructions))
                self.store()

    def level(self, level: int) -> None:
        """Everything whose innermost output loop this is, and what is packed before the loop over rows."""
        if level == len(self.loops) and self.end is not None:
            self.skip(*self.end)
        self.values(level, 0, len(self.body.instructions))
        if level == len(self.loops) - 1 and not self.schedule.panel:
            self.pack()

    def pack(self) -> None:
        for number in sorted(self.schedule.packed):
            self.reductions.pack(number)

    def values(self, level: int, first: int, end: int) -> None:
        for number in range(first, end):
            instruction = self.body.instructions[number]
            if self.analysis.scopes[number] is None and self.level_of(number) == level:
                if instruction.op in REDUCTIONS:
                    self.reductions.reduce(number)
                elif instruction.op is not Op.CONST:
                    self.reductions.define(number)

    def level_of(self, number: int) -> int:
        depends = self.analysis.depends[number]
        loops = enumerate(self.loops, 1)
        return max((i for i, loop in loops if loop.axis in depends and not loop.in_blocks), default=0)

    @cached_property
    def end(self) -> tuple[int, int, int] | None:
        """Axis, bound and value, if there is a constant along an axis beyond what variables bound."""
        instructions, last = self.body.instructions, self.body.instructions[-1]
        if last.op is not Op.WHERE or instructions[last.c].op is not Op.CONST or self.schedule.panel:
            return None
        for within in self.conjuncts(instructions[last.a]):
            counter = instructions[within.a]
            counter = instructions[counter.a] if counter.op is Op.CAST else counter
            is_bound = within.op is Op.CMPLT and counter.op is Op.RANGE and counter.a < self.analysis.outputs
            if is_bound and not self.analysis.depends[within.b] and instructions[within.b].op is not Op.CONST:
                return counter.a, within.b, last.c
        return None

    def conjuncts(self, condition: Instruction) -> Iterator[Instruction]:
        if condition.op is Op.AND:
            for number in (condition.a, condition.b):
                yield from self.conjuncts(self.body.instructions[number])
        else:
            yield condition

    def skip(self, axis: int, bound: int, value: int) -> None:
        """A tile that begins beyond a variable's bound: there may be many, and nothing of them is to be computed."""
        with self.text.block(f"if (i{axis} >= {self.tile.value(bound, 0, 0, False)})"):
            self.store(value)
            self.text.line("continue;")

    # The result

    def steps_of(self, part: Part) -> dict[int, int]:
        """By how much the element that is stored moves along each axis."""
        strides = (self.analysis.strides(axis)[part.place] for axis in range(self.analysis.outputs))
        return {axis: stride for axis, stride in enumerate(strides) if stride is not None}

    def store(self, number: int | None = None) -> None:
        """Writes a tile of the last value, or of another one."""
        last = len(self.body.instructions) - 1 if number is None else number
        dtype, s, extents = self.body.parameters[0].dtype, self.schedule, self.body.output_ranges
        step = {axis: prod(extents[axis + 1 :]) for axis in range(len(extents))}
        place = " + ".join(f"i{axis} * {step[axis]}" for axis in step) or "0"
        if isinstance(self.body, Part):
            place, step = self.tile.value(self.body.place, 0, 0, False), self.steps_of(self.body)
        self.text.line(f"const i64 place = {place};")
        for row in range(s.rows):
            for column in range(s.columns):
                offset = self.tile.row_at(row) * step[s.row] if s.row is not None else 0
                value = self.tile.value(last, row, column, s.lanes > 1)
                if s.lanes == 1 or s.vector is None:
                    self.text.line(f"store_{MEMORY[dtype]}(p0, place + {offset}, {value});")
                    continue
                offset += self.tile.column_at(column) * step[s.vector]
                if step[s.vector] == 1:
                    self.text.line(f"put_{MEMORY[dtype]}(p0, place + {offset}, {value});")
                else:
                    self.text.line(f"scatter_{MEMORY[dtype]}(p0, place + {offset}, {step[s.vector]}, {value});")
