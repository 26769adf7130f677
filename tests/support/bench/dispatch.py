"""What a kernel costs that does nothing: 100 calls of one element, warm, over an empty table; and a whole run."""

import numpy as np

from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, binary, const, load, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.cpu.table import Table
from support.bench.pairs import in_turn, say

KERNELS, TURNS = 100, 200


def chain() -> Program:
    """Each call doubles what the call before has written."""
    zero = const(DType.INDEX, 0)
    calls, before = [], "x"
    for number in range(KERNELS):
        value = load(Array(before, DType.FLOAT32, 1), zero)
        before = f"y{number}" if number < KERNELS - 1 else "output"
        calls.append((before, to_body(binary(Op.ADD, value, value), ())))
    return assemble(calls, {"x": Buffer(Role.INPUT, DType.FLOAT32, (), "x")}, {(Kind.OUTPUT, "output"): ("output", ())})


def main() -> None:
    compiled = CompiledGraph(chain(), threads=1)
    inputs = {"x": np.float32(1e-30)}
    compiled.run(inputs)
    loaded = compiled.loaded
    assert isinstance(loaded, Table)
    table, run = loaded.table, loaded.driver.run
    none = table[:0]

    def turns(of: np.ndarray) -> None:
        for _ in range(TURNS):
            run(of, 1)

    ways = {"none": lambda: turns(none), "hundred": lambda: turns(table), "run": lambda: compiled.run(inputs)}
    times = in_turn(ways, rounds=21)
    say("µs", "per kernel", "table of none", "CompiledGraph.run")
    each = (times["hundred"] - times["none"]) / TURNS / KERNELS * 1e6
    say(f"{KERNELS} kernels of one element", each, times["none"] / TURNS * 1e6, times["run"] * 1e6)


if __name__ == "__main__":
    main()
