"""Programs whose parts do not fit together."""

from dataclasses import replace

from eigentensor.program import Buffer, Call, DType, Kind, Program, Result, Role, Variable, limits
from eigentensor.program.expression import Array, Axis, binary, const, counter, load, reduction, to_body
from eigentensor.program.ops import Op
from support.hostile.refusals import example, of_body, of_value, with_body, with_item
from support.programs.worked_examples import F32, INDEX, layer, session

LAYER, SESSION = layer().program, session().program
TWICE = replace(  # two calls of one body, the second on the result of the first
    of_value(load(Array("x", F32, 4), counter(Axis(0, 4))), Axis(0, 4)),
    calls=(Call(0, (0,)), Call(0, (1,))),
    results=(Result(Kind.OUTPUT, "output", 2, (4,)),),
)


def fill(shape: tuple[int, ...]) -> Program:
    return of_value(const(F32, 0), *(Axis(n, extent) for n, extent in enumerate(shape)))


def result(program: Program, **changes: object) -> Program:
    return with_item(program, "results", 0, **changes)


example("limits", "65 variables", replace(LAYER, variables=tuple(Variable(f"v{n:02}", 0, 1) for n in range(65))))
example("limits", "1,025 results", replace(LAYER, results=LAYER.results * 1_025))
example("limits", "nine dimensions", result(LAYER, shape=(2, 4, 1, 1, 1, 1, 1, 1, 1)))
example("limits", "an input of more than 2³² elements", with_item(LAYER, "buffers", 0, shape=(1 << 31, 3)))
example("limits", "a result of more than 2³² elements", result(LAYER, shape=(1 << 31, 3)))
EMPTY = (0, (1 << 32) - 1, (1 << 32) - 1)
example("limits", "an empty result that no array can have the shape of", result(fill((0,)), shape=EMPTY))
example("limits", "an empty input of such a shape", with_item(LAYER, "buffers", 0, shape=EMPTY))
example("limits", "loops that are never entered, of such extents", fill(EMPTY))
example("limits", "no iteration", replace(LAYER, max_repeat=0))
example("limits", "a repeat beyond the limit", replace(LAYER, max_repeat=limits.REPEAT + 1))
example(
    "limits", "a repeat that executes too many calls", replace(TWICE, calls=TWICE.calls * 9, max_repeat=limits.REPEAT)
)
LARGE = Buffer(Role.CONSTANT, F32, (4096,), data=bytes(16 << 10))
example("limits", "a constant larger than a record", replace(LAYER, buffers=(*LAYER.buffers, LARGE)))

for name, why in (
    ("", "empty"), ("a/b", "a path"), ("a\nb", "a line break"), ("a\x00", "a zero byte"), ("e\u0301", "decomposed"),
    ("a\u202eb", "a change of direction"), ("a\u00a0b", "a space that is none"), ("x" * 129, "too long"),
    ("\U0001fae8", "a character newer than the format's Unicode"), ("é" * 65, "too long in bytes"),
):  # fmt: skip
    example("names", f"an output whose name is {why}", result(LAYER, name=name))
    example("names", f"an input whose name is {why}", with_item(LAYER, "buffers", 0, name=name))
    example("names", f"a variable whose name is {why}", with_item(SESSION, "variables", 0, name=name))

two = (Variable("a", 0, 3), Variable("b", 0, 3))
example("variables", "variables out of order", replace(LAYER, variables=two[::-1]))
example("variables", "a variable twice", replace(LAYER, variables=(two[0], two[0])))
example("variables", "a variable without values", with_item(SESSION, "variables", 0, minimum=4))

x, b, w = LAYER.buffers
example("buffers", "weights out of order", replace(LAYER, buffers=(x, w, b)))
example("buffers", "a weight before an input", replace(LAYER, buffers=(b, x, w)))
example("buffers", "an input and a weight of one name", with_item(LAYER, "buffers", 1, name="x"))
example("buffers", "two inputs of one name", replace(LAYER, buffers=(x, x, b, w)))
example("buffers", "an input with data", with_item(LAYER, "buffers", 0, data=b"\0" * 24))
example("buffers", "a buffer of indices", with_item(LAYER, "buffers", 0, dtype=INDEX))
example("buffers", "a constant with a name", with_item(SESSION, "buffers", 2, name="offsets"))
example("buffers", "a constant with an element missing", with_item(SESSION, "buffers", 2, data=bytes(8)))
example("buffers", "a bool of 2", with_item(SESSION, "buffers", 2, dtype=DType.BOOL, shape=(1,), data=b"\2"))
example("buffers", "a constant twice", replace(SESSION, buffers=(*SESSION.buffers, SESSION.buffers[2])))

