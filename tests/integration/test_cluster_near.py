"""Boxes between workers of one host: through memory where there is some, else by the socket, and always the same."""

import asyncio
import errno
import gc
import mmap
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor.cluster.frames import VERSION, Failed, Hello, Kind, Laid, Role, Welcome
from eigentensor.cluster.layouts import Reader, encode
from eigentensor.errors import ConnectionLost
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import SEMANTICS
from eigentensor.runtime.sharded.mail import MailClosed, MailPort
from eigentensor_cluster.engine.exchange import Exchange
from eigentensor_cluster.engine.mapped import PAGE, Outbox, Room
from support.clusters import children, cluster
from support.programs import sharded
from support.programs.placements import along
from support.sharing import Shared, alike, expected

SECRET, MEMORY = b"s" * 16, "eigentensor-boxes"


@asynccontextmanager
async def exchanges(folder: Path, count: int) -> AsyncIterator[list[Exchange]]:
    """Workers of one host that know each other."""
    folder.chmod(0o700)
    each = [Exchange() for _ in range(count)]
    for number, one in enumerate(each):
        one.secret = SECRET
        await one.listen_here(folder / str(number))
    try:
        yield each
    finally:
        await asyncio.gather(*(one.close() for one in each))


def ports(each: list[Exchange], run: int, room: int) -> list[MailPort]:
    """The ports of a run with a slot at each, whose boxes on their way may take so many bytes."""
    slots = [one.addresses[0] for one in each]
    return [one.begin(run, slots, [slot], room).port(slot) for slot, one in enumerate(each)]


def memory() -> int:
    """How often this process has memory for boxes mapped."""
    return Path("/proc/self/maps").read_text().count(MEMORY)


async def brought(port: MailPort, other: MailPort) -> set[bool]:
    """Brings some boxes from one to the other, columns of something that is overwritten when they are sent; whether
    they lie where they were written, so that nobody may write there."""
    boxes = [np.arange(count, dtype=np.float32) + count for count in (1, 0, 5000, 700_000, 3)]

    def bring() -> None:
        for number, box in enumerate(boxes):
            wide = np.stack([box, -box], axis=1)
            port.send(other.worker, number, wide[:, :1])
            wide[...] = 0

    def taken() -> set[bool]:
        came = [other.receive(port.worker, number) for number in range(len(boxes))]
        assert [box.tobytes() for box in came] == [box.tobytes() for box in boxes]
        return {not box.flags.writeable for box in came}

    await asyncio.to_thread(bring)
    return await asyncio.to_thread(taken)


