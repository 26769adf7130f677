"""A tenant's programs in one sandboxed process: right bits, program after program, whatever becomes of one."""

import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import merkle, reference
from eigentensor.cluster.resident import with_inputs_alone
from eigentensor.errors import BindingError, EigenTensorError, ExecutionError, LimitError, ProcessKilled, SandboxError
from eigentensor.graph import GraphBuilder
from eigentensor.graph.tensor import where
from eigentensor.program.codec import encode
from eigentensor.program.model import Program, Result
from eigentensor.regions.boxes import extents_of_box, slices, volume
from eigentensor.runtime.sandbox import execution, shared, tenant
from eigentensor.runtime.sandbox.boxed import SlotPart
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.tenant import Tenant
from eigentensor.runtime.sharded.mail import Mail, MailClosed, Message
from eigentensor.sharding.layout import axes_of
from eigentensor.sharding.plan import Receive, kept, plan
from support.clusters import added, children, square
from support.programs import sharded
from support.programs.long_program import endless
from support.programs.placements import PLACES
from support.programs.worked_examples import layer, session
from support.sharing import alike, expected

LIMITS = Limits(memory=2 << 30, threads=1)


def ran(of: Tenant, program: Program, seconds: float = 60.0, **tensors: np.ndarray) -> np.ndarray:
    return of.run(merkle.program_root(encode(program)), program, tensors, seconds=seconds).outputs["output"]


def test_program_after_program_is_executed_by_one_process_and_the_oldest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenant, "PROGRAMS", 2)
    with_variables = session()
    of = Tenant(LIMITS)
    try:
        for rows in (2, 3, 4, 2, 4):
            assert np.array_equal(ran(of, added(rows), x=square(rows), y=square(rows, 2)), square(rows, 3))
            seen = children()
        results = of.run(b"session", with_variables.program, with_variables.tensors, {"pos": 1})
        expected = reference.execute(with_variables.program, with_variables.tensors, {"pos": 1})
        assert results.outputs["output"].tobytes() == expected.outputs["output"].tobytes()
        assert results.states["cache"].tobytes() == expected.states["cache"].tobytes()
        assert children() == seen and of._child is not None
    finally:
        of.close()
    assert not children()


@pytest.mark.parametrize("room", [128 << 20, 80 << 10], ids=["shared", "hardly shared"])
def test_results_become_inputs_where_they_lie_with_the_bits_of_the_reference(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant, "LEFT", room)
    monkeypatch.setattr(shared, "LEFT", room)
    builder = GraphBuilder()
    x, w, odd = builder.input("x", (70, 96)), builder.input("w", (96, 130)), builder.input("odd", (96, 130), "bool")
    new = where(odd, w - x.transpose() @ (x @ w) * 0.01, w)
    program = builder.compile({"w": new, "odd": odd == (w < 0.0)}).program
    tensors: dict[str, np.ndarray] = {
        "x": square(96)[:70] / 999,
        "w": square(130, -0.1)[:96],
        "odd": square(130)[:96] % 3 == 0,
    }
    for array in tensors.values():
        array.flags.writeable = False
    of, alone = Tenant(LIMITS), dict(tensors)
    of._shared = shared.Shared(room)
    try:
        for _ in range(4):
            tensors |= of.run(b"step", program, tensors).outputs
            alone |= reference.execute(program, alone).outputs
            assert all(tensors[name].tobytes() == alone[name].tobytes() for name in alone)
    finally:
        of.close()


def test_what_does_not_fit_or_takes_too_long_is_refused_and_the_next_run_does_well() -> None:
    of = Tenant(LIMITS)
    try:
        with pytest.raises(BindingError, match="missing y"):
            ran(of, added(2), x=square(2))
        with pytest.raises(BindingError, match="have no weights"):
            of.run(b"", layer().program, layer().tensors)
        with pytest.raises(LimitError, match="took too long"):
            of.run(b"endless", endless(), {}, seconds=0.5)
        assert np.array_equal(ran(of, added(2), x=square(2), y=square(2)), square(2, 2))
        for child in children():
            os.kill(child, signal.SIGKILL)
        with pytest.raises(ExecutionError):
            ran(of, added(2), x=square(2), y=square(2))
        assert np.array_equal(ran(of, added(2), x=square(2), y=square(2)), square(2, 2))
    finally:
        of.close()


