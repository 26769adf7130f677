"""Holds a device to the reference, case by case, then measures it: `scripts/gpu run`.

Cases are tried by several processes; one that dies or hangs is counted and replaced. What was found is written as it
comes: called again with the same folder, this goes on where it ended. At the end there is one JSON file.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Timer
from typing import Any

from eigentensor.version import VERSION
from support.campaigns.campaign import Line, say
from support.conformance.answers import committed
from support.conformance.cases import cases
from support.conformance.machine import clocks

#: Shares of the time: of cases, and of making differences small; what is left is for measuring.
CASES, SMALL = 0.5, 0.15
HOPELESS = 30  #: cases that have failed, when none has not
MOST = 10  #: differences that are made small
WHERE = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu run", description=__doc__)
    parser.add_argument("--device", default="CUDA", help="by tinygrad's name [CUDA]")
    parser.add_argument("--out", type=Path, default=Path("gpu"), help="folder of what is found [gpu]")
    parser.add_argument("--minutes", type=float, default=9, help="in which it ends [9]")
    parser.add_argument("--processes", type=int, default=min(16, len(os.sched_getaffinity(0))))
    parser.add_argument("--only", nargs="*", default=[""], help="cases whose names begin so")
    parser.add_argument("--most", type=int, default=1_000_000, help="so many cases of each kind")
    parser.add_argument("--patience", type=float, default=200, help="seconds for one case [200]")
    parser.add_argument("--kernels", type=Path, help="carried kernels, for CUDA without NVRTC")
    parser.add_argument("--carried", action="store_true", help="these, though there is NVRTC")
    parser.add_argument("--no-bench", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    run = Run(
        arguments.device, arguments.out.absolute(), 60 * arguments.minutes, arguments.processes, arguments.patience
    )
    try:
        run.meet(arguments.kernels and arguments.kernels.absolute(), carried=arguments.carried)
    except ConnectionError as error:
        say(f"{arguments.device} cannot be used:\n{error}")
        run.write(error=str(error))
        return 3
    run.try_cases(chosen(arguments.only, arguments.most))
    run.make_small()
    if not arguments.no_bench:
        run.measure()
    run.write()
    say(run.summary())
    return int(bool(run.differing or run.failing or run.missing))


def chosen(only: Collection[str], most: int) -> list[str]:
    """Names of cases that begin so, in order, and no more of a kind."""
    count: dict[str, int] = {}
    names = []
    for name in cases():
        kind = name.partition(" ")[0]
        if name.startswith(tuple(only)) and count.get(kind, 0) < most:
            count[kind] = count.get(kind, 0) + 1
            names.append(name)
    return names


@dataclass
class Run:
    """Everything of one run; `lines` is what became of each case, by name."""

    device: str
    out: Path
    seconds: float
    processes: int
    patience: float
    begun: float = field(default_factory=time.monotonic)
    lines: dict[str, Line] = field(default_factory=dict)
    names: Sequence[str] = ()
    kernels: Path | None = None
    about: Line = field(default_factory=dict)
    small: list[Line] = field(default_factory=list)
    bench: Line = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    lock: Any = field(default_factory=Lock)

    @property
    def differing(self) -> list[str]:
        return [name for name, line in self.lines.items() if "wrong" in line]

    @property
    def failing(self) -> list[str]:
        return [name for name, line in self.lines.items() if "failed" in line]

    @property
    def missing(self) -> list[str]:
        return [name for name in self.names if name not in self.lines]

    def left(self, share: float = 1.0) -> float:
        """Seconds until so much of the time is over."""
        return self.begun + share * self.seconds - time.monotonic()

    def meet(self, kernels: Path | None, *, carried: bool) -> None:
        """Asks what the device is. Raises ConnectionError with what was said where it cannot be used."""
        done = subprocess.run(self._command("--about"), capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            raise ConnectionError(done.stderr[-6000:])
        self.about = json.loads(done.stdout.splitlines()[-1])
        if self.device == "CUDA" and (carried or not self.about["compiler"]):
            self.kernels = kernels
            self.about["compiler"] = f"the driver, of {kernels}"
        say(json.dumps(self.about, indent=1))

    # Cases

    def try_cases(self, names: Sequence[str]) -> None:
        """Tries all that have no line yet, until their share of the time is over."""
        self.names = names
        file = self.out / "lines.jsonl"
        if file.exists():
            known = (json.loads(line) for line in file.read_text().splitlines())
            self.lines = {line["case"]: line for line in known if line["case"] in set(names)}
        waiting = SimpleQueue[str]()
        for name in self.missing:
            waiting.put(name)
        begun = time.monotonic()
        say(f"{len(names)} cases, {len(self.missing)} to be tried by {self.processes} processes")
        with file.open("a") as record, ThreadPoolExecutor(self.processes) as pool:
            for lines in [pool.submit(self._work, waiting, record) for _ in range(self.processes)]:
                lines.result()
        self.took["cases"] = time.monotonic() - begun
        self.write()

    def _work(self, waiting: "SimpleQueue[str]", record: Any) -> None:
        worker = None
        while self.left(CASES) > 0 and not self._is_hopeless():
            try:
                name = waiting.get_nowait()
            except Empty:
                break
            worker = worker or Worker(self._command(), self.out / "errors.txt")
            line = worker.tries(name, min(self.patience, max(5.0, self.left(CASES) + 30)))
            if "failed" in line:
                worker.end()
                worker = None
            self._enter(line, record)
        if worker:
            worker.end()

    def _is_hopeless(self) -> bool:
        """Whether the first that were tried have all failed: the same reason is not found out a thousand times."""
        return len(self.lines) >= HOPELESS and len(self.failing) == len(self.lines)

    def _enter(self, line: Line, record: Any) -> None:
        with self.lock:
            self.lines[line["case"]] = line
            record.write(json.dumps(line) + "\n")
            record.flush()
            if "wrong" in line or "failed" in line:
                say(f"{line['case']}: {line.get('wrong') or line['failed'].splitlines()[-1]}")
            if len(self.lines) % 50 == 0:
                say(f"{len(self.lines)} cases, {len(self.differing)} differ, {len(self.failing)} failed")

    # Differences

    def make_small(self) -> None:
        """The first that differ, each by a process of its own."""
        begun, names = time.monotonic(), [name for name in self.names if "wrong" in self.lines.get(name, {})][:MOST]
        with ThreadPoolExecutor(self.processes) as pool:
            self.small = list(pool.map(self._small, names))
        self.took["differences"] = time.monotonic() - begun
        self.write()

    def _small(self, name: str) -> Line:
        folder = self.out / "differences" / name.replace(" ", "-")
        command = self._command("--small", name, str(folder))
        limit = max(10.0, self.left(CASES + SMALL))
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
            text, error = done.stdout, done.stderr[-2000:]
        except subprocess.TimeoutExpired as expired:
            text, error = (expired.stdout or b"").decode(), f"not smaller in {limit:.0f} s"
        reports = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        say(f"{name}: {reports[-1]['report'].splitlines()[-1] if reports and reports[-1]['report'] else error}")
        return (reports[-1] if reports else {"case": name}) | ({"error": error} if error else {})

    # Figures

    def measure(self) -> None:
        """`scripts/bench device` in what is left of the time, and the clocks meanwhile."""
        begun, file = time.monotonic(), self.out / "bench.jsonl"
        file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "support.bench.device", self.device, "--json", str(file)]
        with clocks() as seen, suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, env={**os.environ, "DEV": self.device}, check=False, timeout=max(10.0, self.left() - 5)
            )
            self.bench["ended with"] = done.returncode
        self.bench["clocks"] = seen
        self.bench["rows"] = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        self.took["bench"] = time.monotonic() - begun

    # What comes out

    def write(self, **more: Any) -> None:
        """All that is known so far, as one file."""
        agree = [n for n, line in self.lines.items() if "wrong" not in line and "failed" not in line]
        content = {
            "version": VERSION, "about": self.about, "seconds": {k: round(v, 1) for k, v in self.took.items()},
            "cases": len(self.names), "answers": len(committed()), "agree": len(agree),
            "calls": sum(self.lines[n]["calls"] for n in agree), "sets": sum(self.lines[n]["sets"] for n in agree),
            "differ": self.differing, "failed": {n: self.lines[n]["failed"] for n in self.failing},
            "not tried": self.missing, "differences": self.small, "bench": self.bench,
            "slowest": sorted(((line["seconds"], n) for n, line in self.lines.items()), reverse=True)[:20], **more,
        }  # fmt: skip
        (self.out / "report.json").write_text(json.dumps(content, indent=1) + "\n")

    def summary(self) -> str:
        """In a few lines."""
        agree = len(self.lines) - len(self.differing) - len(self.failing)
        words = [f"{agree} of {len(self.names)} cases agree", f"{len(self.differing)} differ"]
        words += [f"{len(self.failing)} failed", f"{len(self.missing)} were not tried"]
        return f"{', '.join(words)}; {time.monotonic() - self.begun:.0f} s. {self.out / 'report.json'}"

    def _command(self, *more: str) -> list[str]:
        kernels = ["--kernels", str(self.kernels)] if self.kernels else []
        return [sys.executable, "-m", "support.conformance.tried", self.device, *kernels, *more]


class Worker:
    """A process that tries one case after the other."""

    def __init__(self, command: Sequence[str], errors: Path) -> None:
        self.errors = errors.open("a")
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.errors, text=True, bufsize=1)

    def tries(self, name: str, seconds: float) -> Line:
        """How a case ended; the process is ended if it takes longer."""
        timer = Timer(seconds, self.process.kill)
        timer.start()
        try:
            with suppress(OSError):
                self._input.write(name + "\n")
            line = next((line for line in self._lines() if "case" in line), None)
        finally:
            timer.cancel()
        if line is None:
            code = self.process.wait(10)
            why = f"the process ended with {code}" if code != -9 else f"ended after {seconds:.0f} s"
            return {"case": name, "seconds": seconds, "failed": why}
        return line

    def end(self) -> None:
        """Ends the process."""
        with suppress(OSError):
            self._input.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._output.close()
        self.errors.close()

    @property
    def _input(self) -> Any:
        return self.process.stdin

    @property
    def _output(self) -> Any:
        return self.process.stdout

    def _lines(self) -> Iterator[Line]:
        for text in self._output:
            if text.startswith("{"):
                yield json.loads(text)


if __name__ == "__main__":
    sys.exit(main())
