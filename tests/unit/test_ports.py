"""Ports that are chosen now and taken later, by another process."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from eigentensor_local import ports
from eigentensor_local.ports import free_port

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.skipif(not RANGE.exists(), reason="only Linux says which ports it gives away")
def test_whoever_asks_for_any_port_gets_none_that_was_chosen() -> None:
    least = int(RANGE.read_text().split()[0])
    chosen = [free_port() for _ in range(50)]
    assert len(set(chosen)) > 40 and all(1024 <= port < least for port in chosen)
    with closing(socket.create_server(("127.0.0.1", 0))) as any_:
        assert any_.getsockname()[1] >= least
    with socket.create_server(("127.0.0.1", chosen[0])):
        pass


def test_a_port_that_is_taken_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    free = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr("random.sample", lambda *_: [taken.getsockname()[1], free])
        assert free_port() == free


@pytest.mark.parametrize("text", ["1024\t65535\n", "20000\t60999\n"])
def test_where_the_system_gives_all_of_them_one_of_its_own_is_taken(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "range").write_text(text)
    monkeypatch.setattr(ports, "_RANGE", tmp_path / "range")
    with socket.create_server(("127.0.0.1", free_port())):
        pass
