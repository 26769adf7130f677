"""Processor time of the command in a process of its own, its modules compiled already, as where it is installed."""

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def least(
    words: list[str],
    runs: int,
    bytecode: Path,
    *,
    folder: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> float:
    """Milliseconds of user and system time that it takes, the least of some runs in a folder. What is compiled lies in
    the folder `bytecode`, which the first run of all fills."""
    compiled = {"PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    environment = {**os.environ, **compiled, **(settings or {})}
    return min(_milliseconds(words, folder, environment) for _ in range(runs))


def _milliseconds(words: list[str], folder: Path | None, environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "eigentensor_client", *words]
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
