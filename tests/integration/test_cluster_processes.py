"""A cluster as its commands make it: a dispatcher, workers and clients in processes of their own, over TLS."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np
import pytest

from eigentensor.cluster.log import load_log
from eigentensor.cluster.remote import RemoteSession
from eigentensor.cluster.resident import with_inputs_alone
from eigentensor.program.codec import encode
from eigentensor.runtime import CompiledGraph
from eigentensor.store.tensors import load_safetensors
from eigentensor.wire import read
from eigentensor_client.cli import main
from eigentensor_cluster.schemas import ClusterStatus
from eigentensor_cluster.sharing import bytes_of
from support.clusters import F32, Processes, Training, added, losses_of, square
from support.programs import sharded
from support.programs.placements import PLACES
from support.programs.worked_examples import layer
from support.screens.objects import hold
from support.sharing import Shared, Steps, alike, expected, moved, placed, sent, through_dispatcher, use_each


@pytest.fixture
def processes() -> Iterator[Processes]:
    with TemporaryDirectory() as folder:  # a short one: paths of sockets are
        made = Processes(Path(folder))
        yield made
        made.close()


def chained(session: RemoteSession, first: int, steps: int, out: list[Any]) -> None:
    root = session.define(added(32))
    session.put(1, square(32, first), F32)
    session.put(2, square(32), F32)
    last = 1
    for step in range(steps):
        session.run(root, {"x": last, "y": 2}, {"output": step + 3}, freed=[last])
        last = step + 3
    out.append((first, session.get(last)))


def test_two_clients_and_two_workers_over_tls_with_everything_in_a_process_of_its_own(processes: Processes) -> None:
    p = processes
    p.up("--workers", "0", "--trust", "--log", str(p.folder / "log"))
    p.worker("--trust"), p.worker("--trust")
    stands = p.status()
    assert [(worker.name, worker.slots) for worker in stands.workers] == [("w1", 1), ("w2", 1)]
    with ExitStack() as stack:
        out: list[Any] = []
        threads = [
            Thread(target=chained, args=(stack.enter_context(p.session()), client, 100, out)) for client in (5, 9)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert {first for first, _ in out} == {5, 9}
        assert all(np.array_equal(value, square(32, first) + square(32) * 100) for first, value in out)
        shown = json.loads(p.done("status", "--json").stdout)
        hold(shown)
        stands = ClusterStatus(**read(ClusterStatus, shown))
        assert [session.runs for session in stands.sessions] == [100, 100]
        assert [session.member for session in stands.sessions] == ["client", "client"]
        assert sum(worker.runs for worker in stands.workers) == 200
    log = [json.loads(line) for line in p.done("log", "--json").stdout.splitlines()]
    for entry in log:
        hold(entry)
    assert {"CONNECT", "RECV", "SEND", "WORKER_SEND", "WORKER_RECV", "MOVE", "FREE"} <= {e["event"] for e in log}
    trace = json.loads(p.done("trace", "-n", "2", "--session", "1", "--json").stdout)
    hold(trace)
    assert [instruction["what"] for instruction in trace["instructions"]] == ["GET", "END"]
    single = p.done("trace", "5", "--session", "1", "--log", str(p.folder / "log")).stdout.splitlines()
    assert single[0] == "session 1, client" and single[3].split()[:2] == ["5", "RUN"] and "frame=5" in single[-2]
    example = layer()
    (p.folder / "layer.program").write_bytes(encode(example.program))
    inputs = []
    for name, value in example.tensors.items():
        np.save(p.folder / f"{name}.npy", value)
        inputs += ["-i", f"{name}=@{p.folder / name}.npy"]
    out_file = p.folder / "out.safetensors"
    words = (str(p.folder / "layer.program"), *inputs, "-o", str(out_file), "--cluster", p.address)
    ran = p.done("run", *words, "--token", str(p.folder / "client"), "--json")
    hold(json.loads(ran.stdout))
    assert load_safetensors(out_file)["output"].shape == (2, 4)
    wrong = p.done("run", *words, "--token", str(p.folder / "worker"))
    assert wrong.returncode == 3 and "this token is not one of a client" in wrong.stderr
    shared(p, ["mlp"], ["along the batch", "along features or channels"], 2)
    entries = load_log(p.folder / "log")
    assert moved(entries) == sent(entries) == 2 * 8 * 8 * 4
    assert {e.who for e in entries if e.event == "PLAN" and "call" in e.detail} == {"WORKER w1", "WORKER w2"}
    assert p.done("down").returncode == 0 and p.started[0].wait(60) == 0
    gone = p.done("status")
    assert gone.returncode == 10 and "no cluster answers at unix:" in gone.stderr


def test_up_refuses_what_is_not_safe_or_not_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def refused(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["cluster", *words])
        err = capsys.readouterr().err
        assert ended.value.code == 3 and "Traceback" not in err and "  fix  " in err
        return err

    bare = refused("up", "--bind", "0.0.0.0:0")
    assert "nobody may come from elsewhere without a token" in bare and "`--token FILE`" in bare
    file, signals = tmp_path / "tokens", tmp_path / "signals.yaml"
    file.write_text("client me 00\n")
    file.chmod(0o600)
    assert f"{file}:1 is no member" in refused("up", "--bind", "127.0.0.1:0", "--token", str(file))
    file.chmod(0o644)
    assert f"`chmod 600 {file}`" in refused("up", "--bind", "127.0.0.1:0", "--token", str(file))
    signals.write_text("rows:\n  shard: {axis: down}\n")
    assert f"{signals}, line 2" in refused("up", "--config", str(signals))
    assert "is no place to listen" in refused("up", "--bind", "nowhere")
    assert "no cluster of this user is up" in refused("down")
    assert "is no address of a cluster" in refused("status", "--cluster", "example.com")


@pytest.mark.slow
def test_a_worker_that_is_killed_at_any_moment_of_training_changes_no_bit_and_is_noticed(processes: Processes) -> None:
    p, chance = processes, random.Random(int(time.time()))
    losses = losses_of(100, p.folder / "sound")
    p.up("--workers", "0", "--trust")
    for _ in range(int(os.environ.get("KILLS", "5"))):
        victim, other = p.worker("--trust"), p.worker("--trust")
        with p.session() as session:
            training, last = Training(session), chance.randrange(5, 95)
            for step in range(100):
                training.step()
                if step == last:
                    time.sleep(chance.random() * 0.02)
                    victim.send_signal(signal.SIGKILL)
                    victim.wait()
                    while len(p.status().workers) > 1:
                        time.sleep(0.01)
            assert training.read() == losses
        other.kill()
        other.wait()
        while p.status().workers:
            time.sleep(0.05)


@pytest.mark.slow
def test_seventy_two_slots_in_two_processes_execute_what_is_asked(processes: Processes) -> None:
    p = processes
    p.up("--workers", "0", "--trust")
    for _ in range(2):
        p.worker("--slots", "36", "--trust")
    assert sum(worker.slots for worker in p.status().workers) == 72
    use_each(p.session, 72)


@pytest.mark.slow
def test_programs_of_strangers_are_executed_in_sandboxes_of_their_own(processes: Processes) -> None:
    p = processes
    p.up("--workers", "1")
    p.worker("--slots", "1")
    with p.session() as one, p.session() as two:
        out: list[Any] = []
        chained(one, 3, 5, out)
        chained(two, 4, 5, out)
        assert all(np.array_equal(value, square(32, first) + square(32) * 5) for first, value in out)
        children = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert children.count("tenant_child") >= 2


def shared(p: Processes, names: Iterable[str], places: Iterable[str], workers: int) -> None:
    """Holds programs that are shared out among the workers that are there to the reference."""
    for name in names:
        program, tensors = sharded.captured(name).program, sharded.tensors(name)
        results = expected(program, tensors)
        for place in places:
            with p.session() as session:
                assert alike(Shared(session, program, PLACES[place](program, workers)).once(tensors), results), place


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_any_placement_of_any_network_over_processes_has_the_bits_of_the_reference(
    workers: int, processes: Processes
) -> None:
    p = processes
    p.up("--workers", "0", "--trust")
    for _ in range(workers):
        p.worker("--trust", "--device", "PYTHON")
    shared(p, sharded.SMALL, PLACES, workers)


@pytest.mark.slow
def test_seven_rows_lie_on_three_processes(processes: Processes) -> None:
    p, network = processes, sharded.Network(lambda: sharded.Mlp(12, 16, 6), (7, 12))
    graph = network.captured()
    tensors = {"x": network.input, **{name: np.asarray(weight) for name, weight in graph.weights.items()}}
    p.up("--workers", "0", "--trust", "--log", str(p.folder / "log"))
    for _ in range(3):
        p.worker("--trust", "--device", "PYTHON")
    with p.session() as session:
        run = Shared(session, graph.program, PLACES["along the batch"](graph.program, 3))
        assert alike(run.once(tensors), expected(graph.program, tensors))
    assert placed(load_log(p.folder / "log"))[0] == {0: "0:1,0:15", 1: "2:3,0:15", 2: "4:6,0:15"}


@pytest.mark.slow
@pytest.mark.parametrize("trust", [["--trust"], []], ids=["trusted", "confined"])
def test_a_worker_that_is_killed_in_shared_steps_changes_no_bit(trust: list[str], processes: Processes) -> None:
    p, chance, program = processes, random.Random(int(time.time())), sharded.captured("mlp step").program
    p.up("--workers", "0")
    hints, losses = PLACES["along the batch"](program, 2), list[list[bytes]]()
    for kill in range(1 + int(os.environ.get("KILLS", "3"))):
        there = [p.worker(*trust) for _ in range(3 if kill else 1)]
        with p.session() as session:
            steps, last = Steps(Shared(session, program, hints)), chance.randrange(3, 35)
            for step in range(40):
                steps.step()
                if kill and step == last:
                    session.get(steps.losses[-2])
                    time.sleep(chance.random() * 0.02)
                    there[chance.randrange(2)].send_signal(signal.SIGKILL)
            losses.append(steps.read())
        for process in there:
            process.kill()
            process.wait()
        while p.status().workers:
            time.sleep(0.05)
    assert all(of == losses[0] for of in losses)


@pytest.mark.slow
def test_a_large_step_moves_what_was_planned_and_nothing_by_the_dispatcher(processes: Processes) -> None:
    """784-1024-1024-10 on 256 rows, on two workers: less than half of what a ring moves of its gradients."""
    p, name = processes, "MLP 784-1024-1024-10, 256 rows, a step"
    graph = sharded.captured(name)
    memory = bytes_of(with_inputs_alone(graph.program).program) - 1 >> 20
    p.up("--workers", "0", "--trust", "--log", str(p.folder / "log"))
    for _ in range(2):
        p.worker("--trust", "--memory", str(memory))
    with p.session() as session:
        steps = Steps(Shared(session, graph.program), name)
        for _ in range(3):
            steps.step()
            session.get(steps.losses[-1])
        before = len(load_log(p.folder / "log"))
        for _ in range(4):
            steps.step()
        session.stats()
        while sum(worker.runs for worker in p.status().workers) < 2 * 7:
            time.sleep(0.05)
        log = load_log(p.folder / "log")[before:]
        assert 0 < moved(log) == sent(log) <= 4 * 5.5 * 2**20 and through_dispatcher(log) == 0
        assert steps.read()[-len(steps.states) :] == alone(name, 7)


def alone(name: str, count: int) -> list[bytes]:
    """States after so many steps on one device."""
    given = sharded.tensors(name)
    runs = CompiledGraph(sharded.captured(name).program)
    for _ in range(count):
        given = given | dict(runs.run(given).states)
    return [given[state].tobytes() for state in sharded.captured(name).states]
