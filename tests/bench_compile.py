"""How long a program of MiniLM's sizes takes from nothing to executable; then from disk, in a new process.

scripts/bench compile [NAME]     NAME as for `scripts/bench models`
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_models import model
from bench_pairs import say
from eigentensor.cache import Cache
from eigentensor.runtime import Executable, toolchain

SECOND = """
import sys, time
from pathlib import Path
from eigentensor.cache import Cache
from eigentensor.program import decode
from eigentensor.runtime import Executable
start = time.perf_counter()
executable = Executable(decode(Path(sys.argv[1]).read_bytes()), cache=Cache(Path(sys.argv[2])))
sys.stdout.write(f"{time.perf_counter() - start} {executable.compiled}")
"""


def main() -> None:
    of = model(sys.argv[1] if len(sys.argv) > 1 else "bert")
    start = time.perf_counter()
    graph = of.captured()
    captured = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name) / "kernels", Path(name) / "program"
        file.write_bytes(graph.to_bytes())
        toolchain.local()
        start = time.perf_counter()
        first = Executable(graph.program, cache=Cache(folder))
        compiled = time.perf_counter() - start
        command = [sys.executable, "-c", SECOND, str(file), str(folder)]
        outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(3)]
    seconds, again = min((float(s), int(n)) for s, n in map(str.split, outputs))
    say("seconds", "capture", "compile", "kernels", "from disk", "compiled")
    say(of.name, captured, compiled, first.compiled, seconds, again)


if __name__ == "__main__":
    main()