class Pair:
    """Two workers of a plan, each with a tenant's process, and threads that bring their boxes from one to the other."""

    def __init__(self, place: str, device: str = "PYTHON", name: str = "mlp step", *, unsafe: bool = False) -> None:
        self.program, self.tensors = with_inputs_alone(sharded.captured(name).program).program, sharded.tensors(name)
        self.planned, self.key = plan(self.program, 2, (), tuple(PLACES[place](self.program, 2))), 0
        self.tenants = [Tenant(LIMITS, device=device, unsafe=unsafe) for _ in range(2)]

    def __enter__(self) -> "Pair":
        return self

    def __exit__(self, *_: object) -> None:
        for of in self.tenants:
            of.close()

    def run(self, seconds: float = 60.0) -> dict[str, np.ndarray]:
        """The results. Raises what a worker raises, whatever the others have to say then."""
        mail = Mail(2)

        def work(number: int) -> dict[int, tuple[Any, np.ndarray]]:
            try:
                return self.share(number, mail, seconds)
            except BaseException:
                mail.close()
                raise

        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(work, number) for number in range(2)]
        errors = [error for job in jobs if (error := job.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, MailClosed)):
            raise error
        return {r.name: self.whole(r.buffer, [job.result() for job in jobs]).reshape(r.shape) for r in self.results}

    def share(self, number: int, mail: Mail, seconds: float) -> dict[int, tuple[Any, np.ndarray]]:
        """The boxes of results that one of them has, by buffer."""
        planned = self.planned.workers[number]
        part = SlotPart((self.key, number), self.program, planned)
        held = {r.buffer: piece for r in self.results if (piece := kept(planned, r.buffer)) is not None}
        given = [self.given(*planned.pieces[piece][:2]) for piece in part.given]
        arrays = self.tenants[number].share(part, given, (), list(held.values()), mail.port(number), seconds=seconds)
        return {r: (planned.pieces[piece].box, array) for (r, piece), array in zip(held.items(), arrays, strict=True)}

    @property
    def results(self) -> tuple[Result, ...]:
        return self.program.results

    def given(self, buffer: int, box: Any) -> np.ndarray:
        whole = self.tensors[self.program.buffers[buffer].name].reshape(axes_of(self.program)[buffer])
        return whole[slices(box)]

    def whole(self, buffer: int, held: list[dict[int, tuple[Any, np.ndarray]]]) -> np.ndarray:
        made = np.empty(axes_of(self.program)[buffer], np.float32)
        for box, array in (of[buffer] for of in held if buffer in of):
            made[slices(box)] = array.reshape(extents_of_box(box))
        return made


@pytest.mark.parametrize("place", ["along the batch", "along features or channels", "in stages"])
def test_two_processes_execute_their_parts_of_a_plan_and_have_the_bits_of_the_reference(place: str) -> None:
    with Pair(place, "CPU" if place == "in stages" else "PYTHON") as pair:
        for _ in range(2):
            assert alike(pair.run(), expected(pair.program, pair.tensors))
        assert len(children()) == 2 and sum(len(part.steps) for part in pair.planned.workers) > 2
        for child in children():
            status = dict(line.split(":\t") for line in Path(f"/proc/{child}/status").read_text().splitlines())
            assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0
            assert not any("socket" in os.readlink(file) for file in Path(f"/proc/{child}/fd").iterdir())
            for space in ("net", "pid", "ipc", "mnt"):
                assert os.readlink(f"/proc/{child}/ns/{space}") != os.readlink(f"/proc/self/ns/{space}")
    assert not children()


def test_parts_take_no_more_than_the_limits_and_the_oldest_are_forgotten() -> None:
    with Pair("in stages") as pair:
        held = [part.held for part in pair.planned.workers]
        for of, size in zip(pair.tenants, held, strict=True):
            of.limits = replace(of.limits, memory=2 * size)
        for pair.key in range(3):
            assert alike(pair.run(), expected(pair.program, pair.tensors))
        assert [pair.tenants[0].has((key, 0)) for key in range(3)] == [False, True, True]
        pair.tenants[1].limits = replace(LIMITS, memory=held[1] - 1)
        pair.key = 4
        with pytest.raises(LimitError, match="a part of the program holds"):
            pair.run()


def test_a_process_that_is_killed_or_hangs_ends_the_run_and_the_next_has_another() -> None:
    """ProcessKilled, for the first."""
    with Pair("along the batch") as pair:
        for number, error in ((signal.SIGKILL, ProcessKilled), (signal.SIGSTOP, LimitError)):
            pair.run()
            os.kill(min(children()), number)
            with pytest.raises(error):
                pair.run(seconds=0.5)
        assert alike(pair.run(), expected(pair.program, pair.tensors))


