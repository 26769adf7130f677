"""Who waits learns for whom, and for no longer than was asked for: nodes and gateways that take a connection and say
nothing."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eigentensor import talk
from eigentensor.errors import ExecutorFailed, NobodyAccepted, NotYet
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.talk import WAITS, Waits, waiting_for
from eigentensor_client.attempts import Attempts
from eigentensor_client.task_view import TaskView
from eigentensor_client.verbs.timeout import within
from support.screens.values import NETWORK
from support.stories.orders import seen


@pytest.fixture
def hung() -> Iterator[str]:
    """The URL of what takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_who_does_not_answer_soon_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    words, named = list[str](), threading.Event()

    def say(word: str) -> None:
        words.append(word)
        named.set()

    WAITS.set(waits := Waits(say))
    try:
        for whom, soon in (("a", 600), ("b", 0.05), ("b", 0.05)):
            monkeypatch.setattr(talk, "SOON", soon)
            with waiting_for(whom):
                assert waits.whom == whom
                assert named.wait(0 if whom == "a" else 60) is (whom == "b")
                time.sleep(0.3 if words else 0)  # it might be named again
        assert waits.whom == "" and words == ["waits for b"]
    finally:
        WAITS.set(None)


def test_a_command_ends_in_time_whatever_it_does(hung: str, tmp_path: Path) -> None:
    WAITS.set(Waits(lambda _: None))
    started = time.monotonic()
    try:
        with pytest.raises(NotYet, match=rf"not done after 0.1 s: it waited for the gateway at {hung}"), within(0.1):
            GatewayClient(hung, LocalStore(tmp_path)).network()
    finally:
        WAITS.set(None)
    assert time.monotonic() - started < 5
    with pytest.raises(NotYet) as raised, within(0.1) as clock:
        while True:  # it computes
            left = clock.left()
            assert left is not None and left <= 0.1
    assert raised.value.what == "not done after 0.1 s"
    with within(None) as clock:
        assert clock.left() is None
    with within(0) as clock:
        assert clock.left() == 0


def test_a_node_that_hangs_is_no_silence_and_no_hundred_seconds(hung: str, tmp_path: Path) -> None:
    network = {"name": "hung", "rpc_url": hung, "gateway_url": hung, "deployment": NETWORK.deployment.to_json()}
    (tmp_path / "hung.json").write_text(json.dumps(network))
    command = [
        sys.executable,
        "-m",
        "eigentensor_client",
        "get",
        "3f2a",
        "-o",
        "x",
        "--timeout",
        "4",
        "-n",
        "hung.json",
    ]
    home = {name: str(tmp_path) for name in ("HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "EIGENTENSOR_CACHE_DIR")}
    ended = subprocess.run(command, cwd=tmp_path, env=os.environ | home, capture_output=True, text=True, timeout=60)
    first, *_ = ended.stderr.splitlines()
    assert first == f"waits for the chain's node at {hung}"
    assert f"not done after 4 s: it waited for the chain's node at {hung}" in ended.stderr
    assert ended.returncode == 9 and "Traceback" not in ended.stderr


def test_a_work_is_asked_for_again_as_often_as_was_allowed_and_every_task_is_named() -> None:
    tasks, lines = [seen(), seen(102), seen(103)], list[str]()
    posted = iter(tasks[1:])

    def again(task: TaskView) -> TaskView:
        assert task is attempts.current[0]
        return next(posted)

    def report(text: str, done: float | None = None, total: float | None = None) -> None:
        lines.append(text)

    attempts = Attempts([tasks[0]], again, 2, report)
    attempts.go_on(NobodyAccepted("nobody"))
    attempts.go_on(ExecutorFailed("it failed"))
    assert attempts.current == [tasks[2]] and attempts.earlier == [tasks[0].uuid, tasks[1].uuid]
    assert [line.partition(";")[0] for line in lines] == ["nobody", "it failed"]
    assert lines[1].endswith(f"posted again as task {tasks[2].uuid}, retry 2 of 2")
    with pytest.raises(NobodyAccepted):
        attempts.go_on(NobodyAccepted("nobody"))
    assert attempts.current == [tasks[2]]
