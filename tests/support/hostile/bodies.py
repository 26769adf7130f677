"""Bodies that are not canonical, not typed, not safe, or not to be judged."""

from eigentensor.program import Bounds, DType, Instruction, Parameter, Program, ReduceRange
from eigentensor.program.expression import (
    Array,
    Axis,
    Named,
    Node,
    binary,
    conjunction,
    const,
    counter,
    load,
    node,
    reduction,
)
from eigentensor.program.ops import Op
from support.hostile.refusals import example, of_value, with_body, with_instruction
from support.programs.worked_examples import F32, I32, INDEX, add, index, layer, less, mul, session

BOOL, I64, F16 = DType.BOOL, DType.INT64, DType.FLOAT16
LAYER, SESSION = layer().program, session().program
ROW, J, K = Axis(0, 4), Axis(1, 3), Axis(2, 5, True)
X, IDS = Array("x", F32, 4), Array("ids", I32, 4)
COPY = of_value(load(X, counter(ROW)), ROW)
SUM = of_value(reduction(Op.REDUCE_ADD, (K,), load(Array("x", F32, 5), counter(K))))


def loading(element: Node, guard: Node | None = None) -> Program:
    return of_value(load(X, element, guard), ROW)


def find(program: Program, op: Op) -> int:
    return next(n for n, i in enumerate(program.bodies[0].instructions) if i.op is op)


def of_instructions(*instructions: Instruction, **changes: object) -> Program:
    """A body with these instructions and one parameter of four floats to load from."""
    return with_body(COPY, 0, instructions=instructions, **changes)


RANGE, LOAD = Instruction(Op.RANGE, INDEX, 0), Instruction(Op.LOAD, F32, 1, 0, 0xFFFF)

example("limits", "33 parameters", with_body(COPY, 0, parameters=COPY.bodies[0].parameters * 17))
example("limits", "17 output ranges", with_body(COPY, 0, output_ranges=(4, *[1] * 16)))
example("limits", "17 reduce ranges", with_body(SUM, 0, reduce_ranges=(ReduceRange(0, 0),) * 17))
example("limits", "9 reductions", with_body(SUM, 0, reduce_ranges=tuple(ReduceRange(0, n) for n in range(9))))
example("limits", "9 variables", with_body(COPY, 0, variables=(Bounds(0, 1),) * 9))
example("limits", "1,537 instructions", with_body(COPY, 0, instructions=(RANGE,) * 1_537))
example(
    "limits", "a parameter of more than 2³² elements", with_body(COPY, 0, parameters=(Parameter(F32, 1 << 40),) * 2)
)

load_at = find(COPY, Op.LOAD)
example("operands", "a body without instructions", with_body(COPY, 0, instructions=()))
example("operands", "a value that depends on itself", with_instruction(COPY, load_at, b=load_at))
example("operands", "a value that depends on a later one", with_instruction(COPY, 0, op=Op.TRUNC, dtype=F32, a=1))
example("operands", "two values that depend on each other",
        of_instructions(Instruction(Op.TRUNC, F32, 1), Instruction(Op.TRUNC, F32, 0)))  # fmt: skip
example("operands", "a load of what the body itself writes", with_instruction(COPY, load_at, a=0))
example("operands", "a load of a parameter that is not there", with_instruction(COPY, load_at, a=2))
example("operands", "a guard that is not there", with_instruction(COPY, load_at, c=7))
example("operands", "a range that is not there", with_instruction(COPY, 0, a=1))
example("operands", "a variable that the body has not", with_instruction(COPY, 0, op=Op.VAR))
example("operands", "an unused operand", with_instruction(COPY, 0, b=1))
example("operands", "an unused operand of a constant", with_instruction(COPY, 0, op=Op.CONST, a=1))
example("operands", "a reduction that is not there", with_instruction(SUM, find(SUM, Op.REDUCE_ADD), c=1))
example("operands", "an extent that is computed after its loop", with_body(SUM, 0, reduce_ranges=(ReduceRange(3, 0),)))