def done(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine; nothing is left mapped of it."""
    asyncio.run(work)
    gc.collect()  # errors hold what they came by
    assert memory() == 0


def test_boxes_lie_in_memory_while_there_is_room_and_go_by_the_socket_beside_it(tmp_path: Path, capsys: Any) -> None:
    async def both() -> None:
        async with exchanges(tmp_path, 2) as each:
            for run, (room, where) in enumerate(
                {1 << 30: {True}, 1 << 20: {True, False}, 0: {False}, 1 << 29: {True}}.items()
            ):
                first, second = ports(each, run, room)
                for pair in ((first, second), (second, first)):
                    assert await brought(*pair) == where
                for one in each:
                    one.end(run)
            assert memory() == 4  # each has its own, and the other's

    done(both())
    assert capsys.readouterr().err == ""


def test_three_bring_each_other_boxes_at_once_over_and_over(tmp_path: Path) -> None:
    """With room for some of them."""

    async def all_of_them() -> None:
        async with exchanges(tmp_path, 3) as each:
            for run in range(4):
                own = ports(each, run, 1 << 22)
                pairs = [(one, other) for one in own for other in own if one is not other]
                assert True in set().union(*await asyncio.gather(*(brought(*pair) for pair in pairs)))
                for one in each:
                    one.end(run)
                    one.rest()

    done(all_of_them())


@pytest.mark.parametrize("failing", ["memfd_create", "posix_fallocate", "mmap"])
def test_where_the_system_gives_no_memory_boxes_go_by_the_socket_and_one_line_says_so(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def fails(*arguments: Any) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap if failing == "mmap" else os, failing, fails)

    async def both() -> None:
        async with exchanges(tmp_path, 2) as each:
            for run in range(2):
                first, second = ports(each, run, 1 << 30)
                assert await brought(first, second) == {False}

    done(both())
    assert capsys.readouterr().err.count("Cannot allocate memory") == 1


def hello(path: Path, secret: bytes, descriptors: list[int]) -> socket.socket:
    """Somebody who connects, and says so."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.connect(str(path))
    opened.settimeout(10)
    said = Hello(VERSION, SEMANTICS, Role.WORKER, session=secret, exchange="unix:/liar")
    socket.send_fds(opened, [encode(said, 1)], descriptors)
    return opened


def answers(opened: socket.socket, kinds: set[Kind], first: int = 1) -> Any:
    reader = Reader(kinds, first)
    while data := opened.recv(4096):
        for _, frame in reader.feed(data):
            return frame
    return None


@pytest.mark.parametrize(
    ("box", "why"),
    [
        (Laid(7, 0, 1, 0, DType.FLOAT32, 4, PAGE + 4096 + 4), "no box of 16 bytes"),
        (Laid(7, 0, 1, 0, DType.FLOAT32, 1 << 32, PAGE + 64), "no box of 17,179,869,184 bytes"),
        (Laid(7, 0, 1, 0, DType.BOOL, 3, PAGE + 64), "bools"),
        (Laid(7, 0, 9, 0, DType.UINT8, 3, PAGE + 64), "slot 9 is not here"),
    ],
)
def test_who_lies_about_where_a_box_is_ends_the_run_and_is_named(box: Laid, why: str, tmp_path: Path) -> None:
    async def lied() -> None:
        async with exchanges(tmp_path, 1) as (exchange,):
            room = Room()
            room.widen(1 << 20)
            outbox = Outbox(room)
            assert outbox.lay(np.array([0, 1, 2], np.uint8)) == PAGE + 64
            opened = hello(tmp_path / "0", SECRET, [outbox.descriptor])
            answer = await asyncio.to_thread(answers, opened, {Kind.WELCOME})
            assert isinstance(answer, Welcome) and answer.session == outbox.nonce
            port = exchange.begin(7, ("unix:/liar", exchange.addresses[0]), [1]).port(1)
            waiting = asyncio.create_task(asyncio.to_thread(port.receive, 0, 0))
            opened.sendall(encode(box, 2))
            answer = await asyncio.to_thread(answers, opened, {Kind.FAILED}, 2)
            assert isinstance(answer, Failed) and why in answer.what
            with pytest.raises(MailClosed, match=f"unix:/liar has sent what is refused: .*{why}"):
                await waiting
            opened.close()
            outbox.close()
            with pytest.raises(ConnectionLost, match="unix:/liar"):
                await exchange.sent(7)

    done(lied())


def test_what_is_no_memory_is_not_mapped_and_who_does_not_know_the_secret_is_not_let_in(tmp_path: Path) -> None:
    async def tried() -> None:
        async with exchanges(tmp_path, 1):
            with (tmp_path / "file").open("wb+") as file:
                file.truncate(PAGE)
                opened = hello(tmp_path / "0", SECRET, [file.fileno()])
                answer = await asyncio.to_thread(answers, opened, {Kind.WELCOME})
                assert answer == Welcome(bytes(16), 1, "worker")
                opened.sendall(encode(Laid(7, 0, 1, 0, DType.UINT8, 3, PAGE + 64), 2))
                answer = await asyncio.to_thread(answers, opened, {Kind.FAILED}, 2)
                assert isinstance(answer, Failed) and "no kind of frame" in answer.what
                opened.close()
            outbox = Outbox(Room())
            opened = hello(tmp_path / "0", b"x" * 16, [outbox.descriptor])
            answer = await asyncio.to_thread(answers, opened, {Kind.FAILED})
            assert isinstance(answer, Failed) and "no worker of the same cluster" in answer.what
            opened.close()
            outbox.close()

    done(tried())


def test_a_worker_that_goes_away_leaves_nothing_mapped_and_its_boxes_can_be_read(tmp_path: Path) -> None:
    async def left() -> None:
        async with exchanges(tmp_path, 2) as (one, other):
            first, second = ports([one, other], 1, 1 << 30)
            await asyncio.to_thread(first.send, 1, 0, np.arange(5000))
            came = [await asyncio.to_thread(second.receive, 0, 0)]
            assert memory() == 2
            await one.close()
            await until(lambda: memory() == 1)
            assert np.array_equal(came[0], np.arange(5000))
            with pytest.raises(MailClosed):
                await asyncio.to_thread(second.receive, 0, 1)
            came.clear()
            await until(lambda: memory() == 0)
            await other.close()

    done(left())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


def test_processes_of_tenants_see_nothing_of_the_memory(tmp_path: Path) -> None:
    program, tensors = sharded.captured("mlp").program, sharded.tensors("mlp")
    with cluster(tmp_path / "c") as c, c.session() as session:
        for _ in range(2):
            c.joined(device="PYTHON", is_trusting=False)
        shared = Shared(session, program, along(1)(program, 2))
        for _ in range(2):  # the second processes begin when the memory is there
            assert alike(shared.once(tensors), expected(program, tensors))
            assert memory() > 0 and len(children()) == 2
            for child in children():
                assert MEMORY not in Path(f"/proc/{child}/maps").read_text()
                there = Path(f"/proc/{child}/fd")
                assert not any(MEMORY in os.readlink(one) for one in there.iterdir())
                os.kill(child, 9)
            c.until(lambda: not children())
