"""Seconds from one command to a checked result, where neither a network runs nor anything is kept from before.

scripts/bench first-result    `eigentensor run model.onnx -i x=@x.npy --wait checked`, twice: the second finds
                              what the first compiled. The goal is 60 s, after scripts/setup
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from support.bench.pairs import say
from support.programs.onnx_models import mlp, saved

GOAL = 60.0
#: What the command says when it has got so far.
MARKS = {"network": "eigentensor ", "posted": "posted ", "accepted": "accepted:", "committed": "committed:"}


def environment(folder: Path) -> dict[str, str]:
    """Whatever the user would keep lies in the folder."""
    own = {f"XDG_{word}_HOME": str(folder / word.lower()) for word in ("STATE", "CACHE", "DATA", "CONFIG")}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("EIGENTENSOR_")}
    return kept | own | {"TMPDIR": str(folder)}


def started(folder: Path, *more: str) -> "subprocess.Popen[str]":
    """The command, with more words; the model and `out.safetensors` lie in the folder, too."""
    made, arrays = mlp()
    model = saved(made, folder)
    (name, array), *_ = arrays.items()
    np.save(folder / "input.npy", array)
    words = ["run", str(model), "-i", f"{name}=@{folder / 'input.npy'}", "-o", str(folder / "out.safetensors")]
    command = [sys.executable, "-m", "eigentensor_client", *words, "--wait", "checked", *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(folder)
    )


def first_result(folder: Path) -> tuple[dict[str, float], str]:
    """Seconds until each mark, until the result was checked, and until all had ended; and what was printed."""
    began, seconds, printed = time.monotonic(), dict[str, float](), []
    with started(folder) as process:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            marks = {word for word, start in MARKS.items() if line.startswith(start)}
            marks |= {"checked"} if re.match(r"state +(final, )?checked\(1\)", line) else set()
            for word in marks - seconds.keys():
                seconds[word] = time.monotonic() - began
    seconds["ended"] = time.monotonic() - began
    if process.returncode:
        raise SystemExit("".join(printed))
    return seconds, "".join(printed)


def main() -> None:
    with TemporaryDirectory(prefix="eigentensor-") as folder:
        for word in ("from nothing", "again"):
            before = os.times()
            seconds, _ = first_result(Path(folder))
            after = os.times()
            used = after.children_user + after.children_system - before.children_user - before.children_system
            say(f"{word}: " + ", ".join(f"{mark} {at:.1f} s" for mark, at in seconds.items()))
            say(
                f"{word}: checked after {seconds['checked'] / GOAL:.2f} of {GOAL:.0f} s; processors worked {used:.0f} s"
            )


if __name__ == "__main__":
    main()
