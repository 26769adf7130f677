"""A body as the kernel that tinygrad's scheduler would hand to its code generation."""

from math import prod
from typing import Any

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import AxisType, KernelInfo, Ops, UOp

from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import widen
from eigentensor.numerics.operations import from_pattern, identity
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.program.structure import cone
from eigentensor.runtime.bodies.part import Part
from support.oracles.guarded import floats
from support.oracles.guarded.arithmetic import apply, stored, unbounded, value, wrapped
from support.oracles.guarded.uops import (
    REGISTER,
    STORED,
    cast,
    differ,
    float32,
    integer,
    larger,
    like,
    smaller,
    uop,
    where,
)

NAME = "body"


def lower(body: Body) -> Any:
    """The SINK of a body whose result has elements. Buffers are parameters by number, variables are named by theirs."""
    return _Lowering(body).sink()


class _Lowering:
    def __init__(self, body: Body) -> None:
        self.body = body
        self.values: dict[int, Any] = {}
        self.outputs = [
            UOp.range(extent, number, AxisType.WEAK) if extent > 1 else None
            for number, extent in enumerate(body.output_ranges)
        ]
        self.parameters = [
            UOp.param(number, STORED[p.dtype], (max(1, p.elements),)) for number, p in enumerate(body.parameters)
        ]
        # trip counts may stand behind the counters that need them, but need nothing but constants and variables
        for number in cone(body, [r.extent for r in body.reduce_ranges]):
            self.values[number] = self.value(body.instructions[number])
        self.steps = [self.loop(number) for number in range(len(body.reduce_ranges))]

    def loop(self, number: int) -> Any:
        """The loop of a reduce range; None if it makes exactly one step."""
        extent = self.values[self.body.reduce_ranges[number].extent].simplify()
        if extent.vmin == extent.vmax == 1:
            return None
        if (
            extent.vmax == 1
        ):  # tinygrad may write what stands before such a loop into it, where it may never be computed
            extent = unbounded(cast(extent, dtypes.int64))
        return UOp.range(extent, len(self.outputs) + number, AxisType.REDUCE)

    def sink(self) -> Any:
        for number, instruction in enumerate(self.body.instructions):
            if number not in self.values:
                self.values[number] = self.value(instruction)
        extents, place = self.body.output_ranges, integer(0, dtypes.weakint)
        for axis, counter in enumerate(self.outputs):
            if counter is not None:
                place = place + counter * prod(extents[axis + 1 :])
        if isinstance(self.body, Part):
            place = self.values[self.body.place]
        result = self.values[len(self.body.instructions) - 1]
        store = self.parameters[0].index(place).store(stored(self.body.parameters[0].dtype, result))
        return store.end(*(counter for counter in self.outputs if counter is not None)).sink(arg=KernelInfo(name=NAME))

    def value(self, instruction: Instruction) -> Any:
        op, dtype, a = instruction[:3]
        if op is Op.CONST:
            return self.constant(instruction)
        if op is Op.RANGE:
            counter = self.outputs[a] if a < len(self.outputs) else self.steps[a - len(self.outputs)]
            return integer(0, dtypes.weakint) if counter is None else counter
        if op is Op.VAR:
            bounds = self.body.variables[a]
            return UOp.variable(f"v{a}", bounds.minimum, bounds.maximum, param=True)
        operands = [self.values[v] for v in instruction.values]
        if op is Op.LOAD:
            return self.load(instruction)
        if op in REDUCTIONS:
            return self.reduce(instruction, operands)
        return apply(op, dtype, self.body.instructions[instruction.values[-1]].dtype, operands)

    def constant(self, instruction: Instruction) -> Any:
        dtype = instruction.dtype
        if not dtype.is_float:
            number = instruction.integer
            return integer(bool(number) if dtype is DType.BOOL else number, REGISTER[dtype])
        wide = widen(dtype, from_pattern(dtype, instruction.immediate).reshape(1))
        return float32(int(wide.view("u4")[0]))

    def load(self, instruction: Instruction) -> Any:
        dtype, place = instruction.dtype, self.values[instruction.b]
        if instruction.c != NO_GUARD:
            place = place.valid(self.values[instruction.c])
        if not self.body.parameters[instruction.a].elements:
            return value(dtype, integer(0, STORED[dtype]))  # its guard never holds
        element = self.parameters[instruction.a].index(place)
        if dtype in (DType.BOOL, DType.FLOAT32):
            return element
        return cast(element, REGISTER[dtype]) if dtype is not DType.BFLOAT16 else value(dtype, element)

    def reduce(self, instruction: Instruction, terms: list[Any]) -> Any:
        """A reduction of the three kinds that tinygrad has, on values that are ordered, or inverted, as needed."""
        op, dtype = instruction.op, instruction.dtype
        own = [n for n, r in enumerate(self.body.reduce_ranges) if r.reduction == instruction.c]
        loops = tuple(self.steps[n] for n in own if self.steps[n] is not None)
        if any(loop.vmax < 0 for loop in loops):
            return self.nothing(op, dtype)
        kind = {Op.REDUCE_ADD: Ops.ADD, Op.REDUCE_MUL: Ops.MUL}.get(op, Ops.MAX)
        if dtype is DType.BOOL:
            wanted = op in (Op.REDUCE_ADD, Op.REDUCE_MAX)  # any, or not any that is not
            number = where(terms[0], *(integer(n, dtypes.int32) for n in (int(wanted), int(not wanted))))
            result = larger(reduced(number, loops, Ops.MAX), integer(0, dtypes.int32))
            return differ(result, like(result, 0 if wanted else 1))
        if op is Op.REDUCE_MULACC:
            return reduced(uop(Ops.MULACC, *terms, float32(0)), loops, Ops.MULACC)
        if kind is not Ops.MAX:
            result = reduced(terms[0], loops, kind, dtype)
            return result if dtype.is_float else wrapped(dtype, result)
        return (self.of_floats if dtype.is_float else self.of_integers)(op, dtype, terms[0], loops)

    def of_floats(self, op: Op, dtype: DType, term: Any, loops: tuple[Any, ...]) -> Any:
        turned = term if op is Op.REDUCE_MAX else floats.negative(term)
        result = reduced(floats.key(turned), loops, Ops.MAX)
        best = floats.from_key(larger(result, like(result, floats.LOWEST_KEY)))
        return best if op is Op.REDUCE_MAX else floats.negative(best)

    def of_integers(self, op: Op, dtype: DType, term: Any, loops: tuple[Any, ...]) -> Any:
        width = 8 * dtype.size - dtype.is_signed
        if op is Op.REDUCE_MAX:
            result = reduced(term, loops, Ops.MAX)
            return larger(result, like(result, -(1 << width) if dtype.is_signed else 0))
        ones = like(term, -1 if term.dtype in dtypes.sints else (1 << 8 * term.dtype.itemsize) - 1)
        result = uop(Ops.XOR, reduced(uop(Ops.XOR, term, ones), loops, Ops.MAX), ones)
        return smaller(result, like(result, (1 << width) - 1))

    def nothing(self, op: Op, dtype: DType) -> Any:
        """A reduction without steps."""
        start = identity(op.name.removeprefix("REDUCE_"), dtype).reshape(1)
        if dtype.is_float:
            return float32(int(widen(dtype, start).view("u4")[0]))
        return integer(start[0].item(), REGISTER[dtype])


def reduced(term: Any, loops: tuple[Any, ...], kind: Any, rounded_to: DType = DType.FLOAT32) -> Any:
    """A REDUCE whose tag says to which half type each step is rounded, if to one."""
    half = rounded_to in (DType.FLOAT16, DType.BFLOAT16)
    return UOp(Ops.REDUCE, src=(term, *loops), arg=(kind, 0), tag=rounded_to if half else None)