value = load(X, counter(ROW))
example("types", "a float added to an integer", of_value(node(Op.ADD, F32, value, const(I32, 1)), ROW))
example("types", "bits of a float", of_value(node(Op.AND, F32, value, value), ROW))
example("types", "a difference of bools", of_value(node(Op.SUB, BOOL, const(BOOL, 1), const(BOOL, 0)), ROW))
example("types", "a division of integers by DIV", of_value(node(Op.DIV, I32, const(I32, 1), const(I32, 2)), ROW))
example("types", "a fused multiply-add of halves", of_value(node(Op.MULACC, F16, *[const(F16, 0)] * 3), ROW))
example("types", "a comparison that is no bool", of_value(node(Op.CMPLT, F32, value, value), ROW))
example("types", "a choice by a float", of_value(node(Op.WHERE, F32, value, value, value), ROW))
example("types", "a bit cast to another width", of_value(node(Op.BITCAST, I64, value), ROW))
example("types", "a bit cast to a bool", of_value(node(Op.BITCAST, BOOL, const(DType.UINT8, 3)), ROW))
example("types", "an index out of a float", loading(node(Op.CAST, INDEX, value)))
example("types", "an integer as an element number", loading(const(I32, 0)))
example("types", "a guard that is no bool", loading(counter(ROW), counter(ROW)))
example("types", "a stored index", of_value(counter(ROW), ROW))
example(
    "types", "a reduction of indices", of_value(node(Op.CAST, I32, reduction(Op.REDUCE_ADD, (K,), counter(K))), ROW)
)
example("types", "a load of another dtype than the buffer's", with_instruction(COPY, load_at, dtype=I32))
example(
    "types",
    "a result of another dtype than is stored",
    with_body(COPY, 0, parameters=(Parameter(I32, 4), Parameter(F32, 4))),
)
example("types", "a loop whose extent is no index",
        of_value(node(Op.REDUCE_ADD, F32, const(I32, 5), const(F32, 0), arg=(K,)), ROW))  # fmt: skip

for dtype, bits in ((F32, 0x7FC00001), (F32, 0xFFC00000), (F16, 0x7E01), (DType.BFLOAT16, 0xFFC0), (BOOL, 2)):
    example("constants", f"{bits:#x} as {dtype.name.lower()}", of_instructions(
        Instruction(Op.CONST, dtype, 0, bits & 0xFFFF, bits >> 16), parameters=(Parameter(dtype, 4),)))  # fmt: skip
example("constants", "bits beyond an int8", of_instructions(
    Instruction(Op.CONST, DType.INT8, 0, 0xFFFF, 0), parameters=(Parameter(DType.INT8, 4),)))  # fmt: skip

example("store", "elements that are written twice", with_body(COPY, 0, output_ranges=(5,)))
example(
    "store", "an element that is never written, and holds what was there before", with_body(COPY, 0, output_ranges=(3,))
)
example("store", "elements beyond a loop of none", with_body(COPY, 0, output_ranges=(0,)))

example("distinct", "an instruction twice", of_instructions(RANGE, RANGE, Instruction(Op.LOAD, F32, 1, 1, 0xFFFF)))
example(
    "order", "an instruction that nothing needs", of_instructions(Instruction(Op.CONST, F32), RANGE, LOAD._replace(b=1))
)
example("order", "an instruction after the stored value", of_instructions(RANGE, LOAD, Instruction(Op.CONST, F32)))
example("order", "operands in another order", of_value(add(const(F32, 1), const(F32, 2)), ROW) and of_instructions(
    Instruction(Op.CONST, F32, 0, 2), Instruction(Op.CONST, F32, 0, 1), Instruction(Op.ADD, F32, 1, 0),
    parameters=(Parameter(F32, 4),)))  # fmt: skip

pair = of_value(binary(Op.ADD, load(X, counter(ROW)), load(Array("y", F32, 4), counter(ROW))), ROW)
first, second = (n for n, i in enumerate(pair.bodies[0].instructions) if i.op is Op.LOAD)
swapped = with_instruction(with_instruction(pair, first, a=2), second, a=1)
example("numbering", "parameters in another order than they are used", swapped)
example("numbering", "a parameter that is not used", with_body(COPY, 0, parameters=(Parameter(F32, 4),) * 3))
example("numbering", "a variable that is not used", with_body(COPY, 0, variables=(Bounds(0, 3),)))
example("numbering", "a variable of a body without values", with_body(SESSION, 0, variables=(Bounds(3, 0),)))
example(
    "numbering", "a reduction that is not used", with_body(SUM, 0, reduce_ranges=(ReduceRange(0, 0), ReduceRange(0, 1)))
)
example("numbering", "reductions whose ranges are mixed",
        with_body(SUM, 0, reduce_ranges=tuple(ReduceRange(0, k) for k in (0, 1, 0))))  # fmt: skip

