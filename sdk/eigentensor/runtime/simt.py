"""A body and a grid as the text of a kernel for OpenCL C or CUDA C++: what each work item computes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import prod

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.runtime.analysis import Analysis
from eigentensor.runtime.expressions import MEMORY, STEP, STORED, apply, identity, literal, register
from eigentensor.runtime.grid import Grid, cone_of, groups, staged

NAME = "compute"  #: of the kernel


def write(body: Body, grid: Grid) -> str:
    """Text, to be compiled after semantics.h, of a kernel with a pointer for each parameter of the body.

    If the body has variables, two parameters follow: the variables' values of all calls, and where this call's begin.
    """
    return _Writer(body, grid).text()


class _Writer:
    def __init__(self, body: Body, grid: Grid) -> None:
        self.body = body
        self.grid = grid
        self.analysis = Analysis(body)
        self.lines: list[str] = []
        self.depth = 0
        self.alone = ""  #: the side that is being staged

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
        parameters = [
            f"GLOBAL {'const ' if number else ''}{STORED[parameter.dtype]} *restrict p{number}"
            for number, parameter in enumerate(self.body.parameters)
        ]
        if self.body.variables:
            parameters += ["GLOBAL const i64 *restrict values", "i32 at"]
        with self.block(f"KERNEL({self.grid.items}) void {NAME}({', '.join(parameters)})"):
            self.places()
            for number, instruction in enumerate(self.body.instructions):
                if self.analysis.scopes[number] is None:
                    if instruction.op in REDUCTIONS:
                        self.reduce(number, instruction)
                    elif instruction.op is not Op.CONST:
                        self.define(number)
            self.store()
        return f'#include "semantics.h"\ntypedef {self.index} ix;\n' + "\n".join(self.lines) + "\n"

    @cached_property
    def index(self) -> str:
        """The type of indices: the shorter where everything that is counted fits."""
        bounds = zip(self.body.instructions, self.analysis.intervals, strict=True)
        sizes = [size for i, bound in bounds if i.dtype is DType.INDEX for size in bound]
        sizes += [self.body.parameters[0].elements, *(self.extent(side) + self.span(side) for side in "rc")]
        sizes += [prod(self.analysis.extents[self.analysis.outputs :]), prod(groups(self.body, self.grid))]
        return "i32" if all(-(1 << 31) <= size < 1 << 31 for size in sizes) else "i64"

    # Sides: "r" are the rows, "c" the columns

    def axes(self, side: str) -> tuple[int, ...]:
        return self.grid.rows if side == "r" else self.grid.columns

    def extent(self, side: str) -> int:
        return prod(self.body.output_ranges[axis] for axis in self.axes(side))

    def step(self, side: str) -> int:
        return self.grid.tall if side == "r" else self.grid.wide

    def count(self, side: str) -> int:
        return self.grid.high if side == "r" else self.grid.broad

    def span(self, side: str) -> int:
        """Elements of a group along a side."""
        return self.step(side) * self.count(side)

    def ragged(self, side: str) -> bool:
        return self.extent(side) % self.span(side) != 0

    def places(self) -> None:
        """Where the tile of this item lies: the counters of all output loops."""
        across, down, _ = groups(self.body, self.grid)
        self.line("const ix group = (ix)GROUP;")
        self.line("const i32 item = ITEM;")
        self.line(
            f"const ix c0 = group % {across} * {self.span('c')}, r0 = group / {across} % {down} * {self.span('r')};"
        )
        self.line(f"const i32 ic = item % {self.grid.wide}, ir = item / {self.grid.wide};")
        others = [axis for axis in range(self.analysis.outputs) if axis not in (*self.grid.rows, *self.grid.columns)]
        self.counters("i", others, f"group / {across * down}", self.body.output_ranges, "")
        for side in "rc":
            for n in range(self.count(side)):
                at = f"{side}0 + i{side} + {n * self.step(side)}"
                self.position(side, at, f"{side}{n}")

    def position(self, side: str, at: str, suffix: str) -> None:
        """The counters of a side's axes at a place along it, or at its end if that is nearer."""
        last = self.extent(side) - 1
        if self.ragged(side):
            self.line(f"const ix at{suffix} = {at};")
            at = f"(at{suffix} < {last} ? at{suffix} : {last})"
        self.counters("i", self.axes(side), at, self.body.output_ranges, suffix)

    def counters(self, letter: str, loops: Sequence[int], at: str, extents: Sequence[int], suffix: str) -> None:
        """The counters of loops from one that runs over all of them in row-major order."""
        if not loops:
            return
        whole = f"{letter}{''.join(map(str, loops[:1]))}all{suffix}"
        self.line(f"const ix {whole} = {at};")
        inside = 1
        for n, loop in reversed(list(enumerate(loops))):
            value = whole if inside == 1 else f"{whole} / {inside}"
            self.line(f"const ix {letter}{loop}{suffix} = {value}{f' % {extents[loop]}' if n else ''};")
            inside *= extents[loop]

    # Values

    def suffixes(self, number: int) -> list[str]:
        """One for each instance of a value in a tile."""
        sides = [side for side in "rc" if self.analysis.depends[number].intersection(self.axes(side))]
        if self.alone:
            return [self.alone if sides or self.inside(number) else ""]
        counts = [[f"{side}{n}" for n in range(self.count(side))] for side in sides]
        return [a + b for a in (counts[0] if counts else [""]) for b in (counts[1] if len(counts) > 1 else [""])]

    def inside(self, number: int) -> bool:
        return any(r >= self.analysis.outputs for r in self.analysis.depends[number])

    def value(self, number: int, suffix: str) -> str:
        """The instance of a value that an instance with this suffix uses."""
        instruction = self.body.instructions[number]
        if instruction.op is Op.CONST:
            return literal(instruction)
        own = self.suffixes(number)
        return f"v{number}" + next(s for s in own if s == suffix or s in _parts(suffix))

    def define(self, number: int) -> None:
        kind = register(self.body.instructions[number].dtype, False)
        for suffix in self.suffixes(number):
            self.line(f"const {kind} v{number}{suffix} = {self.expression(number, suffix)};")

    def expression(self, number: int, suffix: str) -> str:
        instruction = self.body.instructions[number]
        if instruction.op is Op.RANGE:
            return f"{'j' if instruction.a >= self.analysis.outputs else 'i'}{instruction.a}{suffix}"
        if instruction.op is Op.VAR:
            return f"(ix)values[at + {instruction.a}]"
        operands = [self.value(v, suffix) for v in instruction.values]
        if instruction.op is Op.LOAD:
            guard = f", {operands[1]}" if instruction.c != NO_GUARD else ""
            return f"load_{MEMORY[instruction.dtype]}(p{instruction.a}, {operands[0]}{guard})"
        source = self.body.instructions[instruction.values[-1]].dtype
        bounds = [self.analysis.intervals[v] for v in instruction.values]
        natural = len(bounds) == 2 and bounds[0][0] >= 0 and bounds[1][0] > 0
        return apply(instruction.op, instruction.dtype, source, operands, False, natural=natural)

    # Reductions

    def reduce(self, number: int, reduction: Instruction) -> None:
        kind = register(reduction.dtype, False)
        for suffix in self.suffixes(number):
            self.line(f"{kind} v{number}{suffix} = {identity(reduction.op, reduction.dtype)};")
        ranges = self.analysis.ranges_of(reduction.c)
        kept = staged(self.analysis, self.grid, number)
        roots = [v for v in reduction.values if self.analysis.scopes[v] is not None]
        inside = self.needed(roots, kept)
        if kept:
            self.chunks(number, ranges, kept, [n for n in inside if n not in kept])
        else:
            self.steps(ranges, inside, lambda: self.accumulate(number, reduction))

    def accumulate(self, number: int, reduction: Instruction) -> None:
        for suffix in self.suffixes(number):
            total = f"v{number}{suffix}"
            terms = [self.value(v, suffix) for v in reduction.values]
            operands = [*terms, total] if reduction.op is Op.REDUCE_MULACC else [total, *terms]
            self.line(f"{total} = {apply(STEP[reduction.op], reduction.dtype, reduction.dtype, operands, False)};")

    def steps(self, ranges: tuple[int, ...], inside: list[int], finish: Callable[[], None]) -> None:
        """The loops of a reduction, each value in the outermost that it depends on, then `finish` in the innermost."""
        if not ranges:
            finish()
            return
        head, *rest = ranges
        extent = self.value(self.body.reduce_ranges[head - self.analysis.outputs].extent, "")
        with self.block(f"for (ix j{head} = 0; j{head} < {extent}; j{head}++)"):
            for number in inside:
                if not self.analysis.depends[number].intersection(rest):
                    self.define(number)
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

    # Staging

    def chunks(self, number: int, ranges: tuple[int, ...], kept: frozenset[int], inside: list[int]) -> None:
        """The loops of a reduction as one, some steps at a time: the group stages what they need, then all take it."""
        chunk, total = self.grid.chunk, prod(self.analysis.extents[r] for r in ranges)
        for v in sorted(kept):
            self.line(
                f"LOCAL {register(self.body.instructions[v].dtype, False)} t{number}v{v}[{chunk * self.pitch(v)}];"
            )
        with self.block(f"for (ix k0 = 0; k0 < {total}; k0 += {chunk})"):
            for side in "rc":
                of = [v for v in sorted(kept) if self.side(v) == side]
                if of:
                    self.stage(number, side, of, ranges, total)
            self.line("WAIT;")
            most = f"({total} - k0 < {chunk} ? (i32)({total} - k0) : {chunk})" if total % chunk else chunk
            with self.block(f"for (i32 k = 0; k < {most}; k++)"):
                if inside:
                    self.counters("j", ranges, "k0 + k", self.analysis.extents, "")
                for v in sorted([*kept, *inside]):
                    if v in inside:
                        self.define(v)
                        continue
                    side = self.side(v)
                    for n, suffix in enumerate(self.suffixes(v)):
                        place = f"k * {self.pitch(v)} + i{side} + {n * self.step(side)}"
                        kind = register(self.body.instructions[v].dtype, False)
                        self.line(f"const {kind} v{v}{suffix} = t{number}v{v}[{place}];")
                self.accumulate(number, self.body.instructions[number])
            self.line("WAIT;")

    def side(self, v: int) -> str:
        return "r" if self.analysis.depends[v].intersection(self.grid.rows) else "c"

    def pitch(self, v: int) -> int:
        """Distance of steps in shared memory; not a power of two: neighbours that stage steps hit different banks."""
        return self.span(self.side(v)) + 1

    def stage(self, number: int, side: str, of: list[int], ranges: tuple[int, ...], total: int) -> None:
        """The items of the group share the values of one side for the steps from k0 on, and put them where all see."""
        chunk, span, first = self.grid.chunk, self.span(side), self.axes(side)[-1]
        cone = sorted({n for v in of for n in cone_of(self.analysis, v)})
        loads = [self.body.instructions[n].b for n in cone if self.body.instructions[n].op is Op.LOAD]
        along = sum(self.analysis.strides(ranges[-1])[e] == 1 for e in loads)
        across = sum(self.analysis.strides(first)[e] == 1 for e in loads)
        k, place = (f"e % {chunk}", f"e / {chunk}") if along > across else (f"e / {span}", f"e % {span}")
        with self.block(f"for (i32 e = item; e < {chunk * span}; e += {self.grid.items})"):
            self.line(f"const i32 k = {k}, place = {place};")
            at = f"(k0 + k < {total - 1} ? k0 + k : {total - 1})" if total % chunk else "k0 + k"
            self.alone = "s"
            self.counters("j", ranges, at, self.analysis.extents, "s")
            self.position(side, f"{side}0 + place", "s")
            for n in cone:
                if self.suffixes(n) == ["s"] and self.body.instructions[n].op is not Op.CONST:
                    self.define(n)
            for v in of:
                self.line(f"t{number}v{v}[k * {self.pitch(v)} + place] = v{v}s;")
            self.alone = ""

    # The result

    def store(self) -> None:
        dtype, extents = self.body.parameters[0].dtype, self.body.output_ranges
        last = len(self.body.instructions) - 1
        for r in range(self.grid.high):
            for c in range(self.grid.broad):
                names = {**dict.fromkeys(self.grid.rows, f"r{r}"), **dict.fromkeys(self.grid.columns, f"c{c}")}
                steps = [f"i{a}{names.get(a, '')} * {prod(extents[a + 1 :])}" for a in range(len(extents))]
                inside = [f"at{s} <= {self.extent(s[0]) - 1}" for s in (f"r{r}", f"c{c}") if self.ragged(s[0])]
                value = self.value(last, f"r{r}c{c}")
                put = f"store_{MEMORY[dtype]}(p0, {' + '.join(steps) or '0'}, {value});"
                self.line(f"if ({' && '.join(inside)}) {put}" if inside else put)


def _parts(suffix: str) -> tuple[str, ...]:
    """The suffixes of values that vary less than one with this suffix."""
    cut = suffix.find("c", 1)
    return ("", suffix[:cut], suffix[cut:]) if cut > 0 else ("",)
