"""Models end to end beside tinygrad's default and PyTorch: measured in turn in one process, medians in milliseconds.

    scripts/bench models [--beam] [NAME …]     NAME is a function of tests/models.py, with numbers: resnet18:112
    scripts/bench models --calls NAME          where the time of one model goes

tinygrad: DEV=CPU, TinyJit, no variables; its CPU device runs the threads of a kernel one after the other, so it is held
to this runtime with one thread, too. PyTorch has two, where it is installed. --beam adds tinygrad with BEAM=2.
"""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tinygrad import Context, Tensor, TinyJit, UOp

import models
from bench_pairs import in_turn, mean_ratio, say, seconds
from eigentensor.runtime import Executable
from models import Model

NAMES = ("digits", "resnet18:112", "resnet18:224", "bert", "gpt2_step", "adam_step")
HAS_TORCH = importlib.util.find_spec("torch") is not None


def model(name: str) -> Model:
    function, *numbers = name.split(":")
    made: Model = getattr(models, function)(*map(int, numbers))
    return made


def last_of(of: Model) -> dict[str, int]:
    """Variables at their maximum."""
    return {name: limits[1] for name, limits in of.variables.items()}


def by_tinygrad(of: Model) -> Callable[[], object]:
    jitted = TinyJit(lambda *given: of.function(*given).realize())
    given: list[Any] = [Tensor(array).realize() for array in of.inputs.values()]
    for name, value in last_of(of).items():
        low, high, *_ = of.variables[name]
        given.append(UOp.variable(name, low, high).bind(value))
    return lambda: jitted(*given).numpy()


def here(of: Model) -> Mapping[str, Callable[[], object]]:
    graph = of.captured()
    tensors = {**graph.weights, **graph.states}
    two, one = (Executable(graph.program, tensors, threads=threads) for threads in (2, 1))
    return {name: lambda e=e: e.run(of.inputs, last_of(of)) for name, e in (("here 2", two), ("here 1", one))}


def measure(name: str, *, beam: bool) -> dict[str, float]:
    of = model(name)
    ways = dict(here(of))
    if HAS_TORCH:
        import torch

        import torch_models

        torch.set_num_threads(2)
        ways["PyTorch"] = torch_models.twin(of)
    ways["tinygrad"] = by_tinygrad(of)  # last: a training step changes the weights that the others have copied
    if beam:
        ways["BEAM=2"] = by_tinygrad(model(name))
        with Context(BEAM=2, PARALLEL=0):
            for _ in range(3):
                ways["BEAM=2"]()
    return in_turn(ways, rounds=9)


def compare(names: list[str], *, beam: bool) -> None:
    if not HAS_TORCH:
        sys.stdout.write("PyTorch is not installed: nothing is measured beside it.\n")
    columns = ["here 2", "here 1", *(["PyTorch"] if HAS_TORCH else []), "tinygrad", *(["BEAM=2"] if beam else [])]
    say("ms", *columns, "× default", "× 1 thread", *(["× PyTorch"] if HAS_TORCH else []))
    rows = []
    for name in names:
        times = measure(name, beam=beam)
        rows.append(times)
        ratios = _ratios(times)
        say(name, *(times[c] * 1e3 for c in columns), *(theirs / ours for theirs, ours in ratios))
    means = [mean_ratio(list(pairs)) for pairs in zip(*map(_ratios, rows), strict=True)]
    say("geometric mean", *[""] * len(columns), *means)


def _ratios(times: dict[str, float]) -> list[tuple[float, float]]:
    pairs = [(times["tinygrad"], times["here 2"]), (times["tinygrad"], times["here 1"])]
    return [*pairs, (times["PyTorch"], times["here 2"])] if HAS_TORCH else pairs


def calls(name: str) -> None:
    """The calls of a model that take longest, added up by body: times with two threads, tile, operations per second."""
    of = model(name)
    graph = of.captured()
    executable = Executable(graph.program, {**graph.weights, **graph.states})
    executable.run(of.inputs, last_of(of))
    table, program = executable.loaded, graph.program
    numbers = [c.body for c in program.calls if program.bodies[c.body].parameters[0].elements]
    spent: dict[int, list[float]] = {}
    for place, body in enumerate(numbers):
        part = table.table[place : place + 1]
        times = [seconds(lambda part=part: table.driver.run(part, table.threads)) for _ in range(7)]
        spent.setdefault(body, []).append(float(np.median(times)))
    total = sum(map(sum, spent.values()))
    say("body", "calls", "ms in all", "%", "Gop/s", "units", widths=(8,))
    for body, times in sorted(spent.items(), key=lambda item: -sum(item[1]))[:25]:
        units = int(table.table[numbers.index(body)]["units"])
        rate = table.work[body] * len(times) / sum(times) * 1e-9
        say(str(body), len(times), sum(times) * 1e3, 100 * sum(times) / total, rate, units, widths=(8,))
        sys.stdout.write(f"         {shape_of(program.bodies[body])}; {table_schedule(program.bodies[body])}\n")


def shape_of(body: Any) -> str:
    from eigentensor.runtime.analysis import Analysis

    analysis = Analysis(body)
    return f"{body.output_ranges} | {analysis.extents[analysis.outputs :]}, {len(body.instructions)} instructions"


def table_schedule(body: Any) -> str:
    from eigentensor.runtime import toolchain

    return str(toolchain.local().schedule(body))


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--calls"]:
        calls(arguments[1])
        return
    names = [a for a in arguments if not a.startswith("--")]
    compare(names or list(NAMES), beam="--beam" in arguments)


if __name__ == "__main__":
    main()
