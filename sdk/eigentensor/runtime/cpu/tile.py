"""The text of every value in a tile of elements: its name, its operands, how it is loaded."""

from collections.abc import Iterator

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body
from eigentensor.program.ops import NO_GUARD, Op
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.bodies.expressions import MEMORY, OPERATORS, REGISTER, applied, literal, register
from eigentensor.runtime.bodies.quads import FOUR
from eigentensor.runtime.cpu.schedule import Schedule


class Tile:
    """A body under a schedule: rows × columns of vectors, with an instance of a value wherever it varies."""

    def __init__(self, body: Body, schedule: Schedule, analysis: Analysis | None = None) -> None:
        self.body = body
        self.schedule = schedule
        self.analysis = analysis or Analysis(body)
        self.strides = self.analysis.strides(-1 if schedule.vector is None else schedule.vector)
        self.holding: frozenset[int] = frozenset()  # guards that are known to hold where text is being written

    def is_vector(self, number: int) -> bool:
        """Whether a value is held for all lanes; an index that moves by a constant is held for the first lane."""
        return self.schedule.lanes > 1 and self.strides[number] is None

    def kind(self, number: int, vector: bool) -> str:
        """The C type of a value, or of one for all lanes."""
        dtype = self.body.instructions[number].dtype
        if number not in self.analysis.wide:
            return register(dtype, vector)
        return f"{REGISTER[dtype]}q{'v' if vector else ''}"

    def beside(self, number: int) -> bool:
        """Whether what a load reads for the lanes lies side by side."""
        step = FOUR if number in self.analysis.wide else 1
        return self.strides[self.body.instructions[number].b] == step

    def copies(self, number: int) -> Iterator[tuple[int, int]]:
        """(row, column) of each instance of a value in a tile."""
        depends, s = self.analysis.depends[number], self.schedule
        for row in range(s.rows if s.row in depends else 1):
            for column in range(s.columns if s.lanes > 1 and s.vector in depends else 1):
                yield row, column

    def name(self, number: int, row: int, column: int) -> str:
        """The C variable of one instance of a value; instances along an axis on which it does not depend are one."""
        depends, s = self.analysis.depends[number], self.schedule
        rows = f"r{row}" if s.row in depends else ""
        columns = f"c{column}" if s.lanes > 1 and s.vector in depends else ""
        return f"v{number}{rows}{columns}"

    def value(self, number: int, row: int, column: int, vector: bool) -> str:
        """An instance as an operand.

        What is the same in all lanes, or an index that moves evenly, becomes a vector where one is wanted.
        """
        instruction = self.body.instructions[number]
        text = literal(instruction) if instruction.op is Op.CONST else self.name(number, row, column)
        if not vector or self.is_vector(number):
            return text
        if number in self.analysis.wide:
            return f"spread({text})"
        splat = f"(({register(instruction.dtype, True)})({text}))"
        if instruction.dtype is not DType.INDEX:
            return splat
        splat = f"((xv)(INDEX)({text}))"
        stride = self.strides[number]
        return f"({splat} + lane * (xv)(INDEX){stride})" if stride else splat

    def expression(self, number: int, row: int, column: int) -> str:
        """What computes an instance from the variables of its operands."""
        instruction = self.body.instructions[number]
        vector = self.is_vector(number)
        if instruction.op is Op.RANGE:
            return self.counter(instruction.a, row, column)
        if instruction.op is Op.VAR:
            return f"variables[{instruction.a}]"
        if instruction.op is Op.LOAD:
            return self.load(number, row, column)
        if self.analysis.wide.intersection(instruction.values):
            return self.of_four(number, row, column)
        operands = [self.value(v, row, column, vector) for v in instruction.values]
        return applied(self.analysis, instruction, operands, vector)

    def counter(self, loop: int, row: int, column: int) -> str:
        """What an instance of a loop's RANGE counts; in the vectorised loop the number of the first lane."""
        if loop >= self.analysis.outputs:
            return f"j{loop}"
        offset = self.row_at(row) if loop == self.schedule.row else 0
        if loop == self.schedule.vector:
            offset = self.column_at(column)
        return f"i{loop} + {offset}" if offset else f"i{loop}"

    def column_at(self, column: int) -> int:
        """Where a column begins in its tile: the last one ends with the axis, too, if that is shorter than a tile."""
        s = self.schedule
        return min(column * s.lanes, self.body.output_ranges[s.vector] - s.lanes) if s.vector is not None else 0

    def row_at(self, row: int) -> int:
        """How far a row stands from the first one of its tile; the last stripe ends with the axis, too."""
        s = self.schedule
        if s.row is None or not s.stripes:
            return row
        extent = self.body.output_ranges[s.row]
        length = -(-extent // s.rows)
        return min(row * length, extent - length)

    def of_four(self, number: int, row: int, column: int) -> str:
        """What computes four bytes of others, or the sum of products of two of them."""
        instruction, vector = self.body.instructions[number], self.is_vector(number)
        if number not in self.analysis.wide:
            return f"dot({', '.join(self.value(v, row, column, vector) for v in instruction.values)})"
        kind = self.kind(number, vector)
        first, *others = (
            self.value(v, row, column, vector) if v in self.analysis.wide else self.value(v, row, column, False)
            for v in instruction.values
        )
        if instruction.op is Op.CAST:
            return f"({kind})({first})"
        if instruction.op is Op.SHR:
            return f"shift({first}, {others[0]})"
        operands = (first, *others)
        return f" {OPERATORS[instruction.op]} ".join(
            text if v in self.analysis.wide else f"({kind})({text})"
            for v, text in zip(instruction.values, operands, strict=True)
        )

    def load(self, number: int, row: int, column: int, further: str = "") -> str:
        """The text of a load, of an element `further` than the one that the instruction names."""
        instruction, vector = self.body.instructions[number], self.is_vector(number)
        kind = f"{MEMORY[instruction.dtype]}{'q' if number in self.analysis.wide else ''}"
        guarded = instruction.c != NO_GUARD and instruction.c not in self.holding
        if not vector:
            guard = f", {self.value(instruction.c, row, column, False)}" if guarded else ""
            return f"load_{kind}(p{instruction.a}, {self.value(instruction.b, row, column, False)}{further}{guard})"
        stride = self.strides[instruction.b]
        lanes = guarded and (stride != 1 or self.is_vector(instruction.c))
        guard = f", {self.value(instruction.c, row, column, lanes)}" if guarded else ""
        element = self.value(instruction.b, row, column, stride is None) + further
        if stride == 0 and number not in self.analysis.wide:
            kind_of_all = register(instruction.dtype, True)
            if not lanes:
                return f"(({kind_of_all})(load_{kind}(p{instruction.a}, {element}{guard})))"
            read = f"load_{kind}(p{instruction.a}, {element}, some({guard[2:]}))"
            return f"choose({guard[2:]}, ({kind_of_all})({read}), ({kind_of_all})0)"
        if stride is None:
            return f"gather_{kind}(p{instruction.a}, {element}{guard})"
        if self.beside(number):
            return f"row_{kind}(p{instruction.a}, {element}{guard})"
        return f"stride_{kind}(p{instruction.a}, {element}, {stride}{guard})"
