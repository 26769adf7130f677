"""Whatever the chain does, the aggregator's database is what the present chain alone would have made of it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlmodel import Session, delete, select

from eigentensor.chain import (
    NONE,
    Accepted,
    Cancelled,
    Changes,
    Committed,
    Deployment,
    Event,
    Head,
    OperatorJoined,
    OperatorLeft,
    Order,
    Place,
    Posted,
    Revealed,
    SignerSet,
    anvil_account,
)
from eigentensor_aggregator.store import Store
from eigentensor_aggregator.tables import Block, EventRow, OperatorRow, TaskRow

ADDRESSES = [anvil_account(i).address for i in range(3)]
NAMES = "maxExec lag grid record check reveal challenge clock margin eta gDef gMiss"
DEPLOYMENT = Deployment.from_json(
    {
        "chainId": 31337, "block": 0, "taskMarket": ADDRESSES[0], "serviceManager": ADDRESSES[0], "burn": ADDRESSES[0],
        "core": dict.fromkeys(["allocationManager", "delegationManager", "strategyManager", "strategy"], ADDRESSES[0]),
        "token": {"address": ADDRESSES[0], "symbol": "T", "decimals": 18},
        "parameters": dict.fromkeys(NAMES.split(), 1),
    }
)  # fmt: skip
ORDER = Order(ADDRESSES[0], 0, 1, NONE, NONE, NONE, NONE, NONE, 1, 1, 2, 0, 0, 0, 0, 0, 0, 5, 9, NONE)


def happened(kind: int, subject: int, place: Place) -> Event:
    task, operator = bytes([subject + 1]) * 32, ADDRESSES[subject]
    made: list[Event] = [
        Posted(place, task, ORDER.client, ORDER),
        Accepted(place, task, operator, 1, 2),
        Committed(place, task, bytes(32)),
        Revealed(place, task, 0, b"\1" * 32),
        Cancelled(place, task),
        OperatorJoined(place, operator),
        OperatorLeft(place, operator),
        SignerSet(place, operator, ADDRESSES[kind % 3], place.block),
    ]
    return made[kind]


BLOCKS = st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2)), max_size=3), max_size=4)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("stores")
    made = [Store(f"sqlite:///{folder / name}", DEPLOYMENT) for name in ("followed", "fresh")]
    yield made
    for store in made:
        store.close()


def content(store: Store) -> list[dict[str, Any]]:
    with store.session() as session:
        tables = (EventRow, TaskRow, OperatorRow)
        rows = [row.model_dump() for table in tables for row in session.exec(select(table)).all()]  # type: ignore[call-overload]
    return sorted(rows, key=repr)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(st.tuples(st.integers(0, 5), BLOCKS), max_size=5))
def test_following_a_chain_through_reorganisations_ends_where_reading_it_once_does(
    stores: list[Store], rounds: list[tuple[int, Any]]
) -> None:
    followed, fresh = stores
    for store in stores:
        with Session(store.engine) as session:
            for table in (EventRow, TaskRow, OperatorRow, Block):
                session.exec(delete(table))
            session.commit()
    canonical: list[list[Event]] = []
    for fork, (depth, blocks) in enumerate(rounds):
        kept = max(0, len(canonical) - depth)
        rolled_back = kept if kept < len(canonical) else None
        canonical = canonical[:kept]
        new: list[Event] = []
        for number, specified in enumerate(blocks, start=kept + 1):
            hash_ = bytes([fork, number]) * 16
            events = [happened(kind, who, Place(number, i, hash_, hash_)) for i, (kind, who) in enumerate(specified)]
            canonical.append(events)
            new += events
        heads = (Head(len(canonical), bytes([fork, len(canonical)]) * 16),) if blocks else ()
        followed.apply(Changes(rolled_back, tuple(new), heads, complete=True))
        assert [head.number for head in followed.heads()] == sorted({head.number for head in followed.heads()})
        assert all(head.number <= len(canonical) for head in followed.heads())
    fresh.apply(Changes(None, tuple(event for block in canonical for event in block), (), complete=True))
    assert content(followed) == content(fresh)
