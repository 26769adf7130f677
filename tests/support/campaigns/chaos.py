"""A running network with bad lines between its parties, on systems that fail them: `scripts/chaos`.

Schedules are numbered, and each number is the same faults and the same lies for ever; when they come depends on the
machine. What went as it must stands in tests/vectors/chaos.json, and the next run goes on behind it.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from traceback import format_exception

from support.campaigns import campaign as campaigns
from support.campaigns.campaign import Line, apart, say
from support.stories.chaos import Schedule, place

RECORD = Path(__file__).parents[2] / "vectors" / "chaos.json"
#: Schedules of one network, which are played again where a run was broken off; and those of them that overlap, after
#: which everything must hold.
BLOCK, WAVE = 16, 8


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("schedules", type=int, nargs="?", default=30, help="how many more")
    parser.add_argument("--minutes", type=float, default=95, help="begin nothing new afterwards")
    parser.add_argument("--block", type=int, nargs=2, metavar=("FIRST", "COUNT"), help="only these, here; no record")
    arguments = parser.parse_args()
    if arguments.block:
        for line in played(range(arguments.block[0], sum(arguments.block))):
            say(json.dumps(line))
        return 0
    return campaign(arguments.schedules, arguments.minutes)


def played(numbers: range) -> Iterator[Line]:
    """A line for each schedule: what was planted, or why an invariant does not hold; then all that were played together
    have failed, and the network is not played on."""
    with tempfile.TemporaryDirectory() as folder, place(Path(folder)) as there:
        for first in numbers[::WAVE]:
            wave, begun = [Schedule.of(number) for number in range(first, numbers.stop)[:WAVE]], time.monotonic()
            try:
                planted = there.played(wave)
            except Exception as error:
                shown = "\n".join(map(str, wave))
                report = f"{shown}\n{''.join(format_exception(error))}{there.logs()}"
                yield from ({"failed": one.number, "report": report if one is wave[0] else ""} for one in wave)
                return
            seconds = round((time.monotonic() - begun) / len(wave), 1)
            for schedule, counts in zip(wave, planted, strict=True):
                lies, tasks = sum(schedule.lies), len(schedule.lies)
                yield {"number": schedule.number, "planted": counts, "lies": lies, "tasks": tasks, "seconds": seconds}


def campaign(schedules: int, minutes: float) -> int:
    record = Record()
    first, end = record.next, record.next + schedules
    blocks = [range(n, min(n + BLOCK, end)) for n in range(first, end, BLOCK)]
    for lines in campaigns.tried(record, blocks, _apart, minutes, 1):
        say(f"{sum('number' in line for line in lines)} of {len(lines)} schedules held")
    say("\n".join(f"{name} {record.content[name]}" for name in ("total", "kinds", "failing")))
    return int(bool(record.failing))


def _apart(numbers: range) -> Iterator[Line]:
    """What a process of its own, with a network of its own, says of these; those behind one that failed are tried on
    another network."""
    lines, report = apart(__file__, numbers)
    yield from lines
    behind = numbers[len(lines) :]
    if report:
        yield {"failed": behind.start, "report": report}
        behind = behind[1:]
    if behind:
        yield from _apart(behind)


class Record(campaigns.Record):
    """tests/vectors/chaos.json: which schedules have been played, what was planted, and which failed."""

    def __init__(self) -> None:
        super().__init__(RECORD, {}, ("held", "tasks", "lies"), kinds={})

    def add(self, numbers: range, lines: list[Line]) -> None:
        """See `campaigns.Record`."""
        held = [line for line in lines if "number" in line]
        failed = {line["failed"]: line["report"] for line in lines if "failed" in line}
        for report in failed.values():
            say(report)
        kinds = Counter(self.content["kinds"])
        for line in held:
            kinds.update(line["planted"])
        self.content["kinds"] = dict(sorted(kinds.items()))
        counts = {name: sum(line[name] for line in held) for name in ("tasks", "lies")} | {"held": len(held)}
        self.enter(numbers, failed.keys(), {line["number"] for line in held}, counts)


if __name__ == "__main__":
    sys.exit(main())
