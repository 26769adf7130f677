"""What a session remembers: a chain in which every task begins with the states that the one before it left."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentensor import merkle
from eigentensor.errors import BlobNotFound, ConfigError, SessionBusy
from eigentensor.task import Domain, Order
from eigentensor_client.history import History, SessionFile, Void
from eigentensor_client.orders import Roots, renewed
from support.stories.operator import an_order
from support.stories.orders import CLIENT, TERMS

DOMAIN = Domain(31337, "0x" + "77" * 20)
PROGRAM, WEIGHTS, START = (bytes([n]) * 32 for n in (5, 6, 7))


def empty() -> History:
    return History(DOMAIN, CLIENT, PROGRAM, WEIGHTS, START, TERMS)


def ordered(history: History, position: int, **changes: Any) -> Order:
    variables = merkle.variables_root({"position": position})
    fields = {"client": CLIENT, "program": PROGRAM, "weights": WEIGHTS, "states": history.next_states}
    return an_order(nonce=position, variables=variables, **{**fields, **changes})


def after(steps: int, under_way: bool = False) -> History:
    history = empty()
    for n in range(steps + under_way):
        history = history.asks(ordered(history, n), {"position": n})
        if n < steps:
            history = history.answered(bytes([n]) * 32, bytes([n + 100]) * 32)
    return history


def test_each_step_begins_with_the_states_that_the_one_before_it_left() -> None:
    history = after(3)
    assert [history.states_before(n) for n in range(4)] == [START, *(bytes([n]) * 32 for n in (100, 101, 102))]
    assert [step.order.states for step in history.steps] == [history.states_before(n) for n in range(3)]
    assert history.steps[1].outputs_root == merkle.outputs_root(b"\1" * 32, bytes([101]) * 32)


@pytest.mark.parametrize("field", ["client", "program", "weights", "states"])
def test_an_order_that_does_not_go_on_from_there_is_refused(field: str) -> None:
    other: Any = "0x" + "12" * 20 if field == "client" else b"\x99" * 32
    with pytest.raises(ValueError, match="does not go on from states"):
        after(1).asks(ordered(after(1), 1, **{field: other}), {"position": 1})


def test_the_same_work_is_known_again_and_another_is_not() -> None:
    history = after(1, under_way=True)
    order = ordered(history, 1)
    roots = Roots(PROGRAM, order.inputs, WEIGHTS, history.next_states, order.variables)
    assert history.is_under_way(roots, 1)
    assert not history.is_under_way(roots, 2)
    assert not history.is_under_way(replace(roots, inputs=b"\1" * 32), 1)
    assert not history.is_under_way(replace(roots, variables=b"\1" * 32), 1)
    assert not after(1).is_under_way(roots, 1)


def test_what_is_asked_for_again_is_another_task_for_the_same_work() -> None:
    history = after(1, under_way=True)
    assert history.under_way is not None
    first = history.under_way.order
    again = renewed(first, 77, 500, first.ramp_start)
    assert again.ramp_start == 500
    retried = history.gives_up("failed").asks(again, {"position": 1})
    assert retried.void == (Void(history.task(first), 1, "failed"),)
    assert retried.task(again) != history.task(first)
    assert again.accept_by - again.ramp_start == first.accept_by - first.ramp_start
    back = replace(again, nonce=first.nonce, ramp_start=first.ramp_start, accept_by=first.accept_by)
    assert back == first


def test_going_back_makes_all_that_followed_void() -> None:
    history = after(4, under_way=True)
    back = history.rewound(2, "convicted")
    assert (len(back.steps), back.under_way, back.next_states) == (2, None, history.states_before(2))
    tasks = [history.task(asked.order) for asked in (history.steps[2].asked, history.steps[3].asked)]
    assert history.under_way is not None
    tasks.append(history.task(history.under_way.order))
    assert back.void == tuple(Void(task, step, "convicted") for step, task in enumerate(tasks, 2))
    assert after(1).rewound(1, "rewound") == after(1)


@pytest.mark.parametrize("history", [empty(), after(2), after(1, True).rewound(0, "rewound"), after(3, True).finals(0)])
def test_a_history_survives_its_file(history: History, tmp_path: Path) -> None:
    file = SessionFile(tmp_path / "a.session")
    file.write(history)
    assert file.read() == history
    file.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.session"]


@pytest.mark.parametrize("amount, why", [({}, "not a number"), (True, "not a number"), (-1, "below zero")])
def test_terms_whose_amounts_are_none_are_refused(amount: Any, why: str) -> None:
    values = after(1).to_json()
    values["terms"]["max_price"] = amount
    with pytest.raises(ConfigError, match=why):
        History.from_json(values)


@given(st.integers(0, 1 << 32))
def test_a_changed_file_is_refused_or_a_whole_session_still(seed: int) -> None:
    """Something in it is exchanged, or left out."""
    random, values = Random(seed), json.loads(json.dumps(after(2, under_way=True).to_json()))
    place: Any = values
    while isinstance(place, dict | list) and place:
        holder, key = place, random.choice(list(place) if isinstance(place, dict) else range(len(place)))
        place = holder[key]
    holder[key] = random.choice([None, [], {}, "", "0x", 7, -1, True, "ab" * 32, "0x" + "ab" * 20, 1 << 70])
    if random.random() < 0.3:
        del holder[key]
    try:
        read = History.from_json(values)
    except ConfigError:
        return
    assert History.from_json(json.loads(json.dumps(read.to_json()))) == read
    for number, step in enumerate(read.steps):
        assert step.order.states == read.states_before(number)


@pytest.mark.parametrize("name", ["states", "outputs", "variables", "order", "task"])
def test_a_step_that_does_not_follow_from_the_one_before_it_is_refused(name: str) -> None:
    values = after(3).to_json()
    steps = cast(list[dict[str, object]], values["steps"])
    steps[1][name] = steps[0][name]
    if name == "outputs":
        assert History.from_json(values).steps[1].outputs == bytes(32)  # the chain says whether they were these
        return
    with pytest.raises(ConfigError, match="not the file of a session"):
        History.from_json(values)


def test_only_one_process_has_a_session_and_none_takes_the_place_of_another(tmp_path: Path) -> None:
    first = SessionFile(tmp_path / "a.session", new=True)
    with pytest.raises(SessionBusy):
        SessionFile(tmp_path / "a.session")
    first.write(empty())
    first.close()
    with pytest.raises(ConfigError, match="exists"):
        SessionFile(tmp_path / "a.session", new=True)
    second = SessionFile(tmp_path / "a.session")
    first.close()
    with pytest.raises(SessionBusy):
        SessionFile(tmp_path / "a.session")
    second.close()


def test_what_is_no_session_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    file = SessionFile(path)
    with pytest.raises(BlobNotFound, match="no session"):
        file.read()
    for text in ("", "[]", "{}", "\xff", json.dumps({"schema": "eigentensor.session/2"})):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(ConfigError):
            file.read()
    file.close()
    with pytest.raises(ConfigError, match="cannot write"):
        SessionFile(tmp_path / "nowhere" / "a.session")
