"""One local network for all end-to-end tests, and only for them: its daemons take time. Blocks come with transactions,
from tests, and from a clock that a test stops while daemons are down, so that nothing depends on how fast the machine
is."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor import traces
from eigentensor.capture import GraphProgram, TensorContext
from eigentensor.chain import anvil_account
from eigentensor_client.client import Client
from eigentensor_client.orders import Work
from eigentensor_local.devnet import Devnet, Party, devnet
from support.collector import Told, collector
from support.stories.clock import Clock


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders of its own for what this user would keep, but for compiled kernels: they are the same for all."""
    root = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("EIGENTENSOR_")]:
            patch.delenv(name)
        patch.setenv("EIGENTENSOR_CACHE_DIR", str(root / "blobs"))
        for name in ("STATE", "DATA", "CONFIG"):
            patch.setenv(f"XDG_{name}_HOME", str(root / name.lower()))
        yield root


@pytest.fixture(scope="package")
def told(home: Path) -> Iterator[Told]:
    """What every daemon, and every command, tells of its part in tasks, soon after it."""
    with collector() as told, pytest.MonkeyPatch.context() as patch:
        patch.setenv(traces.COLLECTOR, told.url)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")  # milliseconds
        yield told


@pytest.fixture(scope="package")
def net(home: Path, told: Told) -> Iterator[Devnet]:
    """A chain, its contracts, an aggregator."""
    with devnet(block_time=None) as running:
        yield running


@pytest.fixture(scope="package", autouse=True)
def clock(net: Devnet) -> Iterator[Clock]:
    with Clock(net.anvil) as clock:
        yield clock


@pytest.fixture(scope="package")
def operators(net: Devnet) -> list[Party]:
    """Three operators that have joined and run: who executes is checked by the others."""
    return net.start_operators(3)


@pytest.fixture
def client(net: Devnet) -> Iterator[Client]:
    with Client(net.network) as client:
        yield client


@pytest.fixture
def pauper(net: Devnet) -> Iterator[Client]:
    """A client with coins for gas and nothing to pay with."""
    with Client(net.network, anvil_account(9)) as client:
        yield client


@pytest.fixture(scope="package")
def graph() -> GraphProgram:
    """A small program: matrix product and a bias, which is a weight."""
    context = TensorContext()
    a = context.add_graph_input("a", (8, 16))
    b = context.add_graph_input("b", (16, 8))
    bias = context.add_weight("bias", Tensor(np.arange(8, dtype=np.float32)))
    return context.compile_to_graph((a @ b + bias).relu())


@pytest.fixture
def work(graph: GraphProgram) -> Work:
    """The program with random inputs."""
    a, b = np.random.default_rng().standard_normal((2, 8, 16), dtype=np.float32)
    return Work(graph.program, {"a": a, "b": b.T.copy()}, dict(graph.weights))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows what the daemons said."""
    report = yield
    running = item.funcargs.get("net")
    if report.failed and isinstance(running, Devnet):
        report.sections += [(f"log of {process.name}", process.tail(40)) for process in running.processes]
    return report
