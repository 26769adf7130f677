"""A client where Linux is not: on Windows, as far as that shows without it, and on what macOS has less than Linux."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from eigentensor import reference
from eigentensor.program.codec import decode
from support.vectors.receipts import load

ROOT = Path(__file__).parents[2]
#: After what a client does: everything that it could import, a lock, a program executed and left for comparison.
SCRIPT = """
import pkgutil, sys
from importlib import import_module
from pathlib import Path
from support.foreign import leave_linux
leave_linux()
import eigentensor_client
for module in pkgutil.walk_packages(eigentensor_client.__path__, "eigentensor_client."):
    if not module.name.endswith("__main__"):
        import_module(module.name)

from eigentensor import system
with open("locked", "ab") as one, open("locked", "ab") as two:
    system.lock(one.fileno())
    try:
        system.lock(two.fileno())
    except BlockingIOError:
        system.unlock(one.fileno())
    system.lock(two.fileno(), wait=True)

import numpy as np
from eigentensor import TensorContext, execute_graph_on_gpu
context = TensorContext()
a, b = (context.add_graph_input(name, (33, 17) if name == "a" else (17, 5)) for name in "ab")
program = context.compile_to_graph((a @ b).relu())
Path("x.program").write_bytes(program.to_bytes())
inputs = {"a": np.linspace(-2, 3, 33 * 17, dtype="f4").reshape(33, 17), "b": np.ones((17, 5), "f4") / 3}
np.savez("made.npz", **inputs, output=execute_graph_on_gpu(program, inputs))
"""


def foreign(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """A process that has left Linux: the command with these arguments, or Python's."""
    python = [sys.executable, *(words if words[0] == "-c" else ("-m", "support.foreign", *words))]
    places = [str(ROOT / "tests"), str(ROOT / "client" / "examples")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "XDG_CACHE_HOME": str(folder / "cache")}
    environment |= {"OCL_ICD_VENDORS": str(folder)}  # no OpenCL either, which would be tried for long
    return subprocess.run(python, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)


def test_it_captures_executes_and_checks_and_says_what_is_missing(tmp_path: Path) -> None:
    done = foreign("-c", SCRIPT, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the device CPU runs on Linux, not on Windows: the reference computes small programs" in done.stderr
    program = decode((tmp_path / "x.program").read_bytes())
    made = np.load(tmp_path / "made.npz")
    expected = reference.execute(program, {"a": made["a"], "b": made["b"]}).outputs["output"]
    assert made["output"].tobytes() == expected.tobytes()

    (tmp_path / "task.receipt").write_bytes(load()["confirmed"].to_bytes())
    done = foreign("receipt", "check", "task.receipt", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "final, checked(1)"
    done = foreign("program", "capture", str(ROOT / "client/examples/matmul.py"), folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_nothing_that_is_gone_is_a_name_on_this_machine_only_by_chance() -> None:
    """What the process does without is there on Linux: else nothing would have been taken away."""
    code = "import support.foreign as f; print([n for m, names in f.NAMES.items() for n in names if not hasattr(m, n)])"
    done = foreign("-c", code, folder=ROOT)
    assert done.stdout == "[]\n", done.stderr
