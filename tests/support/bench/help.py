"""Processor time of `--help`, of the whole command and of every verb, in milliseconds.

scripts/bench help    the least of five runs each; the goal is 200 ms
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from eigentensor_client.cli import PARTS, VERBS
from support.bench.pairs import say
from support.bench.processor_time import least

GOAL, RUNS = 200.0, 5


def main() -> None:
    with TemporaryDirectory() as bytecode:
        for words in ([], *([name] for name in (*VERBS, *PARTS))):
            took = least([*words, "--help"], RUNS, Path(bytecode))
            say(f"{' '.join(['eigentensor', *words, '--help']):32} {took:4.0f} ms, {took / GOAL:.2f} of {GOAL:.0f}")


if __name__ == "__main__":
    main()
