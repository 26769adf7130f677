"""A network that runs goes from the version before to this one, and back, with its data and with tasks under way."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from eigentensor.chain import Chain, anvil_account, to_wei
from eigentensor.chain.journal import Journal
from eigentensor.errors import ConfigError
from eigentensor.store import LocalStore
from eigentensor.task import State
from eigentensor_aggregator.database import connect
from eigentensor_client.client import Client
from eigentensor_local.anvil import join
from eigentensor_local.devnet import Devnet
from eigentensor_local.processes import Running
from support.screens.readme import ROOT
from support.stories.daemons import (
    TERMS,
    example_with_everything,
    network_of,
    pass_draw,
    pass_window,
    start,
    work_of,
)

FIRST = "67b28e22d869b446003ea8dc2fe33655fd488ade"  # before there was any tag: what the first version is compared with
FOLDERS = ("sdk", "operator", "aggregator", "client")
MADE = ("sdk/eigentensor/web/pages/vendor", "aggregator/eigentensor_aggregator/documentation.zip")


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The settings with which a process runs the version before."""
    folder = tmp_path_factory.mktemp("earlier")
    try:
        tags = git("tag", "--merged", "HEAD~1", "--list", "v*", "--sort=-version:refname").split()
        subprocess.run(
            f"git archive {tags[0] if tags else FIRST} {' '.join(FOLDERS)} | tar -x -C {folder}",
            shell=True, cwd=ROOT, check=True, executable="/bin/bash",
        )  # fmt: skip
    except subprocess.CalledProcessError:
        pytest.skip("this clone has no history")
    for name in MADE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True)
    return {"PYTHONPATH": ":".join(str(folder / name) for name in FOLDERS)}


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Devnet]:
    with network_of(tmp_path / "network.json") as net:
        join(net.network, net.party("other").owner)  # whose seats an acceptance needs
        yield net


def gateway(net: Devnet, running: Running | None, version: Mapping[str, str]) -> Running:
    """Another version of the aggregator, on the same data; of its database the version before has the copy from before
    this one took it over. What happened since then stands in the chain."""
    if running is not None:
        running.stop()
    database, copy = (net.folder / "market" / name for name in ("aggregator.sqlite", "copy.sqlite"))
    if version and copy.exists():
        for path in database.parent.glob(f"{database.name}*"):  # with what SQLite keeps beside it
            path.unlink()
        shutil.copy(copy, database)
    elif database.exists():
        shutil.copy(database, copy)
    started = net.start_aggregator({"EIGENTENSOR_AGGREGATOR_DATA": net.folder / "market", **version})
    started.wait_ready()
    return started


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_network_goes_on_with_the_other_version_and_back(
    net: Devnet, earlier: Mapping[str, str], tmp_path: Path
) -> None:
    next(process for process in net.processes if process.name == "aggregator").stop()
    aggregator, party, example = gateway(net, None, earlier), net.party("operator"), example_with_everything()
    net.join(party)

    def operator(version: Mapping[str, str], *steps: str) -> Running:
        return start(net, party, *steps, **version)

    def shown(version: Mapping[str, str]) -> str:
        command = [sys.executable, "-m", "eigentensor_client", "task", "show", task.uuid, "--json"]
        environment = net.environment(tmp_path / "asking", version)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
        return str(json.loads(done.stdout)["task"]).removeprefix("0x")

    with Client(net.network, anvil_account(2), LocalStore(tmp_path)) as client:
        client.chain.token.mint(client.address, to_wei("1"))
        before = client.chain.market.balance_of(party.address).balance
        for begins, ends in ((earlier, {}), ({}, earlier)):
            (task,) = client.post([work_of(example)], TERMS)
            running = operator(begins, "committed")
            running.wait_ready()
            running.stop()
            aggregator = gateway(net, aggregator, ends)
            running = operator(ends, "upload", "final")
            pass_draw(net, client, task)
            running.wait_ready()
            client.deliver(client.look(task))
            assert shown(earlier) == shown({}) == task.uuid
            pass_window(net, client, task)
            assert client.wait(task, "final", timeout=60).state is State.FINAL
            running.stop()
        assert client.chain.market.balance_of(party.address).balance - before == 2 * TERMS.max_price
    with Chain(net.network, party.owner, tmp_path / "owner.sqlite") as owner:
        assert owner.market.held_of(party.address) == 0


def test_what_a_later_version_wrote_is_said_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    with sqlite3.connect(path) as journal:
        journal.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match="later version"):
        Journal(path)
    with sqlite3.connect(path) as journal:
        assert journal.execute("PRAGMA user_version").fetchone() == (99,)
    url = f"sqlite:///{tmp_path / 'aggregator.sqlite'}"
    connect(url).dispose()
    with sqlite3.connect(tmp_path / "aggregator.sqlite") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(ConfigError, match="later version"):
        connect(url)
