"""What a work item computes: where its tile lies, and the text of every value in it."""

from collections.abc import Sequence
from functools import cached_property
from math import prod

from eigentensor.numerics.dtypes import INFINITY, DType
from eigentensor.program.model import Body
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.bodies.expressions import MEMORY, OPERATORS, Text, applied, literal, register
from eigentensor.runtime.bodies.quads import FOUR
from eigentensor.runtime.gpu.grid import Grid, cone_of, groups

LEAVES = frozenset({Op.CONST, Op.RANGE, Op.VAR, Op.LOAD}) | REDUCTIONS  #: what a value is made of in the end


class Item(Text):
    """A body under a grid: a tile with an instance of a value wherever it varies, named by row and column."""

    def __init__(self, body: Body, grid: Grid) -> None:
        super().__init__()
        self.body = body
        self.grid = grid
        self.analysis = Analysis(body)
        self.alone = ""  #: the suffix of all that varies, while there is one instance

    @cached_property
    def index(self) -> str:
        """The type of indices: the shorter where everything that is counted fits."""
        bounds = zip(self.body.instructions, self.analysis.intervals, strict=True)
        sizes = [size for i, bound in bounds if i.dtype is DType.INDEX for size in bound]
        sizes += [self.body.parameters[0].elements, *(self.extent(side) + self.span(side) for side in "rc")]
        steps = prod(self.analysis.extents[self.analysis.outputs :]) + self.grid.chunk
        sizes += [steps, prod(groups(self.body, self.grid))]
        return "i32" if all(-(1 << 31) <= size < 1 << 31 for size in sizes) else "i64"

    # Sides: "r" are the rows, "c" the columns

    def axes(self, side: str) -> tuple[int, ...]:
        """The output axes along a side."""
        return self.grid.rows if side == "r" else self.grid.columns

    def extent(self, side: str) -> int:
        """Elements of the result along a side."""
        return prod(self.body.output_ranges[axis] for axis in self.axes(side))

    def step(self, side: str) -> int:
        """How far a tile's elements lie apart along a side: neighbouring items read neighbours."""
        return self.grid.tall if side == "r" else self.grid.wide

    def count(self, side: str) -> int:
        """Elements of one item's tile along a side."""
        return self.grid.high if side == "r" else self.grid.broad

    def span(self, side: str) -> int:
        """Elements of a group along a side."""
        return self.step(side) * self.count(side)

    def ragged(self, side: str) -> bool:
        """Whether the last group of a side reaches beyond its end: it computes the last element again, and does not
        store it."""
        return self.extent(side) % self.span(side) != 0

    def places(self) -> None:
        """Where the tile of this item lies: the counters of all output loops."""
        across, down, _ = groups(self.body, self.grid)
        self.line("const ix group = (ix)GROUP;")
        self.line("const i32 item = ITEM;")
        self.line(
            f"const ix c0 = group % {across} * {self.span('c')}, r0 = group / {across} % {down} * {self.span('r')};"
        )
        turn = f" % {self.grid.tall}" if self.grid.crew > 1 else ""  # who only copies has a place like any other
        self.line(f"const i32 ic = item % {self.grid.wide}, ir = item / {self.grid.wide}{turn};")
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
            # beyond the end the last element is computed again: no lane leaves the loop, as barriers want it
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
            return [self.alone if sides or self.analysis.loops_of(number) else ""]
        counts = [[f"{side}{n}" for n in range(self.count(side))] for side in sides]
        return [a + b for a in (counts[0] if counts else [""]) for b in (counts[1] if len(counts) > 1 else [""])]

    def value(self, number: int, suffix: str) -> str:
        """The instance of a value that an instance with this suffix uses."""
        instruction = self.body.instructions[number]
        if instruction.op is Op.CONST:
            ends = instruction.dtype.is_float and instruction.immediate & (most := INFINITY[instruction.dtype]) == most
            return f"apart({literal(instruction)})" if ends else literal(instruction)
        own = self.suffixes(number)
        return f"v{number}" + next(s for s in own if s == suffix or s in _parts(suffix))

    def define(self, number: int) -> None:
        """A constant for each instance of a value."""
        dtype = self.body.instructions[number].dtype
        leaves = {self.body.instructions[n].op for n in cone_of(self.analysis, number)} & LEAVES
        for suffix in self.suffixes(number):
            text = self.expression(number, suffix)
            text = f"apart({text})" if dtype.is_float and leaves == {Op.CONST} else text
            kind = "u32" if number in self.analysis.wide else register(dtype, False)
            self.line(f"const {kind} v{number}{suffix} = {text};")

    def expression(self, number: int, suffix: str) -> str:
        """What computes an instance from the constants of its operands."""
        instruction = self.body.instructions[number]
        if instruction.op is Op.RANGE:
            return f"{'j' if instruction.a >= self.analysis.outputs else 'i'}{instruction.a}{suffix}"
        if instruction.op is Op.VAR:
            return f"(ix)values[at + {instruction.a}]"
        operands = [self.value(v, suffix) for v in instruction.values]
        if self.analysis.wide.intersection((number, *instruction.values)):
            return self.of_four(number, operands)
        if instruction.op is Op.LOAD:
            guard = f", {operands[1]}" if instruction.c != NO_GUARD else ""
            return f"load_{MEMORY[instruction.dtype]}(p{instruction.a}, {operands[0]}{guard})"
        return applied(self.analysis, instruction, operands, False)

    def of_four(self, number: int, operands: Sequence[str]) -> str:
        """What computes a word of four bytes, or the sum of products of two of them."""
        instruction, wide = self.body.instructions[number], self.analysis.wide
        kinds = [MEMORY[self.body.instructions[v].dtype] for v in instruction.values]
        if number not in wide:
            return f"dot_{kinds[0]}_{kinds[1]}({', '.join(operands)})"
        kind = MEMORY[instruction.dtype]
        if instruction.op is Op.LOAD:
            return f"{'word' if self.is_aligned(instruction.b) else 'four'}_{kind}(p{instruction.a}, {operands[0]})"
        if instruction.op is Op.CAST:
            return operands[0]
        if instruction.op is Op.SHR:
            return f"four_shr_{kind}({', '.join(operands)})"
        if instruction.op is Op.MUL and len(wide.intersection(instruction.values)) == 1:
            word, by = operands if instruction.values[0] in wide else operands[::-1]
            return f"four_times({word}, (u32)({by}))"
        pairs = zip(instruction.values, operands, strict=True)
        words = [text if v in wide else f"spread({text})" for v, text in pairs]
        if instruction.op in (Op.AND, Op.OR, Op.XOR):
            return f" {OPERATORS[instruction.op]} ".join(words)
        return f"four_{instruction.op.name.lower()}({', '.join(words)})"

    def is_aligned(self, element: int) -> bool:
        """Whether an index is always that of the first byte of a word."""
        steps = (self.analysis.strides(loop)[element] for loop in range(len(self.analysis.extents)))
        return all(step is not None and step % FOUR == 0 for step in (self.analysis.origin(element), *steps))


def _parts(suffix: str) -> tuple[str, ...]:
    """The suffixes of values that vary less than one with this suffix."""
    cut = suffix.find("c", 1)
    return ("", suffix[:cut], suffix[cut:]) if cut > 0 else ("",)
