"""What a dispute costs on a local chain under current rules: transactions, gas and seconds.

    scripts/bench dispute [--gas | --seconds]    of programs made for it, move by move; of two models

Gas is that of whole transactions. Seconds begin with the challenge: both players execute the program again with its
trace, in this process, and play by what they read from the chain.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np

from eigentensor.chain import anvil_account
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, reduction, to_body
from eigentensor.program.model import Buffer, Kind, Role
from eigentensor.program.ops import Op
from eigentensor.runtime import execute
from eigentensor.tracing import Execution, Flat, retrace
from eigentensor_local.anvil import local_network
from support.bench.pairs import say
from support.generated.programs import Example
from support.programs import models
from support.stories.game_table import OPERATORS, Case, Table, laid
from support.stories.games import informed
from support.stories.liars import Fault, Liar
from support.stories.planted import Plant, Played, Subject

F32, INDEX = DType.FLOAT32, DType.INDEX
ROWS, TERMS = 1024, 4096
WIDTHS = (30, 4)
#: The wrong bit of an element in the middle of a model: of its exponent, so that it is not lost on the way.
BIT = 30


# Gas


def program(calls: int) -> Example:
    """A product of 2^20 elements with 4,096 terms each amid so many calls; a sum with a row of its own at the end."""
    i, j, k = Axis(0, ROWS), Axis(1, ROWS), Axis(2, TERMS, is_reduce=True)

    def at(of: Array, row: Axis, width: int, column: Axis) -> Node:
        return load(of, binary(Op.ADD, binary(Op.MUL, counter(row), const(INDEX, width)), counter(column)))

    x, w, y = (Array(name, F32, size) for name, size in (("x", ROWS * TERMS), ("w", TERMS * ROWS), ("y", ROWS * ROWS)))
    step = [Array(("step", n), F32, 1) for n in range(calls - 2)]
    one = const(INDEX, 0)
    made = [
        (later.key, to_body(binary(Op.ADD, load(before, one), const(F32, 0x3F800000)), ()))
        for before, later in zip([Array("start", F32, 1), *step], step, strict=False)
    ]
    product = reduction(Op.REDUCE_MULACC, (k,), at(x, i, TERMS, k), at(w, k, ROWS, j))
    made.insert(len(made) // 2, (y.key, to_body(product, (i, j))))
    row = binary(Op.ADD, at(y, i, ROWS, j), load(Array("b", F32, ROWS), counter(j)))
    made.append(("z", to_body(row, (i, j))))
    shapes = {"x": (ROWS, TERMS), "w": (TERMS, ROWS), "b": (ROWS,), "start": ()}
    buffers = {name: Buffer(Role.INPUT, F32, shape, name) for name, shape in shapes.items()}
    results = {(Kind.OUTPUT, "z"): ("z", (ROWS, ROWS)), (Kind.OUTPUT, "steps"): (step[-1].key, ())}
    random = np.random.default_rng(5)
    tensors = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return Example(assemble(made, buffers, results), tensors, {}, 1)


def cases(calls: int) -> Iterator[tuple[str, Case]]:
    """A wrong step of the product, and a wrong sum, of which one tensor is known to be the executor's."""
    made = program(calls)
    middle, last = (calls - 2) // 2, calls - 1
    true = retrace(made.program, made.tensors, keep={middle, last}, execute=execute)
    step = Liar(true, made.tensors, Fault(middle, 700_700, 30, 0, 1_234), execute)
    total = Liar(true, made.tensors, Fault(last, 700_700, 20), execute)
    number = f"{calls:,} calls"
    yield f"a step of 4,096; {number}", of(true, step)
    yield f"a step of 4,096, tensor public; {number}", of(true, step, knows=middle)
    yield f"a sum of two; {number}", of(true, total)
    yield f"a sum of two, tensor public; {number}", of(true, total, knows=last)


def of(true: Execution, liar: Liar, knows: int | None = None) -> Case:
    """A challenger that knows one of the executor's tensors, or none."""
    claimed = {} if knows is None else {knows: Flat(F32, liar.account.kept[knows])}
    return Case(true, liar.account.outputs, liar.next_move, informed(claimed))


def gas(table: Table, calls: int) -> None:
    for name, case in cases(calls):
        (order,) = table.revealed([case])
        course = table.dispute(case, order)
        assert course.outcome is not None and course.outcome.executor_lost
        say(name, "gas", "calldata", widths=(46,))
        for sent in course.sent:
            say(f"  {sent.side.name[0]} {sent.function}", f"{sent.gas:,}", f"{sent.size:,}", widths=(46,))
        say(f"  {len(course.sent)} transactions", f"{course.gas:,}", widths=(46,))


# Seconds


def seconds(table: Table, model: models.Model) -> None:
    """One flipped bit in the middle, from the challenge to the conviction."""
    graph = model.captured()
    program = graph.program
    subject = Subject.of(program, {**graph.weights, **graph.states, **model.inputs})
    number = len(program.calls) // 2
    elements = program.parameter(len(program.buffers) + number).elements
    course = subject.played(table, Plant(number, elements // 2, BIT))
    assert course is not None and course.convicted
    told(model.name, course)


def language(table: Table, tokens: int = 64) -> None:
    """Flipped bits anywhere while a model of Gemma 3 270M's shape writes, until one shows in what it wrote."""
    model = models.gemma_step(context=2 * tokens)
    graph = model.captured()
    tensors = {**graph.weights, **graph.states, **model.inputs}
    subject = Subject.of(replace(graph.program, max_repeat=tokens), tensors, {"position": 0}, tokens)
    random = Random(7)
    for _ in range(3):
        course = None
        while course is None:
            plant = subject.plant(random)
            course = subject.played(table, plant)
        assert course.convicted
        told(f"{model.name}, {tokens} tokens; call {plant.number:,}", course)


def told(name: str, course: Played) -> None:
    """Prints where the time went."""
    say(name, f"{course.seconds:.1f} s", widths=(46,))
    for part, spent in course.spent.items():
        say(f"  {part}", f"{spent:.1f} s", widths=(46,))
    say(f"  {course.transactions} transactions", f"{course.seconds - sum(course.spent.values()):.1f} s", widths=(46,))


def main() -> None:
    with local_network(map(anvil_account, OPERATORS)) as (anvil, network), laid(anvil, network) as table:
        if "--seconds" not in sys.argv:
            for calls in (30, 1 << 14):
                gas(table, calls)
        if "--gas" not in sys.argv:
            for model in (models.digits(), models.bert()):
                seconds(table, model)
            language(table)


if __name__ == "__main__":
    main()