#: What runs instead of the child, and does what it likes when it is to execute a part.
IMPOSTOR = """
import ctypes, json, mmap, os, socket, sys, time
from pathlib import Path
job = json.loads((Path(sys.argv[1]) / "job.json").read_text())
memory = mmap.mmap(int(sys.argv[5]), 0)
if job["sealed"]:
    from eigentensor.runtime.sandbox import confine
    confine.limit(confine.Limits(**job["limits"]), job["file_bytes"])
    confine.seal()
requests, responses = open(int(sys.argv[2]), "rb"), open(int(sys.argv[3]), "wb", buffering=0)
responses.write(b"\\1")
while not {"share", "run"} & (asked := json.loads(requests.read(int.from_bytes(requests.read(4), "little")))).keys():
    requests.read(asked["bytes"] + asked.get("planned", 0))
    responses.write(b"\\1")
PAYLOAD
time.sleep(600)
"""
#: Tries to reach other workers, by their sockets or any other, files, processes, and whoever talks with it.
REACHES = """
def failed(what):
    try:
        what()
    except OSError:
        return True

tries = [
    socket.socket, socket.socketpair, lambda: socket.socket(socket.AF_UNIX), lambda: open("EXCHANGE"),
    lambda: os.listdir("/proc"), lambda: open("/etc/passwd"), lambda: open("/task/kernels/x", "w"), os.fork,
    lambda: os.kill(1, 9), lambda: os.kill(os.getppid(), 9), lambda: os.pidfd_open(1),
    lambda: os.open("/x", os.O_CREAT),
]
line = json.dumps(dict(error="ExecutionError", what=f"{sum(bool(failed(each)) for each in tries)} failed", fix=""))
responses.write(b"\\2" + len(line).to_bytes(4, "little") + line.encode())
"""


#: Tries to write to what it is given, to take memory away from whoever reads it, and to change what it left.
CHANGES = """
given, left = map(int, sys.argv[4:])
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_ssize_t
tries = [
    libc.mmap(None, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, given, 0), libc.pwrite(given, b"x", 1, 0),
    libc.ftruncate(given, 0), libc.ftruncate(left, 0),
]
number = tries.count(-1)
while True:
    memory[:65536] = bytes([number]) * 65536
    responses.write(b"\\1")
    requests.read(int.from_bytes(requests.read(4), "little"))
    memory[:65536] = bytes(65536)
"""


def hostile(monkeypatch: pytest.MonkeyPatch, payload: str) -> None:
    """Lets it run where the child would."""
    command, code = execution.command, IMPOSTOR.replace("PAYLOAD", payload)

    def other(*arguments: Any) -> tuple[list[str], list[str]]:
        front, child = command(*arguments)
        return front, [sys.executable, "-c", code, *child[3:]]

    monkeypatch.setattr(tenant, "command", other)


def test_a_process_that_anybody_took_over_in_a_shared_run_reaches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = tmp_path / "exchange"
    with socket.socket(socket.AF_UNIX) as listening, Pair("along the batch") as pair:
        listening.bind(str(exchange))
        with monkeypatch.context() as patch:
            hostile(patch, REACHES.replace("EXCHANGE", str(exchange)))
            with pytest.raises(ExecutionError, match=r"^12 failed$"):
                pair.run()
        assert alike(pair.run(), expected(pair.program, pair.tensors))


@pytest.mark.parametrize("unsafe", [False, True], ids=["sealed", "not sealed"])
def test_a_process_that_anybody_took_over_changes_nothing_that_was_given_or_taken(
    unsafe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(monkeypatch, CHANGES)
    x = square(128)
    x.flags.writeable = False
    of = Tenant(LIMITS, unsafe=unsafe)
    try:
        first = ran(of, added(128), x=x, y=x)
        ran(of, added(128), x=first, y=x)
        assert first.tobytes() == bytes([4]) * x.nbytes and np.array_equal(x, square(128))
    finally:
        of.close()


@pytest.mark.parametrize(
    ("payload", "error", "words"),
    [
        ("while True: responses.write(b'\\1' * 65536)", SandboxError, "is no response"),
        ("responses.write(bytes(65536))", SandboxError, "is no response"),
        ("responses.write(b'\\2' + b'\\xff' * 4)", SandboxError, "is no response"),
        ("responses.write(b'\\1')", LimitError, "took too long"),
        ("exit('no line of JSON')", ExecutionError, "no line of JSON"),
        ("ctypes.string_at(0)", SandboxError, "crashed with SIGSEGV"),
    ],
    ids=["floods", "zeros", "a long error", "hangs", "ends", "crashes"],
)
def test_whatever_a_process_does_instead_of_its_part_is_an_error_and_its_end(
    payload: str, error: type[EigenTensorError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(monkeypatch, payload)
    with Pair("along features or channels", name="mlp", unsafe=True) as pair:
        mail = Mail(2)
        for step in pair.planned.workers[0].steps:
            if isinstance(step, Receive):  # nobody waits for the other one
                mail.deliver(1, 0, Message(step.number, np.zeros(volume(step.box), np.float32)))
        with pytest.raises(error, match=words):
            pair.share(0, mail, 0.5)
        assert pair.tenants[0]._child is None
