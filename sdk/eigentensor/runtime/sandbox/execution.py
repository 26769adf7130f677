"""A stranger's program in a child process that can do nothing but compute.

Kernels are compiled one by one, each by a compiler in a sandbox of its own that sees only its C text and runs no code
of a program; this process puts their object code into the cache. The program runs in another sandbox that sees the
cache read-only. So no program can change the code that another one runs.
"""

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor import errors, hashing
from eigentensor.cache import Cache, default_folder
from eigentensor.errors import EigenTensorError, ExecutionError, LimitError, NoSandbox
from eigentensor.numerics.dtypes import DType
from eigentensor.program.binding import Results
from eigentensor.program.codec import decode
from eigentensor.program.model import Body, Program
from eigentensor.runtime import devices
from eigentensor.runtime.build.compilers import SECONDS
from eigentensor.runtime.build.kernels import prepare
from eigentensor.runtime.cpu.toolchain import Toolchain
from eigentensor.runtime.gpu.gridded import Gridded
from eigentensor.runtime.memory.plan import parts, refuse_over
from eigentensor.runtime.reach import NOTHING, Reach
from eigentensor.runtime.sandbox import first
from eigentensor.runtime.sandbox.bubblewrap import MESSAGE, OUTPUT, Ended, available, confined, failure, run
from eigentensor.runtime.sandbox.child import FAILED
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.returned import Observed, Wanted
from eigentensor.scratch import scratch
from eigentensor.store.tensors import save_safetensors

__all__ = ["Limits", "Observed", "available", "compile_sandboxed", "observe_sandboxed", "run_sandboxed"]

TASK = Path("/task")
NODELESS = (
    "programs on {device} cannot be confined: there are neither /dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidia0 nor "
    "/dev/dri/renderD128, the device files that a sandbox would give to what drives it"
)
NODELESS_FIX = (
    "Load the driver's modules (`nvidia-modprobe -u`), give a container these files, use the device CPU or, where all "
    "clients are trusted, do without the sandbox."
)
COMPILER = 'ulimit -v 4194304; ulimit -t 110; ulimit -f 32768; exec "$@"'
#: Errors that a child may report; anything else that it says is an ExecutionError.
REPORTED = {"BindingError", "LimitError", "ExecutionError", "NoSandbox", "TensorFileError"}


def run_sandboxed(
    program: bytes,
    tensors: Mapping[str, NDArray[Any]] | Sequence[Path],
    variables: Mapping[str, int] | None = None,
    repeat: int = 1,
    limits: Limits | None = None,
    *,
    device: str = "CPU",
    cache: Cache | None = None,
    unsafe: bool = False,
) -> Results:
    """Results of an encoded program on tensors, given as arrays or as safetensors files.

    `tensors` are arrays of the program's shapes, or files that are named by their bindings roots: those have none.

    Raises ProgramError if the bytes are no valid program, BindingError if tensors or variables do not fit, LimitError
    if the program needs more than `limits`, NoSandbox if there is no sandbox, SandboxError if the program crashed in
    it, and ExecutionError for other failures. A device that is driven by no device files known here is not confined:
    NoSandbox. `unsafe` runs the child without a sandbox, bounded by limits only.
    """
    return observe_sandboxed(
        program, tensors, variables, repeat, limits, device=device, cache=cache, unsafe=unsafe
    ).results


def observe_sandboxed(
    program: bytes,
    tensors: Mapping[str, NDArray[Any]] | Sequence[Path],
    variables: Mapping[str, int] | None = None,
    repeat: int = 1,
    limits: Limits | None = None,
    *,
    keep: Collection[int] = frozenset(),
    roots: bool = False,
    device: str = "CPU",
    cache: Cache | None = None,
    unsafe: bool = False,
) -> Observed:
    """As `run_sandboxed`, with what the executed calls `keep` wrote and, if asked for, the tensor roots of all.

    The child hashes each result before the next call runs: it takes the memory of `run_sandboxed`, and no more.
    """
    limits, cache = limits or Limits(), cache or Cache(default_folder())
    decoded = decode(program)
    refuse_over(limits.memory, decoded, device, repeat)
    end = monotonic() + limits.seconds
    bodies = bodies_of(decoded)
    here = None if device == devices.REFERENCE else settled(bodies, device, unsafe)
    if here is not None:
        _prepare(bodies, here, limits.seconds, cache, unsafe)
    reach = here.reach if here is not None else NOTHING
    wanted = Wanted(decoded, repeat, tuple(sorted(set(keep))), roots)
    written = OUTPUT if reach.scratch else MESSAGE
    job = {
        "limits": asdict(limits), "file_bytes": max(wanted.size, written), "sealed": not unsafe,
        "device": device, "toolchain": here.to_json() if here else "", "repeat": repeat,
        "reach": reach.to_json(), "variables": dict(variables or {}), "keep": wanted.keep, "roots": roots,
        "rooted": not isinstance(tensors, Mapping),
    }  # fmt: skip
    with scratch() as folder:
        files = _files(folder, decoded, tensors)
        (folder / "job.json").write_text(json.dumps(job | {"tensors": [f"tensors{i}" for i in range(len(files))]}))
        (folder / "program").write_bytes(program)
        (folder / "hashing").write_bytes(_hashing(cache) if roots else b"")
        (folder / "results").touch()
        cache.folder.mkdir(parents=True, exist_ok=True)
        seen = {name: folder / name for name in ("job.json", "program", "hashing")} | {"kernels": cache.folder}
        seen |= {f"tensors{i}": file for i, file in enumerate(files)}
        front, child = command(folder, seen, reach, unsafe)
        _check(run(front, end - monotonic(), child))
        with open(folder / "results", "rb") as file:
            return wanted.read(file)


