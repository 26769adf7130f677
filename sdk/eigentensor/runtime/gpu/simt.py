"""A body and a grid as the text of a kernel for OpenCL C or CUDA C++: what each work item computes."""

from collections.abc import Callable
from math import prod

from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import REDUCTIONS, Op
from eigentensor.runtime.bodies.expressions import MEMORY, STEP, STORED, apply, identity, register
from eigentensor.runtime.bodies.part import Part
from eigentensor.runtime.gpu.grid import Grid, staged
from eigentensor.runtime.gpu.staging import Staging

NAME = "compute"  #: of the kernel
#: Elements of a tile, and values of a step, up to which steps lie side by side: reads then wait for memory at once.
ALONE, LIGHT = 2, 16


def write(body: Body, grid: Grid) -> str:
    """Text, to be compiled after semantics.h, of a kernel with a pointer for each parameter of the body.

    If the body has variables, two parameters follow: the variables' values of all calls, and where this call's begin.
    """
    return _Writer(body, grid).text()


class _Writer(Staging):
    def text(self) -> str:
        alone = "" if isinstance(self.body, Part) else "restrict "  # a part may lie in what it reads
        parameters = [
            f"GLOBAL {'const ' if number else ''}{STORED[parameter.dtype]} *{alone}p{number}"
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
        return f'#include "semantics.h"\ntypedef {self.index} ix;\n' + str(self)

    # Reductions

    def reduce(self, number: int, reduction: Instruction) -> None:
        kind = register(reduction.dtype, False)
        for suffix in self.suffixes(number):
            self.line(f"{kind} v{number}{suffix} = {identity(reduction.op, reduction.dtype)};")
        ranges = self.analysis.ranges_of(reduction.c)
        kept = staged(self.analysis, self.grid, number)
        roots = [v for v in reduction.values if self.analysis.scopes[v] is not None]
        inside = self.analysis.needed(roots, kept)

        def finish() -> None:
            self.accumulate(number, reduction)

        if kept:
            self.chunks(number, ranges, inside, finish)
        else:
            self.steps(ranges, inside, finish)

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
        if not rest and self.grid.high * self.grid.broad <= ALONE and len(inside) <= LIGHT:
            self.line("UNROLL")
        with self.block(f"for (ix j{head} = 0; j{head} < {extent}; j{head}++)"):
            for number in inside:
                if not self.analysis.depends[number].intersection(rest):
                    self.define(number)
            self.steps(tuple(rest), [n for n in inside if self.analysis.depends[n].intersection(rest)], finish)

    # The result

    def store(self) -> None:
        dtype, extents = self.body.parameters[0].dtype, self.body.output_ranges
        last = len(self.body.instructions) - 1
        computing = [f"item < {self.grid.tall * self.grid.wide}"] if self.grid.crew > 1 else []
        for r in range(self.grid.high):
            for c in range(self.grid.broad):
                names = {**dict.fromkeys(self.grid.rows, f"r{r}"), **dict.fromkeys(self.grid.columns, f"c{c}")}
                steps = [f"i{a}{names.get(a, '')} * {prod(extents[a + 1 :])}" for a in range(len(extents))]
                inside = computing + [
                    f"at{s} <= {self.extent(s[0]) - 1}" for s in (f"r{r}", f"c{c}") if self.ragged(s[0])
                ]
                place = " + ".join(steps) or "0"
                if isinstance(self.body, Part):
                    place = self.value(self.body.place, f"r{r}c{c}")
                put = f"store_{MEMORY[dtype]}(p0, {place}, {self.value(last, f'r{r}c{c}')});"
                self.line(f"if ({' && '.join(inside)}) {put}" if inside else put)
