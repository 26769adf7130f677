"""A file that is read for its program pays in no way, and a command that posts it pays for nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigentensor_client.client import Client
from eigentensor_local.devnet import Devnet, Party

#: Every way to spend something that a file has, each of which writes down how it ended; one is tried much later.
FILE = """\
import asyncio, os, sys, threading, time
from multiprocessing import get_context
from pathlib import Path
import numpy as np
from tinygrad import Tensor
import eigentensor as et
from eigentensor.errors import EigenTensorError
from eigentensor.capture import capture
from eigentensor_client import Client
from eigentensor_client.async_client import AsyncClient
from eigentensor_client.orders import Terms, Work

X = np.ones(4, np.float32)
STATE = Tensor.zeros(4).contiguous().realize()
TERMS = Terms(10**15)

@et.function()
def paid(x): return x * 2

def net(x): return x + 1

def counted(x):
    STATE.assign(STATE + x)
    return STATE + 0

def ended(name, call):
    try:
        call()
        outcome = "paid"
    except EigenTensorError as error:
        outcome = type(error).__name__
    with open("ended.txt", "a") as file:
        file.write(f"{name} {outcome}\\n")

async def each():
    async for y in paid.map.aio([X, X]): pass

async def client_aio(use):
    async with AsyncClient() as client:
        await use(client)

async def session_aio(client):
    async with await client.session(COUNTED.program, {}, dict(COUNTED.states), TERMS) as session:
        await session.run({"x": X})

def with_client(use):
    with Client() as client:
        use(client)

def in_session(client):
    with client.session(COUNTED.program, {}, dict(COUNTED.states), TERMS) as session:
        session.run({"x": X})

def sent(client):
    # what a careless program could do: the parts of `post`, without its checks
    roots = __import__("eigentensor_client.transfer").transfer.upload(client.gateway, WORK)
    client.send(client.drafts([WORK], [roots], TERMS))

def later():
    time.sleep(8)
    ended("later", lambda: paid.remote(X))

WORK = Work(capture(net, {"x": X}).program, {"x": X})
COUNTED = capture(counted, {"x": X})
WAYS = {
    "remote": lambda: paid.remote(X),
    "spawn": lambda: paid.spawn(X),
    "map": lambda: list(paid.map([X, X])),
    "remote.aio": lambda: asyncio.run(paid.remote.aio(X)),
    "spawn.aio": lambda: asyncio.run(paid.spawn.aio(X)),
    "map.aio": lambda: asyncio.run(each()),
    "post": lambda: with_client(lambda client: client.post([WORK], TERMS)),
    "send": lambda: with_client(sent),
    "run": lambda: with_client(lambda client: client.run(WORK, TERMS)),
    "session": lambda: with_client(in_session),
    "post.aio": lambda: asyncio.run(client_aio(lambda client: client.post([WORK], TERMS))),
    "run.aio": lambda: asyncio.run(client_aio(lambda client: client.run(WORK, TERMS))),
    "session.aio": lambda: asyncio.run(client_aio(session_aio)),
    "deposit": lambda: with_client(lambda client: client.chain.market.deposit(client.address, 1)),
}
for name, way in WAYS.items():
    ended(name, way)
    if name in ("remote", "post", "run.aio"):
        thread = threading.Thread(target=ended, args=(f"{name} in a thread", way))
        thread.start()
        thread.join()
if os.fork() == 0:
    ended("fork", WAYS["post"])
    os._exit(0)
os.wait()
threading.Thread(target=later, daemon=sys.argv[1] == "plan").start()
"""
WAYS = [
    "remote", "remote in a thread", "spawn", "map", "remote.aio", "spawn.aio", "map.aio", "post", "post in a thread",
    "send", "run", "session", "post.aio", "run.aio", "run.aio in a thread", "session.aio", "deposit", "fork",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user has such a file and an input."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(FILE)
    np.save("x.npy", np.arange(4, dtype=np.float32))
    return tmp_path


def called(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "eigentensor_client", *words, "net.py:net", "-i", "x=@x.npy", "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def spent(client: Client) -> tuple[int, int, int]:
    """Transactions, balance in the market, tokens."""
    chain = client.chain
    return (
        chain.node.transaction_count(client.address),
        chain.market.balance_of(client.address).balance,
        chain.token.balance_of(client.address),
    )


@pytest.mark.slow
def test_a_file_that_is_planned_pays_in_no_way(net: Devnet, client: Client, folder: Path) -> None:
    before = spent(client)
    done = called("plan")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "eigentensor.plan/1"
    assert (folder / "ended.txt").read_text().splitlines() == [f"{way} PaymentRefused" for way in WAYS]
    assert spent(client) == before


@pytest.mark.slow
def test_a_file_that_is_run_is_one_task_whatever_it_does_until_the_end_of_the_process(
    net: Devnet, client: Client, operators: list[Party], folder: Path
) -> None:
    tasks = len(list(client.tasks()))
    done = called("run", "--max-price", "0.05", "--wait", "result", "-o", "out.safetensors")
    assert done.returncode == 0, done.stderr
    lines = [f"{way} PaymentRefused" for way in (*WAYS, "later")]
    assert (folder / "ended.txt").read_text().splitlines() == lines
    assert len(list(client.tasks())) == tasks + 1
