"""The process that runs a stranger's program: `python -m eigentensor.runtime.sandbox.child FOLDER`.

FOLDER holds job.json, the program and its tensors; what is wanted is written into the file `results`, nothing else
(`returned`). A failure is one line of JSON on standard error and exit code 3.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eigentensor import hashing
from eigentensor.cache import Cache
from eigentensor.errors import BindingError, EigenTensorError
from eigentensor.program.binding import shaped
from eigentensor.program.codec import decode
from eigentensor.runtime import devices
from eigentensor.runtime.build.kernels import Compiler
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.cpu.toolchain import Toolchain
from eigentensor.runtime.gpu.gridded import Gridded
from eigentensor.runtime.reach import Reach
from eigentensor.runtime.sandbox import confine, first
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.returned import Wanted
from eigentensor.store.tensors import load_flat, load_safetensors
from eigentensor.threads import start

FAILED = 3


def main(folder: Path) -> None:
    """The child's whole life: what it does before any stranger, then the tensors, the program and its results."""
    job = entered(folder)
    limits = Limits(**job["limits"])
    arrays = read_files(load_flat if job["rooted"] else load_safetensors, [folder / name for name in job["tensors"]])
    with open(folder / "results", "r+b", buffering=0) as out:
        program = decode((folder / "program").read_bytes())
        tensors = shaped(program, arrays) if job["rooted"] else arrays
        compiled = CompiledGraph(
            program,
            device=job["device"],
            threads=limits.threads,
            cache=Cache(folder / "kernels"),
            toolchain=toolchain(job["device"], job["toolchain"]) if job["toolchain"] else None,
            memory_limit=limits.memory,  # a sealed process cannot ask how much there is
        )
        back = Wanted(program, job["repeat"], tuple(job["keep"]), job["roots"]).writer(out)
        bound = tensors, job["variables"], job["repeat"]
        back.finish(compiled.run(*bound, observe=back.observe, only=back.only))


def entered(folder: Path, shared: int = 0) -> Mapping[str, Any]:
    """What its job says to a process that has started threads and the device's driver, and may from then on do what a
    sealed process may: of strangers it has read nothing yet. `shared` are bytes that it has mapped besides its own."""
    confine.tie()
    job: Mapping[str, Any] = json.loads((folder / "job.json").read_text())
    limits, device, reach = Limits(**job["limits"]), job["device"], Reach.from_json(job["reach"])
    if job.get("roots"):
        hashing.give(folder / "hashing", limits.threads)
    if devices.has_own_memory(device):
        first.run(device, toolchain(device, job["toolchain"]), folder / "kernels")
    else:
        start(limits.threads)
    confine.limit(replace(limits, memory=limits.memory + shared), job["file_bytes"], reach)
    if job["sealed"]:
        confine.seal(reach)
    return job


def read_files(load: Callable[[Path], dict[str, Any]], files: Sequence[Path]) -> dict[str, Any]:
    """What is in several files, mapped. Raises BindingError for a name that is in two of them."""
    contents: dict[str, Any] = {}
    for path in files:
        tensors = load(path)
        if twice := contents.keys() & tensors.keys():
            raise BindingError(f"tensor {min(twice)!r} is in two files")
        contents |= tensors
    return contents


def toolchain(device: str, text: str) -> Compiler:
    """What finds the kernels: nothing can be compiled in here."""
    if device.partition(":")[0] == "CPU":
        return replace(Toolchain.from_json(text), command=())
    here = devices.of(device)
    assert isinstance(here, Gridded)
    return here.from_json(text)


def described(error: BaseException) -> bytes:
    """The line that says what failed, and from which the parent makes its own error."""
    kind = "LimitError" if isinstance(error, MemoryError) else type(error).__name__
    what = "out of memory" if isinstance(error, MemoryError) else str(error)
    return json.dumps({"error": kind, "what": what, "fix": getattr(error, "fix", "")}).encode()


def report(error: BaseException) -> None:
    """Writes that line to standard error."""
    os.write(2, described(error) + b"\n")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (EigenTensorError, MemoryError, OSError) as failure:
        report(failure)
        os._exit(FAILED)
