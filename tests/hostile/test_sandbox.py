"""What a program could do if its kernels were hostile code: it runs exactly where programs run, and reaches nothing."""

import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from eigentensor import hashing
from eigentensor.cache import Cache
from eigentensor.errors import BindingError, ExecutionError, LimitError, NoSandbox, RuleError, SandboxError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.codec import encode, to_bytes
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, node, reduction, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime import devices
from eigentensor.runtime.gpu.gridded import Gridded
from eigentensor.runtime.sandbox import bubblewrap
from eigentensor.runtime.sandbox import execution as sandbox
from eigentensor.runtime.sandbox.execution import Limits, available, observe_sandboxed, run_sandboxed
from eigentensor.runtime.sandbox.returned import Observed, Wanted
from eigentensor.store import save_safetensors

F32, INDEX = DType.FLOAT32, DType.INDEX
MIB = 1 << 20
PRELUDE = """
import ctypes, os, socket, sys
from eigentensor.runtime.sandbox import confine
confine.limit(confine.Limits(memory={memory}, cpu_seconds={cpu_seconds}), file_bytes=1 << 20)
confine.seal()
"""


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def attack(
    payload: str,
    *,
    seen: tuple[tuple[Path, Path], ...] = (),
    written: dict[Path, Path] | None = None,
    memory: int = 2 << 30,
    cpu_seconds: int = 20,
    seconds: float = 60,
) -> bubblewrap.Ended:
    """How Python code ends where a program's kernels run: in the same sandbox, after the same preparation."""
    code = PRELUDE.format(memory=memory, cpu_seconds=cpu_seconds) + textwrap.dedent(payload)
    return bubblewrap.run(bubblewrap.confined(seen, written or {}), seconds, [sys.executable, "-c", code])


def refused(ended: bubblewrap.Ended, *reasons: str) -> None:
    error = bubblewrap.failure(ended, "the program")
    assert type(error) is ExecutionError
    assert any(reason in str(error) for reason in reasons), error


def program(value: Node, axes: tuple[Axis, ...], **inputs: Buffer) -> Program:
    shape = tuple(axis.extent for axis in axes)
    return assemble([("result", to_body(value, axes))], inputs, {(Kind.OUTPUT, "output"): ("result", shape)})


def doubled(elements: int = 5) -> Program:
    axis = Axis(0, elements)
    x = load(Array("x", F32, elements), counter(axis))
    return program(binary(Op.ADD, x, x), (axis,), x=Buffer(Role.INPUT, F32, (elements,), "x"))


def endless() -> Program:
    """2⁴⁰ dependent steps: valid, and longer than anybody waits."""
    axes = tuple(Axis(i, 1 << 10, is_reduce=True) for i in range(4))
    place = counter(axes[0])
    for axis in axes[1:]:
        place = binary(Op.ADD, binary(Op.MUL, place, const(INDEX, 3)), counter(axis))
    return program(reduction(Op.REDUCE_ADD, axes, node(Op.CAST, F32, place)), ())


def test_a_program_in_the_sandbox_gives_its_results() -> None:
    x = np.arange(5, dtype=np.float32)
    assert run_sandboxed(encode(doubled()), {"x": x}).outputs["output"].tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("shape", [(5,), (1, 5), (5, 1, 1)])
def test_files_that_roots_name_have_the_shapes_of_the_program(tmp_path: Path, shape: tuple[int, ...]) -> None:
    save_safetensors(tmp_path / "x", {"x": np.arange(5, dtype=np.float32).reshape(shape)})
    assert run_sandboxed(encode(doubled()), [tmp_path / "x"]).outputs["output"].tolist() == [0, 2, 4, 6, 8]
    with pytest.raises(BindingError, match="expected 4 elements"):
        run_sandboxed(encode(doubled(4)), [tmp_path / "x"])
    if shape != (5,):
        with pytest.raises(BindingError, match="of shape"):
            run_sandboxed(encode(doubled()), {"x": np.arange(5, dtype=np.float32).reshape(shape)})


