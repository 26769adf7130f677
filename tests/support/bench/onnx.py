"""ONNX models with random weights, beside onnxruntime with the same file: in turn in one process, in milliseconds.

    scripts/bench onnx [--one] [NAME …]     NAME is minilm, with 128 tokens, or resnet50, with an image of 224²

onnxruntime has as many threads, where it is installed (`.venv/bin/pip install onnxruntime`, or a folder that has it in
PYTHONPATH); its results are held to ours. --one gives one thread to each and counts the processor's time instead of the
wall's: the figures of a busy machine.
"""

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from eigentensor.capture import import_onnx
from eigentensor.runtime import CompiledGraph
from support.bench.goals import Goal, judge
from support.bench.pairs import in_turn, say
from support.programs import onnx_models

Arrays = dict[str, np.ndarray[Any, Any]]
SOME = np.random.default_rng(0)
MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Arrays]]] = {
    "minilm": (onnx_models.minilm, lambda: {"tokens": SOME.integers(0, 30522, (1, 128))}),
    "resnet50": (onnx_models.resnet50, lambda: {"image": SOME.standard_normal((1, 3, 224, 224), dtype=np.float32)}),
}
GOAL = Goal(1.2)
NEAR = 1e-3  #: relative to the largest result: both sum in orders of their own


def peer(path: Path, threads: int) -> Callable[[Arrays], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)[0]


def measure(name: str, threads: int) -> dict[str, float]:
    """Seconds of each way."""
    make, inputs_of = MODELS[name]
    inputs = inputs_of()
    with tempfile.TemporaryDirectory() as folder:
        path = onnx_models.saved(make(), Path(folder))
        graph = import_onnx(path, {name: array.shape for name, array in inputs.items()})
        compiled = CompiledGraph(graph.program, graph.weights, threads=threads)
        ways: dict[str, Callable[[], Any]] = {"here": lambda: compiled.run(inputs).outputs.values()}
        if importlib.util.find_spec("onnxruntime"):
            run = peer(path, threads)
            ways["onnxruntime"] = lambda: run(inputs)
            expected, (ours, *_) = run(inputs), ways["here"]()
            worst = np.abs(ours - expected).max() / np.abs(expected).max()
            if worst > NEAR:
                raise SystemExit(f"{name}: results differ by {worst:.2g} of the largest one")
        return in_turn(ways, rounds=9, clock=time.process_time if threads == 1 else time.perf_counter)


def main() -> None:
    threads = 1 if "--one" in sys.argv else 2
    figures = []
    say("ms", "here", "onnxruntime", "×")
    for name in [a for a in sys.argv[1:] if a in MODELS] or MODELS:
        times = measure(name, threads)
        if "onnxruntime" not in times:
            say(name, times["here"] * 1e3, "not installed")
            continue
        ratio = times["onnxruntime"] / times["here"]
        say(name, times["here"] * 1e3, times["onnxruntime"] * 1e3, ratio)
        figures.append((f"{name} beside onnxruntime", ratio, GOAL))
    judge(figures)


if __name__ == "__main__":
    main()
