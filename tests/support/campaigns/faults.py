"""Single wrong bits in captured graphs and others, disputed before the deployed contracts: `scripts/faults`.

Games are numbered, and each number is the same game for ever; the last of ten is about a right result. What went as it
must stands in tests/vectors/faults.json, and the next run goes on behind it. Any other end is shown with the game's
number, graph and fault, and all moves.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from traceback import format_exception

from eigentensor.chain import Network, anvil_account
from eigentensor.task import State
from eigentensor_local.anvil import Anvil, local_network
from eigentensor_local.foundry import CONTRACTS
from support.campaigns import campaign as campaigns
from support.campaigns.campaign import Line, apart, say
from support.stories.faults import Story, is_honest, story
from support.stories.game_course import Course
from support.stories.game_table import OPERATORS, laid

RECORD = Path(__file__).parents[2] / "vectors" / "faults.json"
#: Games for one process, and of these so many between two resets of its chain.
BLOCK, RESET = 140, 70
#: Of gas, as it is counted.
STEP = 25_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/faults", description=__doc__)
    parser.add_argument("faults", type=int, nargs="?", default=1000, help="how many more, at least")
    parser.add_argument("--minutes", type=float, default=95, help="begin nothing new afterwards")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--block", type=int, nargs=2, metavar=("FIRST", "COUNT"), help="only these, here; no record")
    parser.add_argument("--again", type=int, metavar="NUMBER", help="one game, shown")
    arguments = parser.parse_args()
    if arguments.again is not None:
        return again(arguments.again)
    if arguments.block:
        for line in played(range(arguments.block[0], sum(arguments.block))):
            say(json.dumps(line))
        return 0
    return campaign(arguments.faults, arguments.minutes, arguments.processes)


# One game after the other


def played(numbers: range) -> Iterator[Line]:
    """A line for each game: how it went, or why it failed."""
    with local_network(map(anvil_account, OPERATORS)) as (anvil, network):
        for start in range(numbers.start, numbers.stop, RESET):
            yield from _played(anvil, network, numbers[start - numbers.start :][:RESET])


def _played(anvil: Anvil, network: Network, numbers: Sequence[int]) -> Iterator[Line]:
    """If one cannot be played to its end, each is played on a chain without the others."""
    stories = [story(number) for number in numbers]
    try:
        with laid(anvil, network) as table:
            ends = list(table.ends([s.case for s in stories]))
    except Exception as error:
        if len(numbers) == 1:
            yield {"failed": numbers[0], "report": "".join(format_exception(error))}
        for number in numbers if len(numbers) > 1 else ():
            yield from _played(anvil, network, [number])
        return
    for game, (course, state) in zip(stories, ends, strict=True):
        yield _line(game, course, state)


def _line(game: Story, course: Course, state: State) -> Line:
    convicted = None if course.outcome is None else course.outcome.executor_lost
    right = (False, None) if game.is_honest else (True,)
    if convicted not in right or state is not (State.FINAL if game.is_honest else State.CONVICTED):
        return {"failed": game.number, "report": f"{course}\nthe task is {state.name}"}
    end = course.sent[-1].function if course.outcome else "timeout"
    return {
        "number": game.number,
        "graph": game.graph,
        "kinds": game.kinds,
        "end": end,
        "moves": len(course.sent),
        "gas": course.gas,
    }


def again(number: int) -> int:
    game = story(number)
    with local_network(map(anvil_account, OPERATORS)) as (anvil, network), laid(anvil, network) as table:
        ((course, state),) = table.ends([game.case])
    say(f"{course}\n{state.name}, {course.gas:,} gas")
    return int("failed" in _line(game, course, state))


# Many


def campaign(faults: int, minutes: float, processes: int) -> int:
    record, begun, done = Record(), time.monotonic(), 0
    say(f"from game {record.next} on, contracts {record.contracts}")
    end = _end(record.next, faults)
    blocks = [range(n, min(n + BLOCK, end)) for n in range(record.next, end, BLOCK)]
    for lines in campaigns.tried(record, blocks, _apart, minutes, processes):
        done += sum("kinds" in line and not is_honest(line["number"]) for line in lines)
        rate = done / (time.monotonic() - begun) * 60
        say(f"{done} faults convicted, {rate:.1f} a minute, 1,000 in {1000 / max(rate, 1e-9):.0f} minutes")
    say(record.summary())
    return int(bool(record.failing))


def _end(first: int, faults: int) -> int:
    """Behind the last game of so many faults."""
    number = first
    while faults > 0:
        faults -= not is_honest(number)
        number += 1
    return number


def _apart(numbers: range) -> Iterator[Line]:
    """What a process of its own, with a chain of its own, says of these games."""
    lines, report = apart(__file__, numbers)
    yield from lines
    if report:
        reported = {line.get("number", line.get("failed")) for line in lines}
        yield from ({"failed": number, "report": report} for number in numbers if number not in reported)


class Record(campaigns.Record):
    """tests/vectors/faults.json: which games have been played, on which contracts, how they ended, and which failed."""

    def __init__(self) -> None:
        self.contracts = contracts()
        counted = ("convicted", "acquitted", "transactions")
        super().__init__(RECORD, {"contracts": self.contracts}, counted, graphs={}, kinds={}, ends={}, gas={})

    def add(self, numbers: range, lines: list[Line]) -> None:
        failed = {line["failed"]: line["report"] for line in lines if "failed" in line}
        passed = [line for line in lines if "number" in line]
        for report in failed.values():
            say(report)
        faults = [line for line in passed if not is_honest(line["number"])]
        for name, values in (
            ("graphs", [line["graph"] for line in faults]),
            ("kinds", [kind for line in faults for kind in line["kinds"]]),
            ("ends", [line["end"] for line in passed]),
            ("gas", [str(-(-line["gas"] // STEP) * STEP) for line in faults]),
        ):
            totals = Counter(self.content[name]) + Counter(values)
            self.content[name] = dict(sorted(totals.items(), key=lambda item: item[0].zfill(9)))
        counts = {"convicted": len(faults), "acquitted": len(passed) - len(faults)}
        counts["transactions"] = sum(line["moves"] for line in passed)
        self.enter(numbers, failed.keys(), {line["number"] for line in passed}, counts)

    def summary(self) -> str:
        each = sorted(int(most) for most, count in self.content["gas"].items() for _ in range(count))
        quantiles = ", ".join(f"{each[(len(each) - 1) * q // 100]:,} at {q} %" for q in (10, 50, 90, 100) if each)
        lines = [f"{name} {self.content[name]}" for name in ("total", "ends", "kinds", "graphs")]
        return "\n".join((*lines, f"gas of a dispute, at most: {quantiles}", f"failing: {self.failing or 'none'}"))


def contracts() -> str:
    """Which contracts decide: a hash of the sources of the game and of all that it uses."""
    sources = sorted((CONTRACTS / "src").rglob("*.sol"))
    return sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
