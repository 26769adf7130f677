"""Generated programs without end, against the reference, on every device here: `scripts/fuzz`.

Programs are numbered; each number is the same program for ever. What has passed stands in tests/vectors/fuzz.json, and
the next run goes on behind it. A program that differs is shrunk, shown, and kept in a folder with what it is run on.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from eigentensor.errors import EigenTensorError, ExecutionError
from eigentensor.program.codec import decode, encode
from eigentensor.program.model import Program
from eigentensor.program.text import listing
from eigentensor.runtime.build.compilers import generator
from support.campaigns import campaign as campaigns
from support.campaigns.campaign import Line, apart, say
from support.generated.programs import Example
from support.generated.shrink import shrunk
from support.generated.trials import Trial, trial
from support.oracles.agreement import Way, differences, first_failure, rows_of
from support.oracles.backends import Backend, backends

ROOT = Path(__file__).parents[3]
RECORD = ROOT / "tests" / "vectors" / "fuzz.json"
FAILURES = ROOT / ".scratch" / "fuzz"
#: Programs for one process, and of these so many whose kernels are compiled together.
BLOCK, TOGETHER = 64, 16


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=5000, help="how many, at most")
    parser.add_argument("--minutes", type=float, default=95, help="begin nothing new afterwards")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--block", type=int, nargs=2, metavar=("FIRST", "COUNT"), help="only these, here; no record")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="a failure that was kept")
    arguments = parser.parse_args()
    if arguments.again:
        return again(arguments.again)
    if arguments.block:
        for line in tried(range(arguments.block[0], sum(arguments.block))):
            say(json.dumps(line))
        return 0
    return campaign(arguments.programs, arguments.minutes, arguments.processes)


# One program after the other


def tried(seeds: range) -> Iterator[dict[str, Any]]:
    """What happened, as it happens: a line when a program begins, one when all devices have agreed, one per failure."""
    for start in range(seeds.start, seeds.stop, TOGETHER):
        trials = [trial(seed) for seed in seeds if start <= seed < start + TOGETHER]
        expected = {t.seed: rows_of(t) for t in trials}
        for backend in backends():
            chosen = [t for t in trials if t.seed % backend.every == 0]
            way = _way(backend, [t.program for t in chosen])
            for t in chosen:
                yield {"begins": t.seed, "backend": backend.name}
                if failure := _failure(t, expected[t.seed], way, backend.name):
                    yield {"failed": t.seed, "backend": backend.name, "report": failure}
        for t in trials:
            yield {"seed": t.seed, "kernels": len(t.program.calls), "sets": sum(len(g.sets) for g in t.groups)}


def _way(backend: Backend, programs: list[Program]) -> Way:
    try:
        return backend.way(programs)
    except ExecutionError:  # a compiler fails at one of them: each alone shows at which
        return backend.way()


def _failure(t: Trial, expected: Any, way: Way, name: str) -> str:
    """Empty if all agree; else what differs, after making it small."""
    try:
        failure = first_failure(t, expected, way)
    except EigenTensorError as error:
        return f"{type(error).__name__}: {error}"
    return kept(failure, way, FAILURES / f"{t.seed}-{name.replace(':', '-')}") if failure else ""


def kept(failing: Example, way: Way, folder: Path) -> str:
    """Shrinks an example, puts it into a folder, and says what differs."""

    def differs(example: Example) -> bool:
        return bool(differences(example, way))

    small = shrunk(failing, differs) if differs(failing) else failing
    folder.mkdir(parents=True, exist_ok=True)
    for name, example in (("", small), ("whole-", failing)):
        (folder / f"{name}program.bin").write_bytes(encode(example.program))
        tensors: dict[str, Any] = dict(example.tensors)  # Any: `savez` has a parameter that is no array
        np.savez(folder / f"{name}tensors.npz", **tensors)
        order = {"variables": example.variables, "repeat": example.repeat}
        (folder / f"{name}order.json").write_text(json.dumps(order))
    report = f"{listing(small.program)}variables {small.variables}, repeat {small.repeat}\n"
    report += "\n".join(map(str, differences(small, way))) or "differs only after other programs"
    (folder / "report.txt").write_text(report)
    return f"{report}\nkept in {folder}"


def again(folder: Path) -> int:
    """Runs a failure that was kept, on every device."""
    order = json.loads((folder / "order.json").read_text())
    tensors = dict(np.load(folder / "tensors.npz"))
    example = Example(decode((folder / "program.bin").read_bytes()), tensors, **order)
    say(listing(example.program))
    by_backend = {backend.name: differences(example, backend.way([example.program])) for backend in backends()}
    for name, lines in by_backend.items():
        say(f"{name}: {'; '.join(map(str, lines)) or 'agrees'}")
    return int(any(by_backend.values()))


# Many


def campaign(programs: int, minutes: float, processes: int) -> int:
    record = Record()
    first, begun, done = record.next, time.monotonic(), 0
    blocks = [range(n, min(n + BLOCK, first + programs)) for n in range(first, first + programs, BLOCK)]
    say(f"from program {first} on, on {', '.join(record.backends)}")
    for lines in campaigns.tried(record, blocks, _apart, minutes, processes):
        done += sum("kernels" in line for line in lines)
        rate = done / (time.monotonic() - begun) * 60
        say(f"{done} programs, {rate:.1f} a minute, 5,000 in {5000 / max(rate, 1e-9):.0f}; {record.total} in all")
    say(f"failing: {record.failing or 'none'}")
    return int(bool(record.failing))


def _apart(seeds: range) -> Iterator[Line]:
    """What a process of its own says of these programs; if it dies, each of them has a process of its own."""
    with TemporaryDirectory() as folder:  # a driver of OpenCL keeps all that it compiles
        lines, report = apart(__file__, seeds, {**os.environ, "XDG_CACHE_HOME": folder})
    if not report:
        yield from lines
    elif len(seeds) > 1:
        for seed in seeds:
            yield from _apart(range(seed, seed + 1))
    else:
        backend = next((line["backend"] for line in reversed(lines) if "begins" in line), "none")
        yield {"failed": seeds.start, "backend": backend, "report": report}


class Record(campaigns.Record):
    """tests/vectors/fuzz.json: which programs have been tried, where and when, and which of them fail."""

    def __init__(self) -> None:
        self.backends = {b.name: b.version for b in backends()}
        same = {"backends": self.backends, "runtime": generator()[:12]}
        super().__init__(RECORD, same, ("programs", "kernels", "sets"))

    @property
    def total(self) -> int:
        return sum(run["programs"] for run in self.content["runs"])

    def add(self, numbers: range, lines: list[Line]) -> None:
        failed = {line["failed"] for line in lines if "failed" in line}
        passed = [line for line in lines if "kernels" in line and line["seed"] not in failed]
        for line in lines:
            if "failed" in line:
                say(f"program {line['failed']} on {line['backend']}:\n{line['report']}")
        counts = {name: sum(line[name] for line in passed) for name in ("kernels", "sets")}
        self.enter(numbers, failed, {line["seed"] for line in passed}, {"programs": len(passed), **counts})


if __name__ == "__main__":
    sys.exit(main())
