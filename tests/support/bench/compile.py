"""How long a program of MiniLM's sizes takes from nothing to executable; then from disk, in a new process.

Beside the seconds of the wall's clock stand those of processors, all threads and compilers together: divided by the
number of cores, they are what a machine without other work needs.

scripts/bench compile [NAME]     NAME as for `scripts/bench models`

The goal is of a second process: from the bytes of a program to what can run, with all that the first has left on disk.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from eigentensor.cache import Cache
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.cpu import toolchain
from support.bench.goals import Goal, judge
from support.bench.models import model
from support.bench.pairs import say

GOAL = Goal(0.2, least=False, unit=" s")
SECOND = """
import sys, time
from pathlib import Path
from eigentensor.cache import Cache
from eigentensor.program import decode
from eigentensor.runtime import CompiledGraph
start, busy = time.perf_counter(), time.process_time()
compiled = CompiledGraph(decode(Path(sys.argv[1]).read_bytes()), cache=Cache(Path(sys.argv[2])))
sys.stdout.write(f"{time.perf_counter() - start} {time.process_time() - busy} {compiled.compiled}")
"""


def busy() -> float:
    """Seconds of processors that this process and the compilers it started have used."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def main() -> None:
    of = model(sys.argv[1] if len(sys.argv) > 1 else "bert")
    start, before = time.perf_counter(), busy()
    graph = of.captured()
    say("seconds", "wall", "processors", "kernels")
    say(f"capture {of.name}", time.perf_counter() - start, busy() - before)
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name) / "kernels", Path(name) / "program"
        file.write_bytes(graph.to_bytes())
        toolchain.local()
        start, before = time.perf_counter(), busy()
        compiled = CompiledGraph(graph.program, cache=Cache(folder)).compiled
        say("compile", time.perf_counter() - start, busy() - before, compiled)
        command = [sys.executable, "-c", SECOND, str(file), str(folder)]
        outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(3)]
    seconds, used, again = min(tuple(map(float, output.split())) for output in outputs)
    say("from disk", seconds, used, int(again))
    judge([(f"{of.name}, ready in a second process", seconds, GOAL)])


if __name__ == "__main__":
    main()
