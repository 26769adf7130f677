"""Processor time of `--help`, of the whole command and of every verb, in milliseconds.

scripts/bench help    the least of five runs each; the goal is 200 ms
"""

import os
import subprocess
import sys

from eigentensor_client.cli import PARTS, VERBS
from support.bench.pairs import say

GOAL, RUNS = 200.0, 5


def milliseconds(*words: str) -> float:
    """Of one process, of its children's user and system time."""
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "eigentensor_client", *words, "--help"], stdout=subprocess.DEVNULL, check=True
    )
    after = os.times()
    return 1e3 * (after.children_user + after.children_system - before.children_user - before.children_system)


def main() -> None:
    for words in ([], *([name] for name in (*VERBS, *PARTS))):
        least = min(milliseconds(*words) for _ in range(RUNS))
        say(f"{' '.join(['eigentensor', *words, '--help']):32} {least:4.0f} ms, {least / GOAL:.2f} of {GOAL:.0f}")


if __name__ == "__main__":
    main()
