"""The text of reductions: loops over steps in the program's order, values packed for them, reads that are turned."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from math import prod

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Instruction
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.runtime.bodies.expressions import MEMORY, STEP, Text, apply, identity, register
from eigentensor.runtime.cpu.tile import Tile

STREAM = 1 << 22  #: bytes of a tensor that caches are not taken to hold
NEAR = 3 << 15  #: bytes that a core's own cache holds until the next tile reads them
STEADY = 16  #: steps of a loop that is written once more, for where all its guards hold
UNROLLED = 1000  #: values of loops that are written out one step after the other


class Reductions:
    """Writes the reductions of a tile.

    Loops over several ranges become one if everything in a step is packed or read with one stride. What lies side by
    side along the innermost loop but not along the lanes is read in squares of LANES × LANES and turned.
    """

    def __init__(self, text: Text, tile: Tile) -> None:
        self.text = text
        self.tile = tile
        self.body = tile.body
        self.analysis = tile.analysis
        self.schedule = tile.schedule
        self.packed = tile.schedule.packed
        self.turned: list[int] = []  # the loads whose squares have been read where text is being written
        self.idle: int | None = None  # the guard without which steps of the sum that is being written change nothing
        self.flat: tuple[int, ...] = ()  # the loops for which one, over k, stands there

    @property
    def only(self) -> int:
        """The one reduction of a body that is run in panels."""
        return next(n for n, i in enumerate(self.body.instructions) if i.op in REDUCTIONS)

    def reduce(self, number: int) -> None:
        """Accumulators of a tile, and the loops that fill them; in panels, go on where the panel before has ended."""
        reduction = self.body.instructions[number]
        kind = register(reduction.dtype, self.tile.is_vector(number))
        start = f"({kind})({identity(reduction.op, reduction.dtype)})"
        for place, (row, column) in enumerate(self.tile.copies(number)):
            before = f"from ? keep[{self._slot(place)}] : {start}" if self.schedule.panel else start
            self.text.line(f"{kind} {self.tile.name(number, row, column)} = {before};")
        inside = self.analysis.needed(
            [v for v in reduction.values if self.analysis.scopes[v] is not None], stop=self.packed
        )
        self.idle = self._guard_of_all(reduction)
        self.nest(self.analysis.ranges_of(reduction.c), inside, lambda: self._step(number, reduction))
        self.idle = None

    def _guard_of_all(self, reduction: Instruction) -> int | None:
        """The guard without which each step of a sum adds the same +0: then one step is as good as all."""
        factors = [self.body.instructions[v] for v in reduction.values]
        guards = {i.c if i.op is Op.LOAD else NO_GUARD for i in factors}
        is_sum = reduction.op in (Op.REDUCE_ADD, Op.REDUCE_MULACC)
        return guards.pop() if is_sum and len(guards) == 1 and NO_GUARD not in guards else None

    def _step(self, number: int, reduction: Instruction) -> None:
        vector = self.tile.is_vector(number)
        for row, column in self.tile.copies(number):
            terms = [self.tile.value(v, row, column, vector) for v in reduction.values]
            total = self.tile.name(number, row, column)
            operands = [*terms, total] if reduction.op is Op.REDUCE_MULACC else [total, *terms]
            operation = apply(STEP[reduction.op], reduction.dtype, reduction.dtype, operands, vector)
            self.text.line(f"{total} = {operation};")

    # Accumulators that wait in memory between panels

    @property
    def _innermost_tiles(self) -> tuple[int | None, int]:
        """The axis of the loop in panels, and by how much it moves."""
        s = self.schedule
        return (s.vector, s.lanes * s.columns) if s.row is None else (s.row, s.rows)

    def _slot(self, place: int) -> str:
        axis, step = self._innermost_tiles
        return f"(t{axis} - b{axis}) / {step} * {self.schedule.rows * self.schedule.columns} + {place}"

    def keep(self, extent: int) -> None:
        """Memory for the accumulators of so much of the axis."""
        kind = register(self.body.instructions[self.only].dtype, self.tile.is_vector(self.only))
        tiles = -(-extent // self._innermost_tiles[1])
        self.text.line(f"{kind} keep[{tiles * self.schedule.rows * self.schedule.columns}];")

    def save(self) -> None:
        """Accumulators written where the next panel finds them."""
        for place, (row, column) in enumerate(self.tile.copies(self.only)):
            self.text.line(f"keep[{self._slot(place)}] = {self.tile.name(self.only, row, column)};")

    # Loops

    def _bounds(self, loop: int) -> tuple[str, str]:
        if self.schedule.panel and loop == self.analysis.outputs:
            return "from", "to"
        extent = self.body.reduce_ranges[loop - self.analysis.outputs].extent
        return "0", self.tile.value(extent, 0, 0, False)

    def nest(self, ranges: tuple[int, ...], inside: list[int], finish: Callable[[], None]) -> None:
        """The loops of a reduction, each value in the outermost that it depends on, then `finish` in the innermost."""
        if len(ranges) > 1 and self.is_flat(ranges, inside):
            self._as_one(ranges, inside, finish)
            return
        head, *rest = ranges
        low, high = self._bounds(head)
        self._unroll(ranges, inside)
        if not rest:
            turned = [n for n in inside if self.is_turnable(n, (head,))]
            guards = self._steady_guards(head, inside)
            if guards:
                with self.text.block(f"if ({' && '.join(self._holds(guards, 'every'))})"):
                    self.tile.holding = guards
                    self._innermost(f"j{head}", low, high, inside, finish, turned)
                    self.tile.holding = frozenset()
                if guards == {self.idle}:
                    high = f"({' || '.join(self._holds(guards, 'some'))} ? {high} : {low} + 1)"
            with self.text.block("else") if guards else nullcontext():
                self._innermost(f"j{head}", low, high, inside, finish, turned)
            return
        with self.text.block(f"for (i64 j{head} = {low}; j{head} < {high}; j{head}++)"):
            for number in inside:
                if not self.analysis.depends[number].intersection(rest):
                    self.define(number)
            self.nest(tuple(rest), [n for n in inside if self.analysis.depends[n].intersection(rest)], finish)

    def _steady_guards(self, head: int, inside: list[int]) -> frozenset[int]:
        """The guards of a long loop's loads if none of them changes in it: most often all of them hold."""
        extent = self.analysis.constant(self.body.reduce_ranges[head - self.analysis.outputs].extent)
        loads = (self.body.instructions[n] for n in inside if n not in self.packed)
        guards = {i.c for i in loads if i.op is Op.LOAD and i.c != NO_GUARD}
        if (extent or 0) < STEADY or any(head in self.analysis.depends[guard] for guard in guards):
            return frozenset()
        return frozenset(guards)

    def _holds(self, guards: frozenset[int], where: str) -> Iterator[str]:
        """Conditions that guards hold in `every` lane, or in `some`, for each instance in a tile."""
        for guard in sorted(guards):
            is_vector = self.tile.is_vector(guard)
            for row, column in self.tile.copies(guard):
                name = self.tile.value(guard, row, column, is_vector)
                yield f"{where}({name})" if is_vector else name

    def _unroll(self, ranges: tuple[int, ...], inside: list[int]) -> None:
        """Has loops of few steps unrolled below others: how far bytes are shifted is then no variable."""
        extents = [self.analysis.constant(self.body.reduce_ranges[r - self.analysis.outputs].extent) for r in ranges]
        if ranges[0] == self.analysis.outputs or None in extents:
            return
        copies = sum(len(list(self.tile.copies(number))) for number in inside)
        if prod(extent or 0 for extent in extents) * copies <= UNROLLED and self.analysis.wide:
            self.text.line('_Pragma("clang loop unroll(full)")')

    def _innermost(
        self, counter: str, low: str, high: str, inside: list[int], finish: Callable[[], None], turned: list[int]
    ) -> None:
        if not turned:
            with self.text.block(f"for (i64 {counter} = {low}; {counter} < {high}; {counter}++)"):
                self._values(inside, finish)
            return
        # Squares of LANES steps, then the steps that are left one by one: their order is that of the program.
        with self.text.block(""):
            self.text.line(f"i64 at = {low};")
            with self.text.block(f"for (; at + LANES <= {high}; at += LANES)"):
                self.text.line(f"const i64 {counter} = at;")
                if not self.flat:
                    elements = self.analysis.needed([self.body.instructions[n].b for n in turned], stop=frozenset())
                    for number in sorted(set(elements).intersection(inside)):
                        self.define(number)
                for number in turned:
                    self._read_square(number)
                with self.text.block("for (i64 turn = 0; turn < LANES; turn++)"):
                    self.text.line(f"const i64 {counter} = at + turn;")
                    self.turned = turned
                    self._values(inside, finish)
                    self.turned = []
            with self.text.block(f"for (; at < {high}; at++)"):
                self.text.line(f"const i64 {counter} = at;")
                self._values(inside, finish)

    def _values(self, inside: list[int], finish: Callable[[], None]) -> None:
        for number in inside:
            if not self.flat or self.body.instructions[number].dtype is not DType.INDEX:
                self.define(number)
        finish()

    def define(self, number: int) -> None:
        """A variable for each instance of a value."""
        kind = self.tile.kind(number, self.tile.is_vector(number))
        for row, column in self.tile.copies(number):
            name = self.tile.name(number, row, column)
            self.text.line(f"const {kind} {name} = {self._source(number, row, column)};")

    def _source(self, number: int, row: int, column: int) -> str:
        instruction = self.body.instructions[number]
        if number in self.turned:
            return f"square_{self.tile.name(number, row, column)}[turn]"
        if number in self.packed:
            return f"{self._packed_at(number)} + {self.place(number, row, column)}]"
        if self.flat and instruction.op is Op.LOAD:
            step = f" + k * {self._flat_stride(number)}"
            return self.tile.load(number, row, column, step)
        return self.tile.expression(number, row, column)

    # Several loops as one

    def is_flat(self, ranges: tuple[int, ...], inside: list[int]) -> bool:
        """Whether every step reads what lies a constant number of elements behind what the step before has read."""
        if any(
            self.analysis.constant(self.body.reduce_ranges[r - self.analysis.outputs].extent) is None for r in ranges
        ):
            return False
        elements = {self.body.instructions[n].b for n in inside if self.body.instructions[n].op is Op.LOAD}
        inner = self.analysis.needed(list(elements & set(inside)), stop=frozenset()) if elements & set(inside) else []
        for number in inside:
            instruction = self.body.instructions[number]
            if number in self.packed:
                if self.analysis.loops_of(number) != ranges:
                    return False
            elif instruction.op is Op.LOAD:
                if instruction.c != NO_GUARD or not self.analysis.is_even(instruction.b, ranges):
                    return False
            elif instruction.dtype is DType.INDEX:
                if number not in inner:
                    return False
            elif any(self.body.instructions[v].dtype is DType.INDEX and v in inside for v in instruction.values):
                return False
        return True

    def _flat_stride(self, number: int) -> int:
        stride = self.analysis.strides(self.analysis.loops_of(number)[-1])[self.body.instructions[number].b]
        assert stride is not None  # `is_flat` has seen it
        return stride

    def _as_one(self, ranges: tuple[int, ...], inside: list[int], finish: Callable[[], None]) -> None:
        with self.text.block(""):
            for loop in ranges:
                self.text.line(f"const i64 j{loop} = {self._bounds(loop)[0]};")
            for number in inside:
                if self.body.instructions[number].dtype is DType.INDEX:
                    self.define(number)
            low, high = self._bounds(ranges[0])
            count = f"({high} - {low}) * {prod(self.analysis.extents[r] for r in ranges[1:])}"
            turned = [n for n in inside if self.is_turnable(n, ranges)]
            self.flat = ranges
            self._innermost("k", "0", count, inside, finish, turned)
            self.flat = ()

    # Squares

    def is_turnable(self, number: int, ranges: tuple[int, ...]) -> bool:
        """Whether a load's elements lie side by side from step to step, and a constant apart from lane to lane."""
        instruction = self.body.instructions[number]
        if instruction.op is not Op.LOAD or instruction.c != NO_GUARD or number in self.packed:
            return False
        if self.schedule.lanes == 1 or self.tile.strides[instruction.b] in (0, 1, None):
            return False
        if number in self.analysis.wide:
            return False
        return self.analysis.run(instruction.b, ranges) >= self.schedule.lanes

    def _read_square(self, number: int) -> None:
        instruction = self.body.instructions[number]
        kind, stride = register(instruction.dtype, True), self.tile.strides[instruction.b]
        assert stride is not None  # `is_turnable` has seen it
        for row, column in self.tile.copies(number):
            name = f"square_{self.tile.name(number, row, column)}"
            element = self.tile.value(instruction.b, row, column, False) + (" + at" if self.flat else "")
            self.text.line(f"{kind} {name}[LANES];")
            self.text.line(f"turn_{MEMORY[instruction.dtype]}(p{instruction.a}, {element}, {stride}, {name});")
            if self._is_stream(number):
                wide = self.schedule.lanes * self.schedule.columns
                begin = (wide - column * self.schedule.lanes) * stride + column * self.schedule.lanes**2
                ahead = f"{element} - at + {begin} + at * {wide}"
                self.text.line(f"ahead_{MEMORY[instruction.dtype]}(p{instruction.a}, {ahead}, LANES);")

    def _is_stream(self, number: int) -> bool:
        """Whether what the next tile reads lies behind what this one reads, as one run of memory: while squares of this
        one are read, that is fetched from its beginning to its end. Many short rows side by side no processor follows.
        """
        instruction, s = self.body.instructions[number], self.schedule
        parameter, stride = self.body.parameters[instruction.a], self.tile.strides[instruction.b]
        steps = prod(self.analysis.extents[r] for r in self.analysis.loops_of(instruction.b))
        around = {axis for axis, extent in enumerate(self.body.output_ranges) if extent > 1}
        is_large = parameter.elements * parameter.dtype.size >= STREAM
        is_near = s.lanes * s.columns * steps * parameter.dtype.size <= NEAR
        return is_large and is_near and s.row is None and not s.panel and stride == steps and around == {s.vector}

    # Packed values

    def _packed_at(self, number: int) -> str:
        position = "0"
        for r in (r for r in self.analysis.loops_of(number) if r not in self.flat):
            low = self._bounds(r)[0]
            position = f"({position} * {self.analysis.extents[r]} + j{r}{f' - {low}' if low != '0' else ''})"
        if self.flat:
            position = f"({position} * {prod(self.analysis.extents[r] for r in self.flat)} + k)"
        return f"pack{number}[{position} * {len(list(self.tile.copies(number)))}"

    def place(self, number: int, row: int, column: int) -> int:
        """Where an instance stands among those of its step."""
        return row * self.schedule.columns + column if self.schedule.row in self.analysis.depends[number] else column

    def pack(self, number: int) -> None:
        """An array of all instances of a value in all steps of a panel, and the loops that fill it."""
        kind, panel = self.tile.kind(number, True), self.schedule.panel
        ranges = self.analysis.loops_of(number)
        extents = [
            min(self.analysis.extents[r], panel if panel and r == self.analysis.outputs else self.analysis.extents[r])
            for r in ranges
        ]
        self.text.line(f"{kind} pack{number}[{prod(extents) * len(list(self.tile.copies(number)))}];")

        def keep() -> None:
            for row, column in self.tile.copies(number):
                place = f"{self._packed_at(number)} + {self.place(number, row, column)}]"
                self.text.line(f"{place} = {self.tile.name(number, row, column)};")

        # while the loops that pack are written, nothing is read from packs: they are not full yet
        packed, self.packed = self.packed, frozenset()
        self.nest(ranges, self.analysis.needed([number], stop=frozenset()), keep)
        self.packed = packed
