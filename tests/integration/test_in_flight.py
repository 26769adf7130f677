"""Hundreds of paid tasks at once, through one gateway, with three operators: everybody is in time."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from eigentensor.chain import anvil_account, to_wei
from eigentensor.economics import WAD
from eigentensor.store import LocalStore
from eigentensor.task import State
from eigentensor_client.accounts import CLIENT
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms
from eigentensor_local.devnet import Devnet, devnet
from support.generated.programs import generate
from support.stories.daemons import work_of

OPERATORS, BLOCK_TIME = 3, 1.0
TERMS = Terms(max_price=to_wei("0.002"), ramp=0, exec=60, accept_within=400, check_rate=WAD // 5)
PATIENCE = 3000.0  # seconds
_OVER = {state.name.lower() for state in State if state.is_terminal}


def told(net: Devnet) -> Iterator[dict[str, Any]]:
    """All tasks as the gateway tells them."""
    cursor: str | None = ""
    while cursor is not None:
        more = {"cursor": cursor} if cursor else {}
        page = httpx.get(f"{net.network.gateway_url}/v1/tasks", params={"limit": 200, **more}, timeout=60).json()
        yield from page["tasks"]
        cursor = page["next"]


def fly(net: Devnet, path: Path, count: int) -> list[dict[str, Any]]:
    """So many tasks from their posts, which are sent at once, to their ends."""
    with Client(net.network, anvil_account(CLIENT), LocalStore(path)) as client:
        views = client.send(client.prepare([work_of(generate(1))] * count, TERMS))
    assert len(views) == count
    end, most = time.monotonic() + PATIENCE, 0
    while True:
        tasks = list(told(net))
        states = Counter(task["state"] for task in tasks)
        in_flight = sum(n for state, n in states.items() if state not in _OVER)
        most = max(most, in_flight)
        sys.stderr.write(f"block {tasks[0]['block'] if tasks else 0}: {json.dumps(states)}\n")
        if len(tasks) == count and not in_flight:
            assert most == count
            return tasks
        assert time.monotonic() < end, states
        time.sleep(10 * BLOCK_TIME)


@pytest.mark.slow
def test_five_hundred_paid_tasks_in_flight_miss_no_window(tmp_path: Path) -> None:
    with devnet(OPERATORS, block_time=BLOCK_TIME, path=tmp_path / "flight.json") as net:
        tasks = fly(net, tmp_path / "store", 500)
        late = [
            name
            for name in ("aggregator", *(p.name for p in net.operators))
            if "unexpected" in net.processes[name].tail(10**6)
        ]
    assert Counter(task["state"] for task in tasks) == {"final": 500}
    drawn = [task for task in tasks if task["draw"]["drawn"]]
    assert all(answer["revealed"] and answer["agrees"] for task in drawn for answer in task["answers"])
    assert drawn and all(task["answers"] for task in drawn)
    assert late == []
