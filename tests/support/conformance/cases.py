"""What a device is held to, by name: where the differential tests take it, each case the same on every machine.

Every operation on every type, products and their like, generated programs, models. A case is made when it is asked for.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial

from tinygrad import Context

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Program
from eigentensor.program.signatures import STORED
from eigentensor.runtime import selftest
from support.generated.programs import Example
from support.generated.trials import Group, Trial, trial
from support.programs import captured, halves, models, tiles, zeros
from support.programs.tensor_methods import EXAMPLES
from support.vectors import ops

#: Numbers of generated programs.
GENERATED = 500
FLOATS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32)
Case = Callable[[], Trial]


@cache
def cases() -> dict[str, Case]:
    """All cases by name, those that take longest first."""
    return dict(_cases())


def _cases() -> Iterator[tuple[str, Case]]:
    for name, model in reversed(models.MODELS.items()):
        yield f"model {name}", partial(_model, model)
    for dtype in sorted(STORED, reverse=True):
        yield f"selftest {dtype.name.lower()}", partial(_selftest, dtype)
    for dtype in FLOATS:
        yield f"zeros {dtype.name.lower()}", partial(_single, partial(zeros.example, dtype, 0, 1000))
    yield "halves", lambda: _single(lambda: Example(*halves.halves(), {}, 1))
    for name, program in tiles.CASES.items():
        yield f"tile {name}", partial(_tile, program)
    for name in captured.NAMES:
        yield f"graph {name}", partial(_graph, name)
    for method in ops.quick():
        yield f"method {method}", partial(_method, method)
    for number in range(GENERATED):
        yield f"generated {number}", partial(trial, number)


def _single(make: Callable[[], Example]) -> Trial:
    """One example as a trial."""
    example = make()
    return Trial(0, example.program, example.repeat, (Group(example.variables, (example.tensors,)),))


def _selftest(dtype: DType) -> Trial:
    return _single(lambda: Example(*selftest.conformance([dtype]), {}, 1))


def _tile(make: Callable[[], Program]) -> Trial:
    program = make()
    return _single(lambda: Example(program, tiles.tensors(program), {}, 1))


def _model(make: Callable[[], models.Model]) -> Trial:
    with Context(DEV="PYTHON"):  # which every machine has: it only holds the weights
        return _single(lambda: models.example(make()))


def _graph(name: str) -> Trial:
    with Context(DEV="PYTHON"):
        graph = captured.graphs()[name]
        made = graph.captured()
    limits = [tuple(of[:2]) for of in graph.variables.values()] or [(0, 0)]
    groups = (dict.fromkeys(graph.variables, at) for at in sorted(set(limits[0])))
    return Trial(0, made.program, 1, tuple(Group(variables, (graph.bound(made),)) for variables in groups))


def _method(method: str) -> Trial:
    with Context(DEV="PYTHON"):
        graph, inputs = ops.captured(EXAMPLES[method]), ops.function_of(EXAMPLES[method])[1]
    return _single(lambda: Example(graph.program, {**graph.weights, **graph.states, **inputs}, {}, 1))
