"""What is recorded and not computed yet, and what workers have done."""

import sys
from typing import Any

from eigentensor.gt.connection import recorder


def get_tape() -> list[str]:
    """The instructions that were recorded since somebody last looked at a result, one text for each."""
    return recorder().pending()


def print_tape() -> None:
    """Writes them to the standard output, one a line."""
    sys.stdout.write("".join(f"{line}\n" for line in get_tape()))


def get_worker_stats() -> dict[str, dict[str, Any]]:
    """What each worker has done for this session, by its name: runs, and the seconds that they took."""
    return {w.name: {"runs": w.runs, "seconds": w.seconds} for w in recorder().session.stats().workers}


def print_worker_stats() -> None:
    """Writes that to the standard output, a worker a line, and what the session holds."""
    stats = recorder().session.stats()
    lines = [f"{w.name}: {w.runs:,} runs, {w.seconds:.3f} s" for w in stats.workers]
    held = f"{stats.handles:,} tensors of {stats.held:,} bytes, {stats.programs:,} programs"
    lines.append(f"{held}, {stats.compiled:,} kernels compiled")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
