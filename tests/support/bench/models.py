"""Models end to end beside tinygrad's default and PyTorch: measured in turn in one process, medians in milliseconds.

    scripts/bench models [--one] [--beam] [NAME …]     NAME of `support.programs.models`, with numbers: resnet18:112
    scripts/bench models [--one] --training    steps of training alone
    scripts/bench models --calls NAME          where the time of one model goes

tinygrad: DEV=CPU, TinyJit, no variables; its CPU device runs the threads of a kernel one after the other, so it is held
to this runtime with one thread, too. PyTorch has two, where it is installed (`.venv/bin/pip install torch`, or a folder
that has it in PYTHONPATH); beside it are the goals. --beam adds tinygrad with BEAM=2, --peer leaves tinygrad out. --one
gives one thread to each and counts the processor's time instead of the wall's: the figures of a busy machine.
"""

import importlib.util
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from tinygrad import Context, Tensor, TinyJit, UOp

from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.cpu.table import Table, evaluations
from support.bench.goals import Goal, judge
from support.bench.pairs import in_turn, mean_ratio, say, seconds
from support.programs import models
from support.programs.models import Model

NAMES = ("digits", "resnet18:112", "resnet18:224", "bert", "gpt2_step", "unet", "vit_b", "whisper_tiny")
TRAINING = ("adam_step", "mlp_step", "layer_step", "batchnorm_step")
#: Of the geometric mean beside PyTorch, and of each model where nothing else is said.
MEAN, EACH, OWN = Goal(1.5), Goal(1.0), {"resnet18:224": Goal(1.2)}
HAS_TORCH = importlib.util.find_spec("torch") is not None


def model(name: str) -> Model:
    function, *numbers = name.split(":")
    made: Model = getattr(models, function)(*map(int, numbers))
    return made


def last_of(of: Model) -> dict[str, int]:
    """Variables at their maximum."""
    return {name: limits[1] for name, limits in of.variables.items()}


def by_tinygrad(of: Model) -> Callable[[], object]:
    jitted = TinyJit(lambda *arguments: of.function(*arguments).realize())
    tensors: list[Any] = [Tensor(array).realize() for array in of.inputs.values()]
    for name, value in last_of(of).items():
        low, high, *_ = of.variables[name]
        tensors.append(UOp.variable(name, low, high).bind(value))
    return lambda: jitted(*tensors).numpy()


def here(of: Model, threads: tuple[int, ...]) -> Mapping[str, Callable[[], object]]:
    graph = of.captured()
    tensors = {**graph.weights, **graph.states}
    made = {f"here {n}": CompiledGraph(graph.program, tensors, threads=n) for n in threads}
    return {name: partial(compiled.run, of.inputs, last_of(of)) for name, compiled in made.items()}


def measure(name: str, *, beam: bool, one: bool, default: bool) -> dict[str, float]:
    of = model(name)
    ways = dict(here(of, (1,) if one else (2, 1)))
    if HAS_TORCH:
        import torch

        from support.programs import torch_models

        torch.set_num_threads(1 if one else 2)
        ways["PyTorch"] = torch_models.twin(of)
    if default:
        ways["tinygrad"] = by_tinygrad(of)  # last: a training step changes the weights that the others have copied
    if beam:
        ways["BEAM=2"] = by_tinygrad(model(name))
        with Context(BEAM=2, PARALLEL=0):
            for _ in range(3):
                ways["BEAM=2"]()
    return in_turn(ways, rounds=9, clock=time.process_time if one else time.perf_counter)


def compare(names: list[str], *, beam: bool, one: bool, default: bool) -> None:
    if not HAS_TORCH:
        sys.stdout.write("PyTorch is not installed (.venv/bin/pip install torch): nothing is measured beside it.\n")
    ours = ["here 1"] if one else ["here 2", "here 1"]
    peers = [*(["PyTorch"] if HAS_TORCH else []), *(["tinygrad"] if default else []), *(["BEAM=2"] if beam else [])]
    pairs = [
        (peer, who)
        for peer in peers
        for who in (["here 1"] if one else ["here 2", "here 1"][: 1 + (peer != "PyTorch")])
    ]
    say("ms", *ours, *peers, *(f"× {peer}, {who[-1]}" for peer, who in pairs), widths=(40,))
    rows = []
    for name in names:
        times = measure(name, beam=beam, one=one, default=default)
        rows.append(times)
        ratios = (times[peer] / times[who] for peer, who in pairs)
        say(name, *(times[c] * 1e3 for c in (*ours, *peers)), *ratios, widths=(40,))
    means = {pair: mean_ratio([(times[pair[0]], times[pair[1]]) for times in rows]) for pair in pairs}
    say("geometric mean", *[""] * len((*ours, *peers)), *means.values(), widths=(40,))
    if HAS_TORCH:
        beside = "PyTorch", ours[0]
        judge(
            (f"{n} beside PyTorch", t["PyTorch"] / t[ours[0]], OWN.get(n, EACH))
            for n, t in zip(names, rows, strict=True)
        )
        if len(names) > 1 and not {*names} <= {*TRAINING}:
            judge([("geometric mean beside PyTorch", means[beside], MEAN)])


def calls(name: str) -> None:
    """The calls of a model that take longest, added up by body: times with two threads, tile, operations per second."""
    of = model(name)
    graph = of.captured()
    compiled = CompiledGraph(graph.program, {**graph.weights, **graph.states})
    compiled.run(of.inputs, last_of(of))
    table, program = compiled.loaded, graph.program
    assert isinstance(table, Table)
    numbers = [c.body for c in program.calls if program.bodies[c.body].parameters[0].elements]
    spent: dict[int, list[float]] = {}
    for place, body in enumerate(numbers):
        part = table.table[place : place + 1]
        times = [seconds(partial(table.driver.run, part, table.threads)) for _ in range(7)]
        spent.setdefault(body, []).append(float(np.median(times)))
    total = sum(map(sum, spent.values()))
    say("body", "calls", "ms in all", "%", "Gop/s", "units", widths=(8,))
    for body, times in sorted(spent.items(), key=lambda item: -sum(item[1]))[:25]:
        units = int(table.table[numbers.index(body)]["units"])
        rate = evaluations(program.bodies[body]) * len(times) / sum(times) * 1e-9
        say(str(body), len(times), sum(times) * 1e3, 100 * sum(times) / total, rate, units, widths=(8,))
        sys.stdout.write(f"         {shape_of(program.bodies[body])}; {table_schedule(program.bodies[body])}\n")


def shape_of(body: Any) -> str:
    from eigentensor.runtime.bodies.analysis import Analysis

    analysis = Analysis(body)
    return f"{body.output_ranges} | {analysis.extents[analysis.outputs :]}, {len(body.instructions)} instructions"


def table_schedule(body: Any) -> str:
    from eigentensor.runtime.cpu import toolchain

    return str(toolchain.local().schedule(body))


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--calls"]:
        calls(arguments[1])
        return
    names = [a for a in arguments if not a.startswith("--")] or list(TRAINING if "--training" in arguments else NAMES)
    has = {word: f"--{word}" in arguments for word in ("beam", "one", "peer")}
    compare(names, beam=has["beam"], one=has["one"], default=not has["peer"])


if __name__ == "__main__":
    main()