def test_the_inputs_of_a_killed_execution_do_not_stay(tmp_path: Path) -> None:
    code = (
        "import numpy as np, sys; sys.path.insert(0, 'tests/hostile'); from test_sandbox import *; "
        "run_sandboxed(encode({}), {{{}}}, limits=Limits(seconds=120))"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def begun(what: str, inputs: str = "") -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", code.format(what, inputs)], env=environment)

    with begun("endless()") as process:
        end = time.monotonic() + 120
        try:
            while not list(tmp_path.rglob("results")):
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.05)
        finally:
            process.kill()
    assert list(tmp_path.rglob("program"))
    with begun("doubled()", "'x': np.zeros(5, np.float32)") as process:
        assert process.wait(120) == 0
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("unsafe", [False, True])
def test_an_execution_ends_with_whoever_began_it(tmp_path: Path, unsafe: bool) -> None:
    code = "import sys; sys.path.insert(0, 'tests/hostile'); from test_sandbox import *; "
    code += f"run_sandboxed(encode(endless()), {{}}, unsafe={unsafe})"
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}) as process:
        end = time.monotonic() + 120
        try:
            while not (begun := executions(tmp_path)):
                assert process.poll() is None and time.monotonic() < end
        finally:
            process.kill()
    assert begun
    end = time.monotonic() + 30
    while left := executions(tmp_path):
        assert time.monotonic() < end, left
        time.sleep(0.05)


def executions(folder: Path) -> list[psutil.Process]:
    """Processes of a sandbox whose files lie under the folder, bubblewrap's among them."""
    processes = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(folder) in words and "sandbox.child" in words and process.status() != psutil.STATUS_ZOMBIE:
            processes.append(process)
    return processes


def test_without_a_sandbox_the_same_child_gives_the_same_results() -> None:
    x = np.arange(5, dtype=np.float32)
    assert run_sandboxed(encode(doubled()), {"x": x}, unsafe=True).outputs["output"].tolist() == [0, 2, 4, 6, 8]


def test_it_connects_to_no_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refused(attack(f"socket.create_connection(('127.0.0.1', {port}))"), "Operation not permitted")
    refused(attack("socket.create_connection(('192.0.2.1', 80))"), "Operation not permitted")


def test_the_compiler_has_no_network_either() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}))"
        ended = bubblewrap.run(bubblewrap.confined([], {}), 30, [sys.executable, "-c", command])
    refused(ended, "Connection refused", "Network is unreachable")


def test_it_starts_no_process_and_no_thread() -> None:
    refused(attack("while True: os.fork()"), "Operation not permitted")
    refused(attack("os.execv('/bin/sh', ['sh', '-c', 'true'])"), "Operation not permitted")
    refused(attack("import threading; threading.Thread(target=print).start()"), "can't start new thread")


def test_threads_that_were_there_before_are_sealed_as_well() -> None:
    code = PRELUDE.format(memory=2 << 30, cpu_seconds=20).replace("confine.seal()", "")
    code += textwrap.dedent("""
        import threading
        sealed, attempts = threading.Event(), []
        def attack():
            sealed.wait()
            try:
                attempts.append(socket.socket())
            except OSError as error:
                attempts.append(error)
        thread = threading.Thread(target=attack)
        thread.start()
        confine.seal()
        sealed.set()
        thread.join()
        raise attempts[0] if isinstance(attempts[0], OSError) else SystemExit(0)
    """)
    refused(bubblewrap.run(bubblewrap.confined([], {}), 60, [sys.executable, "-c", code]), "Operation not permitted")


