"""Lines that drop, delay, cut, spoil, repeat and swap what passes: what comes is whole, what is sent is sent once; and
systems that fail."""

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

import numpy as np
import pytest

from eigentensor import merkle
from eigentensor.chain import Chain, anvil_account
from eigentensor.errors import EigenTensorError
from eigentensor.store import GatewayClient, LocalStore
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_local.processes import Processes
from support.campaigns.chaos import played
from support.hostile.proxy import Kind, Proxy
from support.hostile.system import Fault, System, compiled
from support.stories.chaos import Schedule
from support.stories.daemons import until
from support.stories.game_table import CLIENT

T = TypeVar("T")
DATA = np.random.default_rng(5).bytes(2 * merkle.PIECE + 77)
#: But for waiting.
KINDS = [kind for kind in Kind if kind is not Kind.DELAY]


@pytest.fixture
def echo() -> Iterator[str]:
    """The URL of a service that says what it hears."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        while data := connection.recv(1 << 16):
                            connection.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def said(url: str, *texts: bytes, size: int) -> bytes:
    """What comes back until the line ends: so much, however long it takes, and what comes soon after it."""
    heard = b""
    address = "127.0.0.1", int(url.rpartition(":")[2])
    with suppress(OSError), socket.create_connection(address, timeout=60) as connection:
        for text in texts:
            connection.sendall(text)
        while data := connection.recv(1 << 16):
            heard += data
            connection.settimeout(60 if len(heard) < size else 1.0)
    return heard


@pytest.mark.parametrize("kind", [None, *Kind])
def test_a_line_is_as_bad_as_it_should_be(echo: str, kind: Kind | None) -> None:
    text = b"a" * 64 + b"b" * 64
    with Proxy(echo, Random(3), share=1.0) as line:
        line.kinds = [] if kind is None else [kind]
        expected = {Kind.DROP: b"", Kind.CUT: b"", Kind.DUPLICATE: text * 4}.get(kind or Kind.DELAY, text)
        heard = said(line.url, text, size=len(expected))
        assert bool(line.planted) is (kind is not None)
    if kind is Kind.GARBAGE:
        assert len(heard) == len(text) and heard != text and not heard.isascii()
    else:
        assert heard == expected


def test_blobs_come_whole_over_bad_lines(
    settings: Settings, serve: Callable[[Settings], tuple[str, Daemon]], tmp_path: Path
) -> None:
    url, _ = serve(settings)
    with Proxy(url, Random(1), share=0.02) as line, GatewayClient(line.url, LocalStore(tmp_path / "a")) as client:
        blob = client.store.put(DATA)
        line.kinds = KINDS
        tried(lambda: client.upload(blob))
        with GatewayClient(line.url, LocalStore(tmp_path / "b")) as other:
            assert tried(lambda: other.fetch(blob)).read_bytes() == DATA


def test_messages_over_bad_lines_are_in_the_chain_once(client: Chain) -> None:
    before = client.node.transaction_count(client.address)
    with Proxy(client.node.network.rpc_url, Random(2), share=0.05) as line:
        network = replace(client.node.network, rpc_url=line.url)
        with Chain(network, anvil_account(CLIENT), None, deadline=30) as chain:
            line.kinds = KINDS
            for amount in range(1, 4):
                approve = partial(chain.token.approve, chain.deployment.task_market, amount, once=f"approve {amount}")
                tried(approve)
    assert client.node.transaction_count(client.address) == before + 3


#: A process that says again and again what its system does; and what a gateway thinks of an upload that has just begun.
FEELS = """
import json, mmap, socket, sys, time
from pathlib import Path
from eigentensor.store import Pieces
from eigentensor_aggregator.uploads import Places, Upload

places, wrong = Places(1), lambda: round((time.time() - time.monotonic() - offset) / 3600)
offset = time.time() - time.monotonic()
places.take("a", Upload(Pieces.of(b"a"), "", places.clock(), 1, own=True))
tries = {
    "write": lambda: Path(sys.argv[1]).write_text("x"), "memory": lambda: mmap.mmap(-1, 1 << 28).close(),
    "names": lambda: socket.getaddrinfo("localhost", 80),
}
while True:
    said = {"clock": wrong(), "resting": places.stale()}
    for name, do in tries.items():
        try:
            said[name] = do() and "" or ""
        except (OSError, MemoryError) as error:
            said[name] = type(error).__name__ + str(getattr(error, "errno", ""))
    print(json.dumps(said), flush=True)
    time.sleep(0.05)
"""


def test_a_system_fails_as_it_should_until_it_is_well_again(tmp_path: Path) -> None:
    system = System(tmp_path / "words", compiled(tmp_path))
    with Processes(tmp_path) as processes:
        command = [sys.executable, "-c", FEELS, str(tmp_path / "written")]
        running = processes.start("feels", command, {**os.environ, **system.environment}, ready="clock")
        running.wait_ready()

        def says(**expected: object) -> bool:
            """What differs from a system that is well, and nothing else."""
            well = {"clock": 0, "resting": [], "write": "", "memory": "", "names": ""}
            return bool(json.loads(running.tail(1)) == well | expected)

        def shows(fault: Fault, expected: Mapping[str, object]) -> bool:
            """Begun again each time, since the process may just have had the memory that it asks for."""
            system.begin(fault, running, Random(0))
            return says(**expected)

        shown: dict[Fault, dict[str, object]] = {
            Fault.FULL: {"write": "OSError28"}, Fault.READ_ONLY: {"write": "OSError30"}, Fault.CLOCK: {"clock": 9},
            Fault.MEMORY: {"memory": "OSError12"}, Fault.NAMES: {"names": "gaierror-3"},
        }  # fmt: skip
        for fault, expected in shown.items():
            until(partial(shows, fault, expected))
            system.end()
            until(says)
        system.begin(Fault.KILLED, running, Random(0))
        assert not running.running


def tried(do: Callable[[], T]) -> T:
    """What comes of it; whatever fails meanwhile is an error of the tree."""
    for _ in range(50):
        with suppress(EigenTensorError):
            return do()
    raise AssertionError("it never came through")


def test_schedules_are_the_same_for_ever_and_have_every_kind() -> None:
    schedules = [Schedule.of(number) for number in range(100)]
    assert {kind for schedule in schedules for kind in schedule.kinds} == set(Kind)
    assert all(any(schedule.lies) for schedule in schedules)
    assert not all(all(schedule.lies) for schedule in schedules)
    assert {blow.fault for schedule in schedules for blow in schedule.blows} == set(Fault)
    assert schedules[7] == Schedule.of(7)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_network_holds_over_bad_lines() -> None:
    """Two of `scripts/chaos`."""
    assert [line.get("report", "held") for line in played(range(2))] == ["held"] * 2
