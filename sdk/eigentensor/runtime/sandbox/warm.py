"""A stranger's program that stays in its sandbox: started once with its weights, then executed call after call.

The child sees what the child of a single execution sees, and is sealed before any of the program runs. Its calls may be
of different callers: a program is data whose kernels were checked and compiled here, and the child holds nothing of a
call once the next one came.
"""

import json
import os
import select
import subprocess
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import EigenTensorError, ExecutionError, LimitError, SandboxError
from eigentensor.program.binding import bind
from eigentensor.program.codec import encode
from eigentensor.program.model import Program
from eigentensor.runtime import devices
from eigentensor.runtime.memory.plan import refuse_over
from eigentensor.runtime.sandbox.bubblewrap import MESSAGE, Ended, end, failure
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.execution import command, compile_sandboxed, reported, settled
from eigentensor.runtime.sandbox.returned import Observed, Wanted
from eigentensor.runtime.sandbox.warm_child import DONE, FAILED, LENGTH, open_buffers
from eigentensor.scratch import scratch

LIFE = 1 << 30  #: processor seconds of a child: each call has a limit by the clock
_CHUNK = 1 << 20  # bytes that a pipe takes at once, where the system lets it


class _Child(NamedTuple):
    """A process in its sandbox. Setting `over` ends it; `ended` is set when it has."""

    requests: int
    responses: int
    errors: IO[bytes]
    over: threading.Event
    ended: threading.Event
    process: "subprocess.Popen[bytes]"


class WarmProgram:
    """A valid program with its weights, in files that their bindings root names. Safe for several threads, whose calls
    it executes one after the other; a child that died or was killed is started anew by the next one."""

    def __init__(
        self,
        program: Program,
        weights: Sequence[Path] = (),
        limits: Limits | None = None,
        *,
        device: str = "CPU",
        cache: Cache | None = None,
        unsafe: bool = False,
    ) -> None:
        """`limits` are of the child; its seconds are those of a start, compiling included. `unsafe` does without the
        sandbox. Raises ExecutionError for a device that is no processor, LimitError for too large a program."""
        if device.partition(":")[0] not in ("CPU", devices.REFERENCE):
            raise ExecutionError(f"programs do not stay warm on {device}, for now", fix="Use the device CPU.")
        self.program, self.weights, self.device, self.unsafe = program, tuple(weights), device, unsafe
        self.limits = replace(limits or Limits(), cpu_seconds=LIFE)
        refuse_over(self.limits.memory, program, device)
        self._cache = cache or Cache(default_folder())
        self._open = open_buffers(program)
        self._records = replace(program, buffers=tuple(self._open))
        self._lock = threading.Lock()
        self._child: _Child | None = None

    @property
    def is_warm(self) -> bool:
        """Whether a child is there."""
        return self._child is not None

    def warm(self) -> None:
        """Starts the child if there is none. Raises NoSandbox, LimitError, ExecutionError."""
        with self._lock:
            self._started()

    def run(
        self,
        tensors: Mapping[str, NDArray[Any]],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        keep: Collection[int] = (),
        seconds: float = 60.0,
    ) -> Observed:
        """Results for inputs and states, and what the executed calls `keep` wrote.

        Raises BindingError if they do not fit the program; LimitError if it takes longer than `seconds`, of which a
        start is no part, or more memory than the limits; ExecutionError if the child died.
        """
        flats = bind(self._records, tensors, variables, repeat)
        wanted = Wanted(self.program, repeat, tuple(sorted(set(keep))))
        head = json.dumps({"variables": dict(variables or {}), "repeat": repeat, "keep": wanted.keep}).encode()
        parts: list[bytes | memoryview] = [LENGTH.pack(len(head)) + head, *(flat.view(np.uint8).data for flat in flats)]
        with self._lock:
            child = self._started()
            talk = _Talk(child, monotonic() + seconds)
            try:
                talk.send(parts)
                data = talk.response(wanted.size)
            except _Silent as silent:
                raise self._lost(child, silent) from None
        if isinstance(data, EigenTensorError):
            raise data
        return wanted.unpack(data)

    def close(self) -> None:
        """Ends the child; the next call starts another one."""
        with self._lock:
            if self._child is not None:
                self._end(self._child)

    def __enter__(self) -> "WarmProgram":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> _Child:
        if self._child is None:
            until = monotonic() + self.limits.seconds
            here = None if self.device == devices.REFERENCE else settled(self.program, self.device, self.unsafe)
            if here is not None:
                compile_sandboxed(
                    self.program, self.limits.seconds, device=self.device, cache=self._cache, unsafe=self.unsafe
                )
            job = {
                "limits": asdict(self.limits), "file_bytes": MESSAGE, "sealed": not self.unsafe, "device": self.device,
                "toolchain": here.to_json() if here else "",
                "tensors": [f"tensors{i}" for i in range(len(self.weights))],
            }  # fmt: skip
            with scratch() as folder:
                (folder / "job.json").write_text(json.dumps(job))
                (folder / "program").write_bytes(encode(self.program))
                self._cache.folder.mkdir(parents=True, exist_ok=True)
                seen = {name: folder / name for name in ("job.json", "program")} | {"kernels": self._cache.folder}
                seen |= {f"tensors{i}": file for i, file in enumerate(self.weights)}
                child = self._child = _begin(*command(folder, seen, 0, self.unsafe, "warm_child"))
                try:
                    ready = _Talk(child, until).response(0)
                except _Silent as silent:
                    raise self._lost(child, silent) from None
                if isinstance(ready, EigenTensorError):
                    self._end(child)
                    raise ready
        return self._child

    def _lost(self, child: _Child, silent: "_Silent") -> EigenTensorError:
        """The error of a child that does not go on as it should, which is ended."""
        text = self._end(child, wait=silent.died)
        if not silent.died:
            return silent.error
        error = reported(text.splitlines()[-1]) if text else None
        return error or failure(Ended(child.process.returncode, b"", text), "the program")

    def _end(self, child: _Child, wait: bool = False) -> str:
        """Ends it; what it wrote as errors."""
        if wait:  # its pipe ended: so does it, and says how
            child.ended.wait(5)
        child.over.set()
        child.ended.wait()
        os.close(child.requests)
        os.close(child.responses)
        self._child = None
        with child.errors:
            child.errors.seek(0)
            text = child.errors.read(MESSAGE).decode(errors="replace")
        return "".join(c for c in text if c.isprintable() or c == "\n")


class _Silent(Exception):
    """A child gives no right response: it `died`, or else this is the error."""

    def __init__(self, error: EigenTensorError, died: bool = False) -> None:
        self.error, self.died = error, died


class _Talk:
    """One request and its response, both in time, with whoever is at the other end. Raises _Silent."""

    def __init__(self, child: _Child, until: float) -> None:
        self._child, self._until = child, until

    def send(self, parts: Sequence[bytes | memoryview]) -> None:
        """All of a request."""
        for part in parts:
            view = memoryview(part)
            while view:
                try:
                    view = view[os.write(self._child.requests, view[:_CHUNK]) :]
                except BlockingIOError:
                    self._wait(self._child.requests, select.POLLOUT)
                except BrokenPipeError:
                    raise _died() from None

    def response(self, size: int) -> bytearray | EigenTensorError:
        """As many bytes, or the error that is reported."""
        kind = bytes(self._read(1))
        if kind == DONE:
            return self._read(size)
        if kind == FAILED:
            (length,) = LENGTH.unpack(self._read(LENGTH.size))
            if length <= MESSAGE and (error := reported(bytes(self._read(length)))):
                return error
        raise _Silent(SandboxError("the program's process gave what is no response"))

    def _read(self, size: int) -> bytearray:
        data, at = bytearray(size), 0
        while at < size:
            try:
                count = os.readv(self._child.responses, [memoryview(data)[at : at + _CHUNK]])
            except BlockingIOError:
                self._wait(self._child.responses, select.POLLIN)
                continue
            if not count:
                raise _died()
            at += count
        return data

    def _wait(self, pipe: int, what: int) -> None:
        poll = select.poll()
        poll.register(pipe, what)
        left = self._until - monotonic()
        if left <= 0 or not poll.poll(left * 1e3):
            raise _Silent(LimitError("the program took too long", fix="Allow more seconds, or run a smaller program."))


def _died() -> _Silent:
    return _Silent(ExecutionError("the program's process died"), died=True)


def _begin(front: Sequence[str], child: Sequence[str]) -> _Child:
    """A child whose life is a thread's: what the kernel kills with its parent dies with the thread that began it."""
    requests, responses = os.pipe(), os.pipe()
    for pipe in (requests[1], responses[0]):
        os.set_blocking(pipe, False)
    over, ended, begun = threading.Event(), threading.Event(), threading.Event()
    made: list[subprocess.Popen[bytes] | OSError] = []
    errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
    theirs = (requests[0], responses[1])
    whole = [*front, *child, *map(str, theirs)]

    def live() -> None:
        tied, held = os.pipe()  # closed when this process ends, however it ends
        try:
            made.append(
                subprocess.Popen(
                    whole, stdin=tied, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=theirs, start_new_session=True
                )
            )
        except OSError as error:
            made.append(error)
        finally:
            for pipe in (tied, *theirs):
                os.close(pipe)
            begun.set()
        process = made[0]
        if isinstance(process, subprocess.Popen):
            while process.poll() is None and not over.wait(0.2):
                pass
            if process.poll() is None:
                end(process)
        os.close(held)
        ended.set()

    threading.Thread(target=live, name="warm program", daemon=True).start()
    begun.wait()
    if isinstance(process := made[0], OSError):
        raise ExecutionError(f"the program's process cannot be started: {process.strerror}")
    return _Child(requests[1], responses[0], errors, over, ended, process)