def test_it_writes_no_file_but_its_results_and_of_these_no_more_than_allowed(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.touch()
    inside = Path("/task/results")
    ended = attack(f"open('{inside}', 'wb').write(bytes(1 << 30))", written={inside: results}, memory=4 << 30)
    refused(ended, "File too large")
    assert results.stat().st_size <= MIB
    refused(attack("open('/task/other', 'wb')"), "Read-only file system", "No such file")
    refused(attack("open('/tmp/other', 'wb')"), "Read-only file system", "No such file")
    refused(attack("os.memfd_create('hidden')"), "Operation not permitted")


def test_it_gets_no_more_memory_than_allowed() -> None:
    refused(attack("bytearray(4 << 30)"), "MemoryError")  # the interpreter's own share included


def test_it_reads_neither_keys_nor_homes(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text("secret")
    refused(attack(f"open('{key}')"), "No such file")
    # Python itself may live in somebody's home: of that home only the way to it exists
    home = Path.home()
    way = {p.relative_to(home).parts[0] for p in map(Path, (sys.base_prefix, sys.prefix)) if p.is_relative_to(home)}
    shown = attack(f"print(*(os.listdir('{home}') if os.path.exists('{home}') else ()))")
    assert set(shown.output.decode().split()) <= way
    refused(attack("open('/etc/passwd')"), "No such file")
    refused(attack("open('/proc/self/environ')"), "No such file")


def test_it_sees_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGENTENSOR_SECRET", "1")
    ended = attack("print(sorted(os.environ))")
    assert ended.code == 0
    assert b"SECRET" not in ended.output and b"HOME" not in ended.output


def test_it_writes_nothing_into_the_cache_of_kernels(tmp_path: Path) -> None:
    place = Path("/task/kernels")
    refused(attack(f"open('{place}/x', 'wb')", seen=((place, tmp_path),)), "Read-only file system")
    assert list(tmp_path.iterdir()) == []


def test_it_signals_nobody() -> None:
    refused(attack("os.kill(os.getppid() or 1, 9)"), "Operation not permitted")
    refused(attack(f"os.kill({os.getpid()}, 9)"), "Operation not permitted")


def test_a_hang_is_a_limit() -> None:
    ended = attack("while True: pass", seconds=3)
    assert isinstance(bubblewrap.failure(ended, "the program"), LimitError)


def test_used_up_processor_seconds_are_a_limit() -> None:
    ended = attack("while True: pass", cpu_seconds=1)
    assert isinstance(bubblewrap.failure(ended, "the program"), LimitError)


def test_a_crash_is_told_with_its_signal() -> None:
    error = bubblewrap.failure(attack("ctypes.string_at(0)"), "the program")
    assert isinstance(error, SandboxError) and "SIGSEGV" in str(error)


def test_an_endless_program_is_ended_and_nothing_of_it_stays(tmp_path: Path) -> None:
    with pytest.raises(LimitError):
        run_sandboxed(encode(endless()), {}, limits=Limits(seconds=4), cache=Cache(tmp_path))
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not any("sandbox.child" in line and str(tmp_path) in line for line in listed.splitlines())


def test_nothing_stays_however_early_the_time_is_over() -> None:
    mark = f"import time; time.sleep(600)  # {os.getpid()}"
    for milliseconds in range(100):
        assert attack(mark, seconds=milliseconds / 2000).code is None
    left = [process for process in psutil.process_iter(["cmdline"]) if mark in str(process.info["cmdline"])]
    assert not psutil.wait_procs(left, timeout=30)[1]


def test_compiling_counts_into_the_seconds(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="the compiler took too long"):
        run_sandboxed(encode(doubled()), {}, limits=Limits(seconds=0.001), cache=Cache(tmp_path))


def test_a_program_that_needs_too_much_memory_is_refused_before_it_starts() -> None:
    with pytest.raises(LimitError, match="bytes of memory"):
        run_sandboxed(encode(doubled(1 << 20)), {}, limits=Limits(memory=MIB))


def test_wrong_tensors_are_told_as_by_the_reference() -> None:
    with pytest.raises(BindingError, match="missing x"):
        run_sandboxed(encode(doubled()), {})


def test_an_invalid_program_is_refused_before_a_child_is_started() -> None:
    good = doubled()
    outside = replace(good, buffers=(good.buffers[0]._replace(shape=(4,)),))
    with pytest.raises(RuleError):
        run_sandboxed(to_bytes(outside), {})


@pytest.mark.parametrize(("keep", "roots", "size"), [((), False, 20), ((1,), False, 40), ((0, 2), True, 60 + 3 * 32)])
def test_what_a_child_hands_back_in_another_size_is_refused(
    keep: tuple[int, ...], roots: bool, size: int, tmp_path: Path
) -> None:
    wanted = Wanted(doubled(), 3, keep, roots)

    def read(data: bytes) -> Observed:
        (tmp_path / "results").write_bytes(data)
        with open(tmp_path / "results", "rb") as file:
            return wanted.read(file)

    observed = read(bytes(size))
    assert observed.results.outputs["output"].tolist() == [0] * 5
    assert {number: array.tolist() for number, array in observed.kept.items()} == dict.fromkeys(keep, [0] * 5)
    assert observed.roots == (bytes(32),) * (3 if roots else 0)
    for wrong in (0, size - 32, size - 1, size + 1, size + 32, 1 << 20):
        with pytest.raises(SandboxError, match="bytes of results"):
            read(bytes(max(0, wrong)))


HASHING = """
from pathlib import Path
from eigentensor import hashing
from eigentensor.runtime.sandbox import confine
hashing.give(Path("/task/hashing"), 3)
confine.limit(confine.Limits(), file_bytes=1 << 20)
confine.seal()
print(hashing.chosen().helper.threads, hashing.digests(0, 1024, bytes(4 << 20))[-32:].hex())
"""


def test_a_sealed_child_hashes_with_the_helper_on_threads_that_it_has_started(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.write_bytes(hashing.object_code(Cache(tmp_path / "kernels")))
    front = bubblewrap.confined([(Path("/task/hashing"), library)], {})
    ended = bubblewrap.run(front, 60, [sys.executable, "-c", HASHING])
    assert ended.output.decode().split() == ["3", sha256(bytes(1025)).hexdigest()], ended.errors


@pytest.mark.parametrize("kept", [True, False])
def test_bools_that_are_none_are_refused(kept: bool, tmp_path: Path) -> None:
    axis = Axis(0, 5)
    x = load(Array("x", F32, 5), counter(axis))
    compared = program(binary(Op.CMPLT, x, x), (axis,), x=Buffer(Role.INPUT, F32, (5,), "x"))
    (tmp_path / "results").write_bytes(b"\2" + bytes(9) if kept else bytes(9) + b"\2")
    with open(tmp_path / "results", "rb") as file, pytest.raises(SandboxError, match="other bytes"):
        Wanted(compared, 1, (0,)).read(file)


#: What runs instead of the child: it may write as much as the child, and does what it likes.
IMPOSTOR = """
import json, sys
from pathlib import Path
from eigentensor.runtime.sandbox import confine
folder = Path(sys.argv[1])
job = json.loads((folder / "job.json").read_text())
confine.limit(confine.Limits(**job["limits"]), job["file_bytes"])
with open(folder / "results", "r+b", buffering=0) as out:
    confine.seal()
    """


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("while True: out.write(bytes(1 << 16))", "File too large"),
        ("out.write(bytes(20))", "20 bytes of results instead of 72"),
        ("out.seek(1 << 40); out.write(b'x')", "File too large"),
    ],
    ids=["endless", "no roots", "large"],
)
def test_a_hostile_child_is_refused(payload: str, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = sandbox.command

    def other(*arguments: Any) -> tuple[list[str], list[str]]:
        front, child = command(*arguments)
        return front, [sys.executable, "-c", IMPOSTOR + payload, child[-1]]

    monkeypatch.setattr(sandbox, "command", other)
    with pytest.raises(ExecutionError, match=error):
        observe_sandboxed(encode(doubled()), {"x": np.zeros(5, np.float32)}, keep={0}, roots=True)


@pytest.mark.parametrize("device", ["CPU:LLVM", "CL"])
def test_other_devices_for_the_processor_run_in_the_same_sandbox(device: str) -> None:
    x = np.arange(5, dtype=np.float32)
    assert run_sandboxed(encode(doubled()), {"x": x}, device=device).outputs["output"].tolist() == [0, 2, 4, 6, 8]


@pytest.fixture
def unconfinable(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a device that is driven by nothing that is known."""
    build = devices.of("CL")
    assert isinstance(build, Gridded)
    free = replace(build, command=())
    monkeypatch.setattr("eigentensor.runtime.devices.of", lambda device: free)


@pytest.mark.usefixtures("unconfinable")
def test_what_cannot_be_confined_is_refused() -> None:
    with pytest.raises(NoSandbox, match="CL cannot be confined"):
        run_sandboxed(encode(doubled()), {"x": np.arange(5, dtype=np.float32)}, device="CL")


@pytest.mark.slow
@pytest.mark.usefixtures("unconfinable")
def test_what_cannot_be_confined_runs_where_all_clients_are_trusted() -> None:
    results = run_sandboxed(encode(doubled()), {"x": np.arange(5, dtype=np.float32)}, device="CL", unsafe=True)
    assert results.outputs["output"].tolist() == [0, 2, 4, 6, 8]


def test_without_bubblewrap_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError) as caught:
        available()
    assert "apt-get install bubblewrap" in caught.value.fix
