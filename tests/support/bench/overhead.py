"""What an honest executor adds to warm execution: the hashes of its outputs and the commitment, in percent.

Beside it stand the random sample that it recomputes with the reference, and the trace, which is made when somebody
disputes a result. Medians of rounds in which each takes its turn in one process.
"""

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from tinygrad import Tensor

from eigentensor import merkle
from eigentensor.program import Program, Results
from eigentensor.reexecution import sample
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.runtime import CompiledGraph
from eigentensor.task import commitment
from eigentensor.task.order import Domain
from eigentensor.tracing import retrace
from support.programs import models
from support.programs.models import Model

ROUNDS = 15
DOMAIN, OPERATOR, SOME = Domain(31337, "0x" + "11" * 20), "0x" + "22" * 20, bytes(range(32))


def hidden_states() -> Model:
    """MiniLM's sizes with all that the last layer gives out instead of its mean: 128 times as much to hash."""
    encoder = models.bert()
    network = encoder.model

    def function(tokens: Tensor) -> Tensor:
        return network.norm(network.words(tokens) + network.places.weight).sequential(network.layers)

    return Model("the same, all hidden states", network, function, encoder.inputs)


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(model: Model) -> tuple[int, list[float]]:
    """Bytes of the outputs; median seconds of an execution, of hashes and commitment, of the sample, of a trace."""
    graph = model.captured()
    program, weights, inputs = graph.program, dict(graph.weights), dict(model.inputs)
    plain = CompiledGraph(program, weights)
    chosen = sample.choose(program, 1, SOME)
    bound = BoundProgram(program, (), weights | inputs, {}, 1)
    results = plain.run(inputs)

    def commit() -> None:
        commitment(DOMAIN, SOME, OPERATOR, 0, merkle.results_root(program, results), SOME)

    def recheck() -> None:
        kept: dict[int, Any] = {}
        plain.run(inputs, observe=lambda number, array: kept.update({number: array.copy()}), only=chosen.keep)
        sample.recheck(bound, chosen, kept, SOME)

    def execute(program: Program, tensors: Any, variables: Any = None, repeat: int = 1, **options: Any) -> Results:
        return plain.run({name: tensors[name] for name in inputs}, variables, repeat, **options)

    def trace() -> None:
        retrace(program, weights | inputs, execute=execute)

    ways = (lambda: plain.run(inputs), commit, recheck, trace)
    for way in ways:
        way()
    taken = [[seconds(way) for way in ways] for _ in range(ROUNDS)]
    size = sum(array.nbytes for array in results.outputs.values())
    return size, [median(times) for times in zip(*taken, strict=True)]


def main() -> None:
    head = ("", "bytes out", "run, ms", "commit, ms", "overhead", "sample", "trace")
    sys.stdout.write("{:32}{:>10}{:>10}{:>12}{:>10}{:>10}{:>10}\n".format(*head))
    for model in (models.resnet18(224), models.bert(), hidden_states(), models.digits()):
        size, (run, commit, sampled, trace) = measure(model)
        shares = (commit / run, max(0.0, sampled / run - 1), trace / run)
        sys.stdout.write(f"{model.name:32}{size:10,}{run * 1e3:10.2f}{commit * 1e3:12.3f}")
        sys.stdout.write("".join(f"{100 * share:8.2f} %" for share in shares) + "\n")
        sys.stdout.flush()
    sys.stdout.write(f"medians of {ROUNDS} rounds; shares of the execution\n")


if __name__ == "__main__":
    main()
