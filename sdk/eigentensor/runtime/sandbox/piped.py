"""A child in its sandbox that is talked with over two pipes: a request, then its responses, as often as one likes.

It lives until it is told to end, or this process ends. What it sends is a byte that says whether it did well, and then
as many bytes as are known before: whatever a stranger's program does to it, that is all there is to read.
"""

import asyncio
import os
import select
import subprocess
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import suppress
from time import monotonic
from typing import IO, NamedTuple, TypeVar

from eigentensor.errors import EigenTensorError, ExecutionError, LimitError, SandboxError
from eigentensor.runtime.sandbox.bubblewrap import MESSAGE, Ended, end, failure
from eigentensor.runtime.sandbox.execution import reported
from eigentensor.runtime.sandbox.slots import Slots
from eigentensor.runtime.sandbox.warm_child import DONE, FAILED, LENGTH

_PIPE = 1 << 20  # bytes that a pipe holds, where the system lets it
_LEAST = 1 << 12  # bytes that are read at once at least, where there are as many
_VECTORS = 1024  # pieces that are written at once
_Of = TypeVar("_Of")


class Child(NamedTuple):
    """A process in its sandbox, and the states that it holds. Setting `over` ends it; `ended` is set when it has."""

    slots: Slots
    requests: int
    responses: int
    errors: IO[bytes]
    over: threading.Event
    ended: threading.Event
    process: "subprocess.Popen[bytes]"


class Silent(Exception):
    """A child gives no right response: it `died`, or else this is the error."""

    def __init__(self, error: EigenTensorError, died: bool = False) -> None:
        self.error, self.died = error, died


#: Talk with a child, which is the child's turn where it yields: a pipe, and whether it is to be read, not written.
Turn = Generator[tuple[int, bool], None, _Of]


class Incoming:
    """What a child answers: what was read beyond one response begins the next one."""

    def __init__(self, child: Child) -> None:
        self._pipe, self._ahead = child.responses, b""

    @property
    def is_ahead(self) -> bool:
        """Whether more was read than was taken."""
        return bool(self._ahead)

    def take(self, size: int) -> "Turn[bytearray]":
        """The next bytes, so many. Raises Silent where the child ended."""
        data = bytearray(size)
        at = min(size, len(self._ahead))
        data[:at], self._ahead = self._ahead[:at], self._ahead[at:]
        with memoryview(data) as view:
            while at < size:
                at += yield from self._into(view[at:])
        return data

    def _into(self, view: memoryview) -> "Turn[int]":
        """How many bytes came: what there is, or comes next, at least one. What is more than the view takes is
        ahead."""
        more = bytearray(max(0, _LEAST - len(view)))
        while True:
            try:
                count = os.readv(self._pipe, [view, more])
            except BlockingIOError:
                yield self._pipe, True
                continue
            if not count:
                raise died()
            self._ahead = bytes(more[: max(0, count - len(view))])
            return min(count, len(view))


def send(child: Child, parts: Sequence[bytes | memoryview]) -> "Turn[None]":
    """One request, as the child takes it. Raises Silent where it ended."""
    views = [memoryview(part) for part in parts]
    while views:
        try:
            written = os.writev(child.requests, views[:_VECTORS])
        except BlockingIOError:
            yield child.requests, False
            continue
        except BrokenPipeError:
            raise died() from None
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if written:
            views[0] = views[0][written:]


def response(incoming: Incoming, size: int) -> "Turn[bytearray | EigenTensorError]":
    """One response, of so many bytes, or the error that it reports."""
    kind = yield from incoming.take(1)
    if kind == DONE:
        return (yield from incoming.take(size))
    if kind == FAILED:
        (length,) = LENGTH.unpack((yield from incoming.take(LENGTH.size)))
        if length <= MESSAGE and (error := reported(bytes((yield from incoming.take(length))))):
            return error
    raise nonsense()


def waited(talk: "Turn[_Of]", until: float) -> _Of:
    """What a talk gives in time. Raises Silent."""
    while True:
        try:
            pipe, is_read = next(talk)
        except StopIteration as end:
            result: _Of = end.value
            return result
        poll = select.poll()
        poll.register(pipe, select.POLLIN if is_read else select.POLLOUT)
        left = until - monotonic()
        if left <= 0 or not poll.poll(left * 1e3):
            raise late()


async def awaited(talk: "Turn[_Of]", until: float) -> _Of:
    """The same in an event loop, by its clock."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            pipe, is_read = next(talk)
        except StopIteration as end:
            result: _Of = end.value
            return result
        turn: asyncio.Future[bool] = loop.create_future()
        add, remove = (loop.add_reader, loop.remove_reader) if is_read else (loop.add_writer, loop.remove_writer)
        add(pipe, _settle, turn, True)
        timer = loop.call_at(until, _settle, turn, False)
        try:
            if not await turn:
                raise late()
        finally:
            timer.cancel()
            remove(pipe)


def _settle(turn: "asyncio.Future[bool]", is_in_time: bool) -> None:
    if not turn.done():
        turn.set_result(is_in_time)


def late() -> Silent:
    """Of a child that takes too long."""
    return Silent(LimitError("the program took too long", fix="Allow more seconds, or run a smaller program."))


def nonsense() -> Silent:
    """Of one that gives what is no response."""
    return Silent(SandboxError("the program's process gave what is no response"))


def died() -> Silent:
    """Of one whose pipe ended."""
    return Silent(ExecutionError("the program's process died"), died=True)


def ended(child: Child, *, wait: bool = False) -> str:
    """Ends a child, which is given time to end itself if one is to `wait`; what it wrote as errors."""
    os.close(child.requests)  # an idle one ends with it
    if wait:
        child.ended.wait(5)
    child.over.set()
    child.ended.wait()
    os.close(child.responses)
    with child.errors:
        child.errors.seek(0)
        text = child.errors.read(MESSAGE).decode(errors="replace")
    return "".join(c for c in text if c.isprintable() or c == "\n")


def error_of(child: Child, silent: Silent, text: str) -> EigenTensorError:
    """The error of a child that has ended and wrote this text."""
    if not silent.died:
        return silent.error
    error = reported(text.splitlines()[-1]) if text else None
    return error or failure(Ended(child.process.returncode, b"", text), "the program")


def begin(front: Sequence[str], child: Sequence[str], *, slots: int = 0, files: Sequence[int] = ()) -> Child:
    """A child that holds the states of so many calls, and has these descriptors besides its pipes. Its life is a
    thread's: what the kernel kills with its parent dies with the thread that began it."""
    import fcntl  # others import this module where there is none

    requests, responses = os.pipe(), os.pipe()
    for pipe in (requests[1], responses[0]):
        os.set_blocking(pipe, False)
        with suppress(OSError):  # a user may hold so much in pipes, and no more
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)
    over, ended, begun = threading.Event(), threading.Event(), threading.Event()
    made: list[subprocess.Popen[bytes] | OSError] = []
    errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
    theirs = (requests[0], responses[1])
    passed = (*theirs, *files)
    whole = [*front, *child, *map(str, passed)]

    def live() -> None:
        tied, held = os.pipe()  # closed when this process ends, however it ends
        try:
            made.append(
                subprocess.Popen(
                    whole, stdin=tied, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=passed, start_new_session=True
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
    return Child(Slots(slots), requests[1], responses[0], errors, over, ended, process)
