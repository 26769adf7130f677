"""Commands under bubblewrap: what they see, how long they run, and how their end is told."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import psutil

from eigentensor.errors import ExecutionError, LimitError, NoSandbox, ProcessKilled, SandboxError
from eigentensor.runtime.reach import NOTHING, Reach

MESSAGE = 1 << 16  #: bytes of standard error that are read
OUTPUT = 8 << 20  #: bytes of standard output that are read
#: What a process that drives a device sees of /proc, besides itself: of everything else in it nothing.
SHOWN = frozenset(
    ("cpuinfo", "devices", "driver", "meminfo", "modules", "self", "stat", "sys", "thread-self", "version")
)
#: What a child imports that is none of Python's.
PACKAGES = ("eigentensor", "numpy", "psutil", "safetensors", "tinygrad", "yaml")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its code (negative: the signal; None: it ran out of time) and what it said."""

    code: int | None
    output: bytes
    errors: str


def available() -> None:
    """Raises NoSandbox, which says what to do, if programs cannot be confined on this machine."""
    ended = run(confined([], {}), 30, ["/bin/sh", "-c", "exit 0"])
    if ended.code:
        raise NoSandbox(
            f"bubblewrap cannot start here: {ended.errors.strip() or ended.code}",
            fix="Allow user namespaces (sysctl user.max_user_namespaces), or run it as root outside of a container.",
        )


def confined(seen: Sequence[tuple[Path, Path]], written: Mapping[Path, Path], reach: Reach = NOTHING) -> list[str]:
    """The command in front of a command that confines it. `seen` and `written` say which path is where outside.

    Inside there are the system's libraries and compiler, Python with this package and what it needs, these files, and
    what the reach names; everything is read-only but the files of `written`, device files and a /tmp. There is no
    network, no other process, no environment.
    """
    executable = shutil.which("bwrap")
    if executable is None:
        raise NoSandbox(
            "bubblewrap is not installed: without it a stranger's program is not run",
            fix="Install it, on Debian with `apt-get install bubblewrap`.",
        )
    command = [
        executable, "--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
        "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv",
        "--setenv", "PATH", "/usr/bin", "--setenv", "OPENBLAS_NUM_THREADS", "1",
        "--setenv", "PYTHONDONTWRITEBYTECODE", "1", "--setenv", "MALLOC_ARENA_MAX", "1",
        "--setenv", "PYTHONPATH", os.pathsep.join(map(str, _importing())),
    ]  # fmt: skip
    for name, value in reach.environment:
        command += ["--setenv", name, value]
    for top in map(Path, ("/bin", "/lib", "/lib64", "/sbin")):
        if top.is_symlink():
            command += ["--symlink", str(top.readlink()), str(top)]
        elif top.exists():
            command += ["--ro-bind", str(top), str(top)]
    if reach.scratch:  # before what may lie below it
        command += ["--size", str(reach.scratch), "--tmpfs", "/tmp"]
    for folder in _libraries():
        command += ["--ro-bind", str(folder), str(folder)]
    command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    if reach.nodes:
        command += _itself(Path("/proc"))
    for node in reach.nodes:
        command += ["--dev-bind", str(node), str(node)]
    for inside, outside in (*((path, path) for path in reach.files), *seen):
        command += ["--ro-bind", str(outside.resolve()), str(inside)]
    for inside, outside in written.items():
        command += ["--bind", str(outside.resolve()), str(inside)]
    return [*command, "--remount-ro", "/", "--chdir", "/", "--"]


def run(front: Sequence[str], seconds: float, command: Sequence[str], text: bytes | None = None) -> Ended:
    """Runs a command to its end, or until the clock says so. Nothing of it stays. Its standard input is the text, or
    else a pipe that closes when this process ends, however it ends: `confine.tie` makes that the command's end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, ExitStack() as held:
        if text is None:
            read, write = os.pipe()
            stdin: IO[bytes] = held.enter_context(os.fdopen(read, "rb"))
            held.enter_context(os.fdopen(write, "wb"))
        else:
            stdin = held.enter_context(tempfile.TemporaryFile())
            stdin.write(text)
            stdin.seek(0)
        process = subprocess.Popen([*front, *command], stdin=stdin, stdout=out, stderr=err, start_new_session=True)
        code: int | None = None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if code is None:
                end(process)
        out.seek(0)
        err.seek(0)
        errors = err.read(MESSAGE).decode(errors="replace")
        return Ended(code, out.read(OUTPUT + 1), "".join(c for c in errors if c.isprintable() or c == "\n"))


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills bubblewrap and what it started, which does not die with it before its mounts are made."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # from here on it starts nothing more
    started = psutil.Process(process.pid).children()
    process.kill()
    for child in started:  # the first process of its namespace: all others end with it
        with suppress(psutil.NoSuchProcess):
            child.kill()
    process.wait()


def failure(ended: Ended, who: str) -> ExecutionError:
    """The error for a command that did not end well by itself."""
    if ended.code is None:
        return LimitError(f"{who} took too long", fix="Allow more seconds, or run a smaller program.")
    if ended.errors.startswith("bwrap:"):
        return NoSandbox(ended.errors.strip(), fix="Try `bwrap --ro-bind / / true`.")
    number = -ended.code if ended.code < 0 else ended.code - 128
    if number == signal.SIGXCPU:
        return LimitError(f"{who} used up its processor seconds")
    if number == signal.SIGXFSZ:
        return LimitError(f"{who} wrote too much")
    if number == signal.SIGKILL:
        return ProcessKilled(f"{who} was killed: out of memory, or out of processor seconds")
    if number in {s.value for s in signal.Signals}:
        return SandboxError(f"{who} crashed with {signal.Signals(number).name}")
    return ExecutionError(f"{who} ended with {ended.code}: {ended.errors[-500:]}")


def _itself(proc: Path) -> list[str]:
    """A /proc in which a process finds itself: drivers name their threads there. Of its parent, which is not sealed,
    and of what else the kernel tells there it sees nothing."""
    command = ["--proc", str(proc)]
    for entry in (proc / "1", *(e for e in sorted(proc.iterdir()) if not e.name.isdigit() and e.name not in SHOWN)):
        if entry.is_symlink():  # of what lies within itself
            continue
        if entry.is_dir():
            command += ["--size", "4096", "--tmpfs", str(entry), "--remount-ro", str(entry)]
        else:
            command += ["--ro-bind", "/dev/null", str(entry)]
    for shown in (proc / "driver", proc / "sys"):  # root writes what belongs to it, without any capability
        command += ["--ro-bind-try", str(shown), str(shown)]
    return command


@cache
def _importing() -> tuple[Path, ...]:
    """The folders in which this Python finds what a child imports, apart from those where it looks by itself."""
    own = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    specs = [spec for name in PACKAGES if (spec := find_spec(name)) and spec.origin]
    folders = [Path(spec.origin).parents[1] for spec in specs if spec.origin]
    return tuple(dict.fromkeys(folder.absolute() for folder in folders if folder not in own))


def _libraries() -> list[Path]:
    """What Python, this package and its dependencies are made of, without folders inside of others."""
    package = Path(__file__).parents[2]
    paths = [Path("/usr"), Path(sys.base_prefix), Path(sys.prefix), package]
    paths += [Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")]
    paths += [folder for folder in _importing() if folder != package.parent]
    kept: list[Path] = []
    for path in sorted({p.resolve() for p in paths} | {p.absolute() for p in paths}):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept
