"""What an honest executor adds to warm execution: the hashes of its outputs and the commitment, in percent.

Beside it stand the random sample that it recomputes with the reference, and the trace, which is made when somebody
disputes a result. Medians of rounds in which each takes its turn in one process.

    scripts/bench overhead [--one]     one thread, and the processor's time: the figures of a busy machine
"""

import sys
import time
from itertools import count
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
from support.bench.goals import Goal, judge
from support.bench.pairs import Clock, seconds
from support.programs import models
from support.programs.models import Model

ROUNDS = 15
#: Of hashes and commitment: a share of the execution, or milliseconds; and of the sample.
SHARE, MILLISECONDS = Goal(1, least=False, unit=" %"), Goal(0.05, least=False, unit=" ms")
SAMPLE = Goal(20, least=False, unit=" %")
DOMAIN, OPERATOR, SOME = Domain(31337, "0x" + "11" * 20), "0x" + "22" * 20, bytes(range(32))


def hidden_states() -> Model:
    """MiniLM's sizes with all that the last layer gives out instead of its mean: 128 times as much to hash."""
    encoder = models.bert()
    network = encoder.model

    def function(tokens: Tensor) -> Tensor:
        return network.norm(network.words(tokens) + network.places.weight).sequential(network.layers)

    return Model("the same, all hidden states", network, function, encoder.inputs)


def measure(model: Model, threads: int | None, clock: Clock) -> tuple[int, list[float]]:
    """Bytes of the outputs; median seconds of an execution, of hashes and commitment, of the sample, of a trace. Each
    sample is of other calls, and of other elements."""
    graph = model.captured()
    program, weights, inputs = graph.program, dict(graph.weights), dict(model.inputs)
    plain = CompiledGraph(program, weights, threads=threads)
    seeds = map(int.to_bytes, count())
    bound = BoundProgram(program, (), weights | inputs, {}, 1)
    results = plain.run(inputs)

    def commit() -> None:
        commitment(DOMAIN, SOME, OPERATOR, 0, merkle.results_root(program, results), SOME)

    def recheck() -> None:
        kept: dict[int, Any] = {}
        seed = next(seeds)
        chosen = sample.choose(program, 1, seed)
        plain.run(inputs, observe=lambda number, array: kept.update({number: array.copy()}), only=chosen.keep)
        sample.recheck(bound, chosen, kept, seed)

    def execute(program: Program, tensors: Any, variables: Any = None, repeat: int = 1, **options: Any) -> Results:
        return plain.run({name: tensors[name] for name in inputs}, variables, repeat, **options)

    def trace() -> None:
        retrace(program, weights | inputs, execute=execute)

    ways = (lambda: plain.run(inputs), commit, recheck, trace)
    for way in ways:
        way()
    taken = [[seconds(way, clock) for way in ways] for _ in range(ROUNDS)]
    size = sum(array.nbytes for array in results.outputs.values())
    return size, [median(times) for times in zip(*taken, strict=True)]


def main() -> None:
    one = "--one" in sys.argv
    threads, clock = (1, time.process_time) if one else (None, time.perf_counter)
    head = ("", "bytes out", "run, ms", "commit, ms", "overhead", "sample", "trace")
    sys.stdout.write("{:32}{:>10}{:>10}{:>12}{:>10}{:>10}{:>10}\n".format(*head))
    for model in (models.resnet18(224), models.bert(), hidden_states(), models.digits()):
        size, (run, commit, sampled, trace) = measure(model, threads, clock)
        shares = [100 * share for share in (commit / run, max(0.0, sampled / run - 1), trace / run)]
        sys.stdout.write(f"{model.name:32}{size:10,}{run * 1e3:10.2f}{commit * 1e3:12.3f}")
        sys.stdout.write("".join(f"{share:8.2f} %" for share in shares) + "\n")
        long = SHARE.is_reached(shares[0]) or not MILLISECONDS.is_reached(commit * 1e3)
        overhead = (shares[0], SHARE) if long else (commit * 1e3, MILLISECONDS)
        judge([(f"{model.name}, hashes and commitment", *overhead)])
        if isinstance(model.model, models.ResNet18):
            judge([(f"{model.name}, recheck of a sample", shares[1], SAMPLE)])
    sys.stdout.write(f"medians of {ROUNDS} rounds; shares of the execution\n")


if __name__ == "__main__":
    main()
