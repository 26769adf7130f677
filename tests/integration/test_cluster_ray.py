"""Workers that Ray starts: actors at the door of a cluster, whose bits are those of any worker."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil
import pytest

from eigentensor.errors import ConfigError, ConnectionLost
from eigentensor_client.cli import main
from eigentensor_cluster.launcher import Launch
from support.clusters import F32, Processes, Training, added, losses_of, square
from support.programs import sharded
from support.programs.placements import PLACES
from support.sharing import Shared, alike, expected, use_each

WITH_RAY = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not here: pip install 'eigentensor[ray]'"),
]


@pytest.fixture
def processes() -> Iterator[Processes]:
    with TemporaryDirectory() as folder:  # a short one: paths of sockets are
        made = Processes(Path(folder))
        try:
            yield made
        finally:
            for process in made.started:
                process.terminate()
            for process in made.started:
                process.wait()
            made.close()


def until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def by_ray(p: Processes, count: int, *words: str, ray: str = "local", **environment: str) -> "subprocess.Popen[bytes]":
    """The command that lets Ray start workers, when all of them are there."""
    command = [sys.executable, "-m", "eigentensor_client", "cluster", "worker", "--ray", ray, "--workers", str(count)]
    joining = ["--join", p.address, "--token", str(p.folder / "worker")]
    with (p.folder / "ray.txt").open("wb") as file:
        process = subprocess.Popen([*command, *joining, *words], env=p.environment | environment, stderr=file)
    p.started.append(process)  # type: ignore[arg-type]  # only to be ended
    until(lambda: process.poll() is not None or len(p.status().workers) == count, 600)
    assert process.poll() is None, (p.folder / "ray.txt").read_text()
    return process


def actors(launcher: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """The processes of its workers."""
    below = psutil.Process(launcher.pid).children(recursive=True)
    return [process for process in below if process.name().startswith("ray::Worker")]


@contextmanager
def another(nodes: int, mode: str) -> Iterator[tuple[str, "subprocess.Popen[str]", dict[str, str]]]:
    """A Ray that somebody else started: its address, its process, and the environment of whoever may use it."""
    knows = {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = os.environ | knows | {"RAY_AUTH_MODE": mode, "PYTHONPATH": "tests"}
    process = subprocess.Popen(
        [sys.executable, "-m", "support.rays", str(nodes)], env=environment, cwd=Path(__file__).parents[2], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    with process.stdout:
        try:
            yield process.stdout.readline().strip(), process, knows
        finally:
            process.stdin.close()
            process.wait(60)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--ray ray://head:10001", "'ray://head:10001' is no address of Ray"),
        ("--ray head", "'head' is no address of Ray"),
        ("--ray local --cpus 1.5", "no worker can own 1.5 CPUs"),
        ("--ray local --gpus 1", "a worker that owns a GPU has to compute on it, not on CPU"),
        ("--workers 4", "--workers says what Ray is to start"),
        ("--pack", "--spread says what Ray is to start"),
    ],
)
def test_what_ray_cannot_start_is_said_before_anything_starts(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cluster", "worker", *words.split()])
    err = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == 3 and says in err and " fix " in err and "Traceback" not in err


def test_who_starts_workers_looks_for_ray_first() -> None:
    with pytest.raises(ConnectionLost, match=r"no Ray answers at 127\.0\.0\.1:1"):
        Launch("127.0.0.1:1").check_answers()
    assert Launch("[::1]:6379", 8, 0.5).wanted == "8 × 0.5 CPU"
    assert Launch("auto", 2, 4, 0.5, device="CUDA").wanted == "2 × 4 CPU and 0.5 GPU"
    with pytest.raises(ConfigError, match="not on CPU:LLVM"):
        Launch("auto", gpus=1, device="CPU:LLVM")


class TestWithRay:
    """Each of these takes a Ray's start, some 10 seconds."""

    pytestmark = WITH_RAY

    def test_two_actors_share_programs_out_and_one_that_is_killed_joins_anew(self, processes: Processes) -> None:
        p = processes
        losses = losses_of(60, p.folder / "sound")
        p.up("--workers", "0", "--trust")
        launcher = by_ray(p, 2, "--trust", "--cpus", "0.5")
        assert {worker.host for worker in p.status().workers} == {os.uname().nodename}
        (node,) = {worker.node for worker in p.status().workers}
        assert node is not None and f"node {node[:8]}" in p.done("status").stdout
        assert f'"node": "{node}"' in p.done("status", "--json").stdout
        for name in ("mlp", "mlp step"):
            program, tensors = sharded.captured(name).program, sharded.tensors(name)
            for place in PLACES:
                with p.session() as session:
                    shared = Shared(session, program, PLACES[place](program, 2))
                    assert alike(shared.once(tensors), expected(program, tensors)), place
        with p.session() as session:
            training = Training(session)
            for step in range(60):
                training.step()
                if step in (10, 40):
                    session.get(training.losses[-1])
                    before = {worker.name for worker in p.status().workers}
                    actors(launcher)[0].kill()
                    until(lambda before=before: len(before - {w.name for w in p.status().workers}) == 1)  # type: ignore[misc]
                if step == 30:
                    until(lambda: len(p.status().workers) == 2)
            assert training.read() == losses
        until(lambda: len(p.status().workers) == 2)
        below = psutil.Process(launcher.pid).children(recursive=True)
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait(60) == 130
        until(lambda: not p.status().workers)
        assert not psutil.wait_procs(below, timeout=20)[1]

    def test_they_end_with_the_cluster(self, processes: Processes) -> None:
        p = processes
        p.up("--workers", "0")
        launcher = by_ray(p, 1)
        with p.session() as session:  # in a sandbox
            root = session.define(added(8))
            session.put(1, square(8), F32)
            session.run(root, {"x": 1, "y": 1}, {"output": 2})
            assert np.array_equal(session.get(2), square(8) * 2)
        below = psutil.Process(launcher.pid).children(recursive=True)
        assert p.done("down").returncode == 0 and launcher.wait(60) == 10
        assert "no cluster answers at" in (p.folder / "ray.txt").read_text()
        assert not psutil.wait_procs(below, timeout=20)[1]

    def test_a_ray_of_others_lends_nodes_for_its_token_and_stays(self, processes: Processes) -> None:
        p = processes
        p.up("--workers", "0", "--trust")
        with another(2, "token") as (address, ray, knows):
            bare = p.done("worker", "--ray", address)
            assert bare.returncode == 3 and f"Ray at {address} demands its token" in bare.stderr
            launcher = by_ray(p, 2, "--trust", "--spread", ray=address, **knows)
            assert len({worker.node for worker in p.status().workers}) == 2
            program, tensors = sharded.captured("mlp").program, sharded.tensors("mlp")
            with p.session() as session:
                shared = Shared(session, program, PLACES["in stages"](program, 2))
                assert alike(shared.once(tensors), expected(program, tensors))
            launcher.terminate()
            assert launcher.wait(60) == 130
            until(lambda: not p.status().workers)
            second = by_ray(p, 1, "--trust", ray=address, **knows)
            names = {process.name() for process in psutil.Process(ray.pid).children(recursive=True)}
            assert {"gcs_server", "raylet"} <= names
            second.terminate()
            assert second.wait(60) == 130

    def test_a_ray_that_demands_no_token_is_refused(self, processes: Processes) -> None:
        with another(1, "disabled") as (address, _, knows):
            processes.environment |= knows
            refused = processes.done("worker", "--ray", address)
        assert refused.returncode == 3 and f"Ray at {address} demands no token" in refused.stderr

    def test_a_machine_without_room_says_what_it_has(self, processes: Processes) -> None:
        refused = processes.done("worker", "--ray", "local", "--workers", "2", "--cpus", "4096")
        assert refused.returncode == 3 and "there is no room for 2 × 4096 CPU: this machine has" in refused.stderr

    @pytest.mark.timeout(900)
    def test_seventy_two_actors_execute_what_is_asked(self, processes: Processes) -> None:
        p = processes
        if (free := psutil.virtual_memory().available) < 9 << 30:
            pytest.skip(f"72 actors take 7 GiB: {free >> 30} GiB are free")
        p.up("--workers", "0", "--trust")
        by_ray(p, 72, "--trust", "--cpus", "0.01")
        assert sum(worker.slots for worker in p.status().workers) == 72
        use_each(p.session, 72)
        assert sum(worker.runs > 0 for worker in p.status().workers) == 72