example("calls", "a variable that is not there", with_item(SESSION, "calls", 0, variables=(1,)))

example("before", "a call that reads its own result", with_item(TWICE, "calls", 1, arguments=(2,)))
example("before", "two calls that read each other's results", with_item(TWICE, "calls", 0, arguments=(2,)))
example("before", "a call that reads what is written later", with_item(LAYER, "calls", 0, arguments=(0, 4)))
example("before", "a call that reads what nothing writes", with_item(LAYER, "calls", 0, arguments=(0, 9)))

example("arguments", "an argument of another dtype", with_item(LAYER, "buffers", 0, dtype=DType.INT32))
example("arguments", "an argument with an element missing", with_item(LAYER, "buffers", 0, shape=(5,)))
example("arguments", "a variable of other bounds", with_item(SESSION, "variables", 0, maximum=4))

example("results", "no result", replace(LAYER, results=()))
example("results", "an input as output", result(LAYER, buffer=0, shape=(2, 3)))
example("results", "an output that nothing writes", result(LAYER, buffer=99))
example("results", "an output of another size", result(LAYER, shape=(9,)))
example("results", "a state before an output", replace(SESSION, results=SESSION.results[::-1]))
example("results", "one name written twice (a buffer cannot be: a call writes the buffer of its own number)",
        replace(TWICE, results=(*TWICE.results, TWICE.results[0]._replace(buffer=1))))  # fmt: skip

example("states", "a state that does not come out", replace(SESSION, results=SESSION.results[:1]))
example("states", "a new state of no state", with_item(SESSION, "results", 1, name="other"))
example("states", "a state that comes out in another shape", with_item(SESSION, "results", 1, shape=(2, 2)))

spare = fill((4,)).bodies[0]
example("used", "a body that no call uses", replace(LAYER, bodies=(*LAYER.bodies, spare)))
example("used", "a body twice", replace(TWICE, bodies=TWICE.bodies * 2, calls=(Call(0, (0,)), Call(1, (1,)))))
renumbered = tuple(call._replace(body=1 - call.body) for call in LAYER.calls)
exchanged = replace(LAYER, bodies=LAYER.bodies[::-1], calls=renumbered)
example("used", "bodies in another order than they are called", exchanged)
example("used", "a weight that no call reads",
        replace(TWICE, buffers=(*TWICE.buffers, Buffer(Role.WEIGHT, F32, (1,), "w")),
                calls=(Call(0, (0,)), Call(0, (2,))), results=(Result(Kind.OUTPUT, "output", 3, (4,)),)))  # fmt: skip
example("used", "a result of a call that nothing reads", result(TWICE, buffer=1))

one, another = (Buffer(Role.CONSTANT, F32, (4,), data=bytes([n]) * 16) for n in (1, 2))
sums = to_body(binary(Op.ADD, *(load(Array(n, F32, 4), counter(Axis(0, 4))) for n in "ab")), (Axis(0, 4),)).body
constants = replace(of_body(sums), buffers=(one, another))
example("used", "constants in another order than they are read", with_item(constants, "calls", 0, arguments=(1, 0)))
example("used", "a constant that no call reads", with_item(constants, "calls", 0, arguments=(0, 0)))

wide = fill((1 << 16, 1 << 16))
example("work", "calls that write 2⁴⁰ elements and more",
        replace(wide, calls=wide.calls * 257,
                results=tuple(Result(Kind.OUTPUT, f"o{n:03}", n, (1 << 16, 1 << 16)) for n in range(257))))  # fmt: skip
LOOP = Axis(9, (1 << 31) - 1, True)
DEEP = reduction(Op.REDUCE_ADD, (LOOP,), binary(Op.ADD, load(Array("x", F32, 1), const(INDEX, 0)), const(F32, 1)))
example("work", "a loop of 2⁶² steps and more", of_value(DEEP, Axis(0, 1 << 31)))
example("work", "an output of 2³² elements that loops for ever", of_value(DEEP, Axis(0, 1 << 16), Axis(1, 1 << 16)))
example("store", "a body that writes another number of elements", with_body(LAYER, 1, output_ranges=(2, 5)))
