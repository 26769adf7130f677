"""Kernels for CUDA that were compiled to PTX beforehand, in a zip file: for a GPU whose machine has no NVRTC.

The driver compiles PTX for its GPU, and PTX names every rounding. Kernels are found by their text, so the grids must be
those of one size of GPU, whatever runs them.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import ExecutionError
from eigentensor.runtime.gpu import cuda, nvrtc
from eigentensor.runtime.gpu.grid import Many
from eigentensor.runtime.gpu.gridded import Gridded, Queue
from support.generated.trials import Trial
from support.oracles.agreement import Way, exposed
from support.oracles.backends import Backend, backend

#: The oldest that CUDA 13 knows, and a GPU that has as many multiprocessors as an H100.
ARCHITECTURE, GROUPS = "sm_75", 132


def chosen(device: str, kernels: Path | None) -> Backend:
    """The device as it serves; CUDA with carried kernels, if a file of them is given."""
    if device != "CUDA" or kernels is None:
        return backend(device)
    cuda.queue()  # raises where there is no GPU
    return carried(kernels)


def carried(file: Path) -> Backend:
    """CUDA with the kernels of a file and no others."""
    made = _build(cuda.queue, partial(_found, file))
    return Backend("CUDA", "CUDA", lambda: made)


def compiled(trial: Trial) -> dict[str, bytes]:
    """The PTX of all kernels that a trial needs, by name. Needs no GPU."""
    found: dict[str, bytes] = {}
    cache = Cache(default_folder())

    def build(text: str) -> bytes:
        key = sha256(f"{nvrtc.release()} {ARCHITECTURE} {nvrtc.FLAGS}\n{text}".encode()).hexdigest()
        if (ptx := cache.get(key)) is None:
            ptx = nvrtc.compiled(ARCHITECTURE, text).ptx.encode()
            cache.put(key, ptx)
        found[_name(text)] = ptx
        return ptx

    made = _build(_no_queue, build)
    way_of(Backend("CUDA", "CUDA", lambda: made), trial)
    return found


def way_of(backend: Backend, trial: Trial) -> Way:
    """Compiles all kernels of a trial together, those of every call given out, too."""
    return backend.way([trial.program, exposed(trial.program)])


def _build(queue: Callable[[], Queue], build: Callable[[str], bytes]) -> Gridded:
    made = Gridded(f"PTX {ARCHITECTURE}", Many(GROUPS, 256, nvrtc.SHARED), "cuda.h", build, queue, device="CUDA")
    return replace(made, schedules={})  # what was tuned here would be other text there


def _found(file: Path, text: str) -> bytes:
    """The PTX of a text, as the driver takes it. Raises ExecutionError if it is not carried."""
    with ZipFile(file) as archive:
        try:
            return archive.read(_name(text)) + b"\0"
        except KeyError:
            raise ExecutionError("this kernel is not carried, and NVRTC is not installed") from None


def _name(text: str) -> str:
    return f"{sha256(text.encode()).hexdigest()[:32]}.ptx"


def _no_queue() -> Queue:
    raise ExecutionError("kernels are only compiled here")
