"""How long a program takes from a function to bytes, and from bytes to a checked program.

Printed are medians in milliseconds of the processor's time: all of it is one thread, and others share the machine. The
encoder has MiniLM's sizes, and the operators that exporters write.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tinygrad import Tensor, nn

from eigentensor.capture import capture, import_onnx
from eigentensor.program import check, decode, encode
from language.decoder import SMALL
from support.bench.goals import Goal, judge
from support.bench.runtime import floats
from support.programs.models import Layer as Block
from support.programs.models import writer
from support.programs.onnx_models import minilm, saved

CALLS = 1000
RUNS = 3
WIDTH, HEADS, LENGTH = 64, 4, 16


def milliseconds(run: Callable[[], object], times: int) -> float:
    """The median of several runs."""

    def once() -> float:
        start = time.process_time()
        run()
        return (time.process_time() - start) * 1e3

    return median(once() for _ in range(times))


def stack(layers: int) -> Callable[[], bytes]:
    """Captures so many transformer layers, checks the program and encodes it."""
    blocks = [Block(WIDTH, HEADS) for _ in range(layers)]
    Tensor.realize(*nn.state.get_parameters(blocks))
    x = floats(1, LENGTH, WIDTH)

    def program() -> bytes:
        graph = capture(lambda x: x.sequential(blocks), [x], model=blocks)
        check(graph.program)
        return encode(graph.program)

    return program


def main() -> None:
    layer = len(decode(stack(1)()).calls)
    deep = stack(-(-CALLS // layer))
    large = deep()
    small = capture(lambda x, y: (x @ y).contiguous().softmax(), [floats(9, 20), floats(20, 7)]).to_bytes()
    language = writer(replace(SMALL, layers=2), "two layers")
    with TemporaryDirectory() as folder:
        path = saved(minilm(), Path(folder))
        rows = [
            ("capture a language model of two layers", lambda: language.captured(), RUNS, 1_000),
            ("import an encoder of MiniLM's sizes", lambda: import_onnx(path, {"tokens": (1, 128)}), RUNS, 3_000),
            (f"capture, check, encode {len(decode(large).calls)} calls", lambda: deep(), RUNS, 10_000),
            ("decode and check them", lambda: decode(large), 5 * RUNS, 1_000),
            (f"decode and check {len(decode(small).calls)} calls of known bodies", lambda: decode(small), 200, 1),
        ]
        for name, run, times, goal in rows:
            judge([(name, milliseconds(run, times), Goal(goal, least=False, unit=" ms"))])


if __name__ == "__main__":
    main()