def compile_sandboxed(
    program: Program,
    seconds: float = 300.0,
    *,
    device: str = "CPU",
    cache: Cache | None = None,
    unsafe: bool = False,
) -> None:
    """Compiles what the cache lacks of a valid program: later it runs at once. Raises what `run_sandboxed` raises."""
    compile_bodies(bodies_of(program), seconds, device=device, cache=cache or Cache(default_folder()), unsafe=unsafe)


def compile_bodies(bodies: Iterable[Body], seconds: float, *, device: str, cache: Cache, unsafe: bool) -> None:
    """The same of valid bodies."""
    _prepare(bodies, _build(device, unsafe), seconds, cache, unsafe)


def bodies_of(program: Program) -> tuple[Body, ...]:
    """All that a program's calls may be run as."""
    return *program.bodies, *parts(program)


def settled(bodies: Iterable[Body], device: str, unsafe: bool) -> Toolchain | Gridded:
    """The compiler of a device, which the child finds the kernels by: with the schedules that are decided now."""
    return _build(device, unsafe).settled(bodies)


def _build(device: str, unsafe: bool) -> Toolchain | Gridded:
    build = devices.of(device)
    assert isinstance(build, Toolchain | Gridded)
    if not build.command and not unsafe:
        raise NoSandbox(NODELESS.format(device=device), fix=NODELESS_FIX)
    return build


def _prepare(bodies: Iterable[Body], here: Toolchain | Gridded, seconds: float, cache: Cache, unsafe: bool) -> None:
    end = monotonic() + seconds

    def compiler(text: str) -> bytes:
        return _compile(text, here, end - monotonic(), unsafe)

    if isinstance(here, Gridded):
        bodies = (*bodies, *first.program().bodies)
    prepare(bodies, cache, here, compiler)


def _hashing(cache: Cache) -> bytes:
    """The helper's object code, which the child cannot compile; empty where there is none: it only hashes faster."""
    with suppress(ExecutionError, OSError):
        return hashing.object_code(cache)
    return b""


def command(
    folder: Path, seen: Mapping[str, Path], reach: Reach, unsafe: bool, name: str = "child"
) -> tuple[list[str], list[str]]:
    """What is in front of the command of a child of this name, and the command. Raises NoSandbox."""
    child = [sys.executable, "-m", f"eigentensor.runtime.sandbox.{name}"]
    if not unsafe:
        written = {TASK / "results": folder / "results"} if (folder / "results").exists() else {}
        front = confined([(TASK / n, p) for n, p in seen.items()], written, reach)
        return front, [*child, str(TASK)]
    for name, path in seen.items():
        if path != folder / name:  # an absolute path is itself
            (folder / name).symlink_to(path.resolve())
    return [], [*child, str(folder)]


def _compile(text: str, here: Toolchain | Gridded, seconds: float, unsafe: bool) -> bytes:
    if not here.command:
        return here.compile(text)
    front = [] if unsafe else confined([], {}, here.compiling)
    bounded = ["/bin/sh", "-c", COMPILER, "sh", *here.command]
    ended = run(front, min(SECONDS, max(0.0, seconds)), bounded, text.encode())
    if ended.code != 0:
        raise failure(ended, "the compiler")
    if len(ended.output) > OUTPUT:
        raise LimitError(f"a kernel has more than {OUTPUT:,} bytes of object code")
    return ended.output


def _check(ended: Ended) -> None:
    """Nothing if a child ended well, else the error that it reports, or that says how it ended."""
    if ended.code == FAILED:
        raise reported(ended.errors.splitlines()[-1] if ended.errors else "") or failure(ended, "the program")
    if ended.code != 0:
        raise failure(ended, "the program")


def reported(line: str | bytes) -> EigenTensorError | None:
    """The error of a child's line; None if it is none."""
    try:
        report = json.loads(line)
        kind, what, fix = str(report["error"]), str(report["what"]), str(report["fix"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    error: EigenTensorError = (
        getattr(errors, kind)(what, fix=fix) if kind in REPORTED else ExecutionError(f"{kind}: {what}", fix=fix)
    )
    return error


def _files(folder: Path, program: Program, tensors: Mapping[str, NDArray[Any]] | Sequence[Path]) -> list[Path]:
    """The files with the tensors: those that are given, or one with the arrays."""
    if not isinstance(tensors, Mapping):
        return [Path(p) for p in tensors]
    halves = {b.name: b.dtype for b in program.buffers if b.dtype is DType.BFLOAT16 and b.name in tensors}
    save_safetensors(folder / "tensors0", {name: np.asarray(array) for name, array in tensors.items()}, halves)
    return [folder / "tensors0"]