POS = node(Op.VAR, INDEX, arg=Named("pos", Bounds(-1, 3)))
ZERO = const(F32, 0)
example("extents", "a loop of minus one step", of_value(reduction(Op.REDUCE_ADD, (K,), ZERO, extents=(POS,)), ROW))
loaded = node(Op.CAST, INDEX, load(IDS, index(0)))
example(
    "extents", "a loop as long as an input says", of_value(reduction(Op.REDUCE_ADD, (K,), ZERO, extents=(loaded,)), ROW)
)
example(
    "extents", "a loop as long as another", of_value(reduction(Op.REDUCE_ADD, (K,), ZERO, extents=(counter(ROW),)), ROW)
)

example(
    "single-steps", "a counter of one step", with_body(COPY, 0, output_ranges=(1,), parameters=(Parameter(F32, 1),) * 2)
)
example("single-steps", "a reduction of one step", of_value(node(Op.REDUCE_ADD, F32, index(1), ZERO, arg=(K,)), ROW))

OUTER, INNER = Axis(5, 3, True), Axis(6, 4, True)
inner = reduction(
    Op.REDUCE_ADD, (INNER,), load(Array("m", F32, 12), add(mul(counter(OUTER), index(4)), counter(INNER)))
)
example("nesting", "a reduction inside a reduction", of_value(reduction(Op.REDUCE_MAX, (OUTER,), inner)))
example("nesting", "a range of a reduction outside of it",
        of_value(add(reduction(Op.REDUCE_ADD, (K,), ZERO), node(Op.CAST, F32, counter(K)))))  # fmt: skip

own = counter(K)
example(
    "nesting",
    "a range of a reduction before it",
    of_value(add(node(Op.CAST, F32, own), reduction(Op.REDUCE_ADD, (K,), ZERO))),
)
example("extents", "a loop as long as its own counter", of_value(reduction(Op.REDUCE_ADD, (K,), ZERO, extents=(own,))))

example("index", "an index of 2⁶³", loading(mul(mul(index(1 << 30), index(1 << 30)), index(8)), const(BOOL, 0)))
example(
    "index",
    "an index out of any int64",
    loading(node(Op.CAST, INDEX, load(Array("ids", I64, 4), index(0))), const(BOOL, 0)),
)

i = counter(ROW)
example("bounds", "one element after the end", loading(add(i, index(1))))
example("bounds", "one element before the beginning", loading(add(i, index(-1))))
example("bounds", "every second element", loading(mul(i, index(2))))
example("bounds", "a tensor without elements", of_value(load(Array("x", F32, 0), i), ROW))
example("bounds", "a gather that trusts its indices", loading(node(Op.CAST, INDEX, load(IDS, i))))
shifted = add(i, index(-2))
example("bounds", "a guard of one side only", loading(shifted, less(shifted, index(4))))
example("bounds", "a guard that is off by one", loading(shifted, less(index(-2), shifted)))
example(
    "bounds",
    "a guard on something else",
    of_value(load(X, shifted, less(index(1), counter(J))), ROW, J),
)
example("bounds", "either of two guards", loading(shifted, binary(Op.OR, less(index(1), i), less(i, index(1)))))
not_inside = binary(Op.CMPNE, conjunction(less(index(1), i), less(i, index(9))), const(BOOL, 1))
example("bounds", "a guard that is negated", loading(shifted, not_inside))
ids = load(IDS, i)
wrapped = node(Op.ADD, I32, ids, const(I32, 1))
upwards = conjunction(less(const(I32, 0), ids), less(wrapped, const(I32, 4)))
example("bounds", "a guard that an integer escapes by wrapping around", loading(node(Op.CAST, INDEX, wrapped), upwards))
example("bounds", "a remainder by a divisor that may be zero", loading(
    binary(Op.FLOORMOD, node(Op.CAST, INDEX, ids), node(Op.CAST, INDEX, load(Array("n", I32, 4), i)))))  # fmt: skip
unsigned = node(Op.CAST, INDEX, node(Op.CAST, DType.UINT8, ids))
example("bounds", "a cast that wraps around", loading(unsigned, less(node(Op.CAST, INDEX, ids), index(4))))

BIG = Array("big", F32, 1 << 32)
terms = [load(BIG, add(i, index(n))) for n in range(40)]
total = terms[0]
for term in terms[1:]:
    total = add(total, term)
example("judgeable", "forty loads in one expression", of_value(total, ROW))
example("judgeable", "forty loads in one step of a reduction", of_value(reduction(Op.REDUCE_ADD, (K,), total), ROW))
