"""Tries cases on a device, in a process of its own: `python -m support.conformance.tried DEVICE [--kernels FILE]`.

Names of cases come in, a line each; a line of JSON goes out when a case begins, and one that says how it ended. With
`--small NAME FOLDER` one case that differs is made small, and kept in a folder. `--about` says what the device is.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from traceback import format_exc

from eigentensor.program.binding import bind
from support.campaigns.campaign import Line, say
from support.campaigns.fuzz import kept
from support.conformance.answers import committed, examples, results_of, wrong
from support.conformance.carried import chosen, way_of
from support.conformance.cases import cases
from support.conformance.machine import about
from support.generated.programs import Example
from support.generated.shrink import alone
from support.generated.trials import Trial
from support.oracles.agreement import Way, differences, exposed, first_failure, rows_of
from support.oracles.backends import Backend


def main() -> int:
    parser = argparse.ArgumentParser(prog="support.conformance.tried", description=__doc__)
    parser.add_argument("device")
    parser.add_argument("--kernels", type=Path)
    parser.add_argument("--small", nargs=2, metavar=("NAME", "FOLDER"))
    parser.add_argument("--about", action="store_true")
    arguments = parser.parse_args()
    if arguments.about:
        say(json.dumps(about(arguments.device)))
        return 0
    here = chosen(arguments.device, arguments.kernels)
    if arguments.small:
        small(arguments.small[0], here, Path(arguments.small[1]))
        return 0
    return int(any(_failed(name.strip(), here) for name in sys.stdin))


def _failed(name: str, backend: Backend) -> bool:
    """Tries a case; true if it did not come to an end: what it left of the device, or of this process, is not used."""
    say(json.dumps({"begins": name}))
    begun, line = time.monotonic(), {"case": name}
    try:
        line |= tried(name, backend)
    except Exception:
        line |= {"failed": format_exc(limit=-8)[-4000:]}
    say(json.dumps(line | {"seconds": round(time.monotonic() - begun, 3)}))
    return "failed" in line


def tried(name: str, backend: Backend) -> Line:
    """How a case went: the number of its calls and executed sets, and what was wrong."""
    trial = cases()[name]()
    sets = sum(len(group.sets) for group in trial.groups)
    line: Line = {"calls": len(trial.program.calls), "sets": sets}
    if differs := wrong(trial, committed()[name], way_of(backend, trial)):
        line |= {"wrong": differs.what, "call": differs.call, "given": differs.given}
    return line


def small(name: str, backend: Backend, folder: Path) -> None:
    """Says what differs in a case, then makes it small and says that. It needs a compiler."""
    trial, way = cases()[name](), backend.way()
    differs = wrong(trial, committed()[name], way_of(backend, trial))
    failing = None if differs is None else _failing(trial, differs.call, way)
    if failing is None:
        what = "it agrees" if differs is None else differs.what
        say(json.dumps({"case": name, "report": f"tried again, with each kernel by itself: {what}"}))
        return
    shown = "\n".join(map(str, differences(failing, way)[:5]))
    say(json.dumps({"case": name, "report": shown, "small": False}))
    say(json.dumps({"case": name, "report": kept(failing, way, folder)[:6000], "small": True}))


def _failing(trial: Trial, call: int | None, way: Way) -> Example | None:
    """An example that differs from the reference: one call alone if what it reads is known to be right."""
    if call is None or trial.repeat > 1 or len(trial.groups) > 1 or len(trial.groups[0].sets) > 1:
        return first_failure(trial, rows_of(trial), way)
    (example,) = examples(trial, trial.groups[0])
    buffers = [*bind(example.program, example.tensors, example.variables)]
    buffers += [array.reshape(-1) for array in results_of(example, way(exposed(example.program)))]
    one = alone(example, buffers, call)
    return one if differences(one, way) else None


if __name__ == "__main__":
    sys.exit(main())
