"""What a schedule must know of a body: the loops that values depend on, how indices move, how large they get."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from eigentensor.numerics.dtypes import DType
from eigentensor.program.intervals import Interval, transfer, whole
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import COMPARISONS, REDUCTIONS, Op
from eigentensor.runtime.bodies.part import Quads


@dataclass(frozen=True)
class Analysis:
    """Facts about a valid body. Ranges are numbered as in the body: output ranges, then reduce ranges."""

    body: Body

    @cached_property
    def outputs(self) -> int:
        """How many output ranges there are: the number of the first reduce range."""
        return len(self.body.output_ranges)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Largest trip count of each range."""
        return (*self.body.output_ranges, *(max(0, self.intervals[r.extent][1]) for r in self.body.reduce_ranges))

    @cached_property
    def depends(self) -> tuple[frozenset[int], ...]:
        """The ranges whose counters each value depends on; a reduction no longer depends on its own."""
        result: list[frozenset[int]] = []
        for instruction in self.body.instructions:
            if instruction.op is Op.RANGE:
                result.append(frozenset([instruction.a]))
                continue
            ranges = frozenset[int]().union(*(result[v] for v in instruction.values))
            result.append(ranges - set(self.ranges_of(instruction.c)) if instruction.op in REDUCTIONS else ranges)
        return tuple(result)

    def ranges_of(self, reduction: int) -> tuple[int, ...]:
        """The ranges over which a reduction takes its steps, the outermost first."""
        return tuple(self.outputs + i for i, r in enumerate(self.body.reduce_ranges) if r.reduction == reduction)

    def loops_of(self, number: int) -> tuple[int, ...]:
        """The reduce ranges that a value depends on, the outermost first."""
        return tuple(sorted(r for r in self.depends[number] if r >= self.outputs))

    @cached_property
    def scopes(self) -> tuple[int | None, ...]:
        """The reduction in whose steps each instruction is evaluated, None outside of all."""
        return tuple(
            next((self.body.reduce_ranges[r - self.outputs].reduction for r in ranges if r >= self.outputs), None)
            for ranges in self.depends
        )

    def needed(self, roots: list[int], stop: frozenset[int]) -> list[int]:
        """The values inside a reduction that the roots need, and the roots, in order; not what those of `stop` need."""
        values, stack = set(roots), [r for r in roots if r not in stop]
        while stack:
            for v in self.body.instructions[stack.pop()].values:
                if self.scopes[v] is not None and v not in values:
                    values.add(v)
                    if v not in stop:
                        stack.append(v)
        return sorted(values)

    @cached_property
    def wide(self) -> frozenset[int]:
        """The values that stand for four bytes each."""
        return self.body.wide if isinstance(self.body, Quads) else frozenset()

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """How often each instruction is evaluated for one element, at most."""
        return tuple(prod(self.extents[r] for r in ranges if r >= self.outputs) for ranges in self.depends)

    @cached_property
    def chooses_zeros(self) -> bool:
        """Whether a comparison of floats with a zero, and a choice of one, could be mistaken for a maximum or minimum.

        LLVM takes -0 for +0 in x < 0 ? -0 : x. A compiler may know any value for a zero that no memory goes into.
        """
        of, zeros = self.body.instructions, [False] * len(self.body.instructions)
        read = [False] * len(of)
        for n, i in enumerate(of):
            read[n] = i.op is Op.LOAD or any(read[v] for v in i.values)
            zeros[n] = (
                i.dtype.is_float
                and not read[n]
                and (i.op is not Op.CONST or not i.immediate << 1 & (1 << 8 * i.dtype.size) - 1)
            )
        compared = {v for i in of if i.op in COMPARISONS for v in i.values if zeros[v]}
        chosen = {v for i in of if i.op is Op.WHERE for v in i.values if zeros[v]}
        return bool(compared and chosen) and any(of[v].op is not Op.CONST or of[v].immediate for v in compared | chosen)

    def constant(self, number: int) -> int | None:
        """The value of an index or integer constant."""
        instruction = self.body.instructions[number]
        return None if instruction.op is not Op.CONST or instruction.dtype.is_float else instruction.integer

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """Bounds of index values; of other values what their type allows. Guards are not used."""
        result: list[Interval] = []
        for instruction in self.body.instructions:
            result.append(self._interval(instruction, [result[v] for v in instruction.values]))
        return tuple(result)

    def _interval(self, instruction: Instruction, of: list[Interval]) -> Interval:
        op, dtype = instruction.op, instruction.dtype
        if op is Op.CONST and not dtype.is_float:
            return instruction.integer, instruction.integer
        if dtype is not DType.INDEX:
            return whole(dtype)
        if op is Op.VAR:
            return self.body.variables[instruction.a]
        if op is Op.RANGE and instruction.a < self.outputs:
            return 0, max(0, self.body.output_ranges[instruction.a] - 1)
        if op is Op.RANGE:  # its extent stands below the reduction, perhaps after this instruction
            return 0, max(0, self._extent(self.body.reduce_ranges[instruction.a - self.outputs].extent) - 1)
        return transfer(op, dtype, *of)

    def _extent(self, number: int) -> int:
        """Upper bound of an extent: index values made of constants and variables only."""
        seen: dict[int, Interval] = {}
        stack = [number]
        while stack:
            missing = [v for v in self.body.instructions[stack[-1]].values if v not in seen]
            if missing:
                stack.extend(missing)
                continue
            top = stack.pop()
            part = self.body.instructions[top]
            seen[top] = self._interval(part, [seen[v] for v in part.values])
        return seen[number][1]

    def strides(self, axis: int) -> tuple[int | None, ...]:
        """By how much each index value grows with the counter of an axis; None if not by a constant, or if the value
        depends on the axis and is no index."""
        if axis not in self._strides:
            self._strides[axis] = self._strides_along(axis)
        return self._strides[axis]

    @cached_property
    def _strides(self) -> dict[int, tuple[int | None, ...]]:
        return {}

    def _strides_along(self, axis: int) -> tuple[int | None, ...]:
        result: list[int | None] = []
        for instruction, depends in zip(self.body.instructions, self.depends, strict=True):
            if axis not in depends:
                result.append(0)
            elif instruction.dtype is not DType.INDEX:
                result.append(None)
            else:
                result.append(self._stride(instruction, [result[v] for v in instruction.values]))
        return tuple(result)

    def _stride(self, instruction: Instruction, of: list[int | None]) -> int | None:
        if instruction.op is Op.RANGE:
            return 1
        if len(of) < 2 or of[0] is None or of[1] is None:
            return None
        first, second = of[0], of[1]
        factor = self.constant(instruction.b)
        match instruction.op:
            case Op.ADD:
                return first + second
            case Op.SUB:
                return first - second
            case Op.MUL:
                other = self.constant(instruction.a)
                return first * factor if factor is not None else second * other if other is not None else None
            case Op.FLOORDIV if factor and first % factor == 0:
                return first // factor
            case Op.FLOORMOD if factor and first % factor == 0:
                return 0
        return None

    def origin(self, number: int) -> int | None:
        """The index value where every counter is 0; None if a variable or anything but index values goes into it."""
        instruction = self.body.instructions[number]
        if instruction.op is Op.RANGE:
            return 0
        if instruction.op is Op.CONST or instruction.dtype is not DType.INDEX:
            return self.constant(number)
        of = [self.origin(v) for v in instruction.values]
        if instruction.op is Op.VAR or None in of:
            return None
        return transfer(instruction.op, instruction.dtype, *((v, v) for v in of if v is not None))[0]

    def is_even(self, element: int, ranges: tuple[int, ...]) -> bool:
        """Whether an index grows by a constant from step to step of nested loops, also where an outer one moves."""
        strides = [self.strides(r)[element] for r in ranges]
        sizes = [prod(self.extents[r] for r in ranges[i + 1 :]) for i in range(len(ranges))]
        last = strides[-1]
        return last is not None and strides == [last * size for size in sizes]

    def run(self, element: int, ranges: tuple[int, ...]) -> int:
        """For how many steps of nested loops an index grows by one."""
        inner = (i for i in range(len(ranges)) if self.is_even(element, ranges[i:]))
        if not ranges or self.strides(ranges[-1])[element] != 1:
            return 0
        return prod(self.extents[r] for r in ranges[next(inner) :])
