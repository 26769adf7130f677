"""A first day: from the wheel in an empty home to an own model's checked result, mistakes, an own operator.

scripts/first-day [--wheel FILE] [--keep]    with the wheel alone, every step in the commands that the pages name: its
                                             seconds, and the page that says the words of each. Ends with code 1 where
                                             a step fails, or needs a word that no page says.
"""

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import CalledProcessError

from eigentensor_client.screen import console, table
from support.newcomer.machine import Machine, built_wheel
from support.newcomer.pages import places_of
from support.newcomer.steps import FIRST, STEPS, Step, network, nothing_left
from support.newcomer.walk import Walk, Wrong, say

EXTRA = "local"  #: all parts on one machine
GOAL = 60  #: seconds to a checked result of an own model, after installation


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step went."""

    name: str
    seconds: float
    passed: bool
    what: str


def installed(folder: Path, wheel: Path) -> tuple[Machine, Outcome]:
    """The machine with the wheel. Raises CalledProcessError."""
    (place,) = places_of([package := f"eigentensor[{EXTRA}]"]).values()
    say(f"── install\n  $ pip install '{wheel.name}[{EXTRA}]'    ({place or 'nowhere'})")
    began = time.monotonic()
    machine = Machine(folder, sys.executable, wheel, EXTRA)
    what = f"{len(list(machine.packages.glob('*.dist-info')))} packages" if place else f"no page says {package}"
    return machine, Outcome("install", time.monotonic() - began, bool(place), what)


def taken(walk: Walk, name: str, step: Step) -> Outcome:
    """A step, and whether it went as the pages say."""
    say(f"── {name}")
    walk.printed, walk.unnamed = "", []
    began = time.monotonic()
    try:
        what, passed = step(walk), True
    except Wrong as error:
        what, passed = f"{error}", False
    except Exception as error:  # another fault of a step, which is not the last of the day
        what, passed = f"{type(error).__name__}: {error}", False
    if walk.unnamed:
        what, passed = f"{'' if passed else f'{what}; '}no page says {', '.join(dict.fromkeys(walk.unnamed))}", False
    seconds = time.monotonic() - began
    say(f"  {'passed' if passed else 'FAILED'} after {seconds:.1f} s: {what}")
    return Outcome(name, seconds, passed, what)


def day(machine: Machine) -> list[Outcome]:
    """All steps after the installation: the first ones where no network runs, the others on one that goes on."""
    with ExitStack() as stack:

        def begin(walk: Walk) -> str:
            stack.enter_context(network(walk))
            return "chain, aggregator, three operators"

        def end(walk: Walk) -> str:
            stack.close()
            return nothing_left(walk)

        walk = Walk(machine)
        steps = [*STEPS[:FIRST], ("a network that goes on", begin), *STEPS[FIRST:], ("its end", end)]
        return [taken(walk, name, step) for name, step in steps]


def shown(outcomes: list[Outcome]) -> None:
    """The table of all steps, and how long the first result took."""
    rows = [[one.name, f"{one.seconds:.1f}", "passed" if one.passed else "FAILED", one.what] for one in outcomes]
    rows.append(["in all", f"{sum(one.seconds for one in outcomes):.1f}", "", ""])
    console().print(table(("step", "seconds", "", ""), rows))
    first = outcomes[1]
    say(f"an own model's checked result {first.seconds:.1f} s after installation; the goal is {GOAL} s")


def main() -> int:
    """The exit code: 1 where a step failed."""
    parser = argparse.ArgumentParser(
        prog="scripts/first-day", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheel", type=Path, help="the wheel [built of the files as they are now]")
    parser.add_argument("--keep", action="store_true", help="keep the machine's folders, and say where they are")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="eigentensor-day-"))
    try:
        wheel = options.wheel.resolve() if options.wheel else built_wheel(folder / "dist")
        machine, first = installed(folder, wheel)
        outcomes = [first, *day(machine)]
        shown(outcomes)
        return int(not all(one.passed for one in outcomes))
    except CalledProcessError as error:
        say(f"{' '.join(map(str, error.cmd))}: {error.stderr.decode()}")
        return 1
    finally:
        if options.keep:
            say(f"kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
