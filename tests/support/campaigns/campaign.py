"""Numbered examples without end: tried in blocks, each in a process of its own, behind those that have passed."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2]
Line = dict[str, Any]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Record:
    """A JSON file: which numbers have been tried in which run, what was counted, and which fail.

    A run is of one day and of what is the `same` in it.
    """

    def __init__(self, path: Path, same: Line, counted: Sequence[str], **more: Line) -> None:
        self._path, self._same, self._counted = path, same, counted
        empty: Line = {"total": {}, "failing": [], **more, "runs": []}
        self.content = json.loads(path.read_text()) if path.exists() else empty

    @property
    def next(self) -> int:
        return max((run["to"] for run in self.content["runs"]), default=0)

    @property
    def failing(self) -> list[int]:
        return list(self.content["failing"])

    def add(self, numbers: range, lines: list[Line]) -> None:
        """Examples that were tried: the next ones, or some that have failed before."""
        raise NotImplementedError

    def enter(
        self, numbers: range, failed: Collection[int], passed: Collection[int], counts: Mapping[str, int]
    ) -> None:
        """What `add` has read, written to the file."""
        self.content["failing"] = sorted({*self.failing, *failed} - {*passed})
        run = self._run()
        run["to"] = max(run["to"], numbers.stop)
        for name, count in counts.items():
            run[name] += count
        self.content["total"] = {name: sum(run[name] for run in self.content["runs"]) for name in self._counted}
        self._path.write_text(json.dumps(self.content, indent=1) + "\n")

    def _run(self) -> Line:
        same = {**self._same, "date": f"{datetime.now(UTC):%Y-%m-%d}"}
        runs = self.content["runs"]
        if not runs or any(runs[-1][name] != value for name, value in same.items()):
            runs.append({"from": self.next, "to": self.next, **dict.fromkeys(self._counted, 0), **same})
        current: Line = runs[-1]
        return current


def tried(
    record: Record, blocks: Sequence[range], run: Callable[[range], Iterable[Line]], minutes: float, processes: int
) -> Iterator[list[Line]]:
    """First what has failed before, then the blocks: the lines of each, which are in the record then. After so many
    minutes nothing new begins."""
    begun = time.monotonic()

    def lines_of(numbers: range) -> list[Line]:
        return [] if time.monotonic() > begun + 60 * minutes else list(run(numbers))

    with ThreadPoolExecutor(processes) as pool:
        for numbers in [range(n, n + 1) for n in record.failing]:
            record.add(numbers, lines_of(numbers))
        for numbers, lines in zip(blocks, pool.map(lines_of, blocks), strict=True):
            if not lines:
                break
            record.add(numbers, lines)
            yield lines


def apart(file: str, numbers: range, environment: Mapping[str, str] | None = None) -> tuple[list[Line], str]:
    """What `file --block` says in a process of its own; and how that ended, if it failed."""
    command = [sys.executable, file, "--block", str(numbers.start), str(len(numbers))]
    paths = {**(environment or os.environ), "PYTHONPATH": str(TESTS)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=paths)
    report = f"the process ended with {done.returncode}\n{done.stderr[-4000:]}" if done.returncode else ""
    return [json.loads(line) for line in done.stdout.splitlines()], report
