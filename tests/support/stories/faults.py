"""Numbered games: a program executed with one wrong bit, or rightly and objected to without reason."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random

from eigentensor.dispute import Side
from eigentensor.numerics.dtypes import DType
from eigentensor.tracing import Execution
from eigentensor.tracing.step import reduction_dtypes
from support.generated.programs import Example, generate
from support.stories.game_table import Case, brought
from support.stories.games import account_of, honest, reckless
from support.stories.liars import Fault, Liar, Received, some_fault, some_received

#: As often as one of these: a program that is made up.
GENERATED = "generated"
#: Captured graphs, and how often they are repeated at most.
GRAPHS = {
    "argmax": 1, "attention": 1, "bfloat16": 1, "convolution": 1, "cross-entropy with its gradient": 1, "cumsum": 1,
    "decoder step": 5, "digits": 1, "embedding": 1, "gelu mlp": 1, "layernorm": 1, "long sum": 1, "matmul": 1,
    "matmul of half": 1, "matmul of integers": 1, "matmul of wide integers": 1, "random numbers": 1, "softmax": 1,
    "training step with Adam": 2, "wide integers": 1,
}  # fmt: skip
#: The last of so many stories is one of an honest executor.
HONEST = 10
#: One fault of so many is in what the executor received, or in the outputs root that it reveals.
RECEIVED, REVEALED = 12, 40
#: Faults that are tried of one program.
TRIES = 100


@dataclass(frozen=True)
class Story:
    """`kinds` are what its numbers are counted under; `fault` is None of an honest executor."""

    number: int
    graph: str
    kinds: tuple[str, ...]
    case: Case

    @property
    def is_honest(self) -> bool:
        return is_honest(self.number)


def is_honest(number: int) -> bool:
    return number % HONEST == HONEST - 1


def story(number: int) -> Story:
    """The same for ever, as long as GRAPHS and what they are captured as stay the same."""
    random = Random(number)
    while True:
        graph = random.choice([*GRAPHS, GENERATED])
        example, true = _drawn(graph, random)
        if is_honest(number):
            name = f"{number}: {graph}, honest executor"
            case = Case(true, true.outputs, honest(Side.EXECUTOR), reckless(random), name)
            return Story(number, graph, ("honest",), case)
        if random.randrange(REVEALED) == 0:
            outputs = bytes((true.outputs[0] ^ 1 << random.randrange(8), *true.outputs[1:]))
            case = Case(true, outputs, honest(Side.EXECUTOR), honest(Side.CHALLENGER), f"{number}: {graph}, revealed")
            return Story(number, graph, ("outputs root",), case)
        liar = next((liar for liar in _liars(example, true, random) if liar.changed), None)
        if liar is not None:
            name = f"{number}: {graph}, {example.repeat} iterations, {liar.fault}"
            case = Case(true, liar.account.outputs, liar.next_move, honest(Side.CHALLENGER), name)
            return Story(number, graph, tuple(_kinds(true, liar.fault)), case)


def _drawn(graph: str, random: Random) -> tuple[Example, Execution]:
    if graph != GENERATED:
        return _account(graph, random.randint(1, GRAPHS[graph]))
    while True:
        example = generate(random.getrandbits(32))
        true = account_of(example)
        if all(b.elements for b in example.program.buffers) and all(t.size for t in true.kept.values()):
            return example, true


def _liars(example: Example, true: Execution, random: Random) -> Iterator[Liar]:
    """Many are wrong somewhere, and right in the end; all of them in some programs that are made up."""
    some = some_received if random.randrange(RECEIVED) == 0 else some_fault
    for _ in range(TRIES):
        yield Liar(true, example.tensors, some(true, random))


def _kinds(true: Execution, fault: Fault | Received) -> Iterator[str]:
    if isinstance(fault, Received):
        yield "received"
        return
    body, program = true.body(fault.number), true.program
    iteration, call = divmod(fault.number, len(program.calls))
    yield "stored element" if fault.reduction is None else "accumulator"
    if any(r.buffer == len(program.buffers) + call for r in program.new_states.values()):
        yield "of a state"
    if true.bound(fault.number):
        yield "of a call with variables"
    if iteration:
        yield "in a later iteration"
    if body.reductions > 1:
        yield "beside other reductions"
    if body.parameters[0].dtype in (DType.FLOAT16, DType.BFLOAT16):
        yield "of a half type"
    if fault.reduction is not None and reduction_dtypes(body)[fault.reduction].size == 8:
        yield "of 8 bytes"


@cache
def _account(graph: str, repeat: int) -> tuple[Example, Execution]:
    example = brought(graph, repeat)
    return example, account_of(example)
