"""The campaign of single faults: what it remembers, and how it goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from eigentensor.dispute import Outcome, Reason, Side
from eigentensor.task import State
from support.campaigns import faults
from support.stories.faults import Story, is_honest
from support.stories.game_course import Course, Sent


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(faults, "RECORD", tmp_path / "faults.json")
    return tmp_path / "faults.json"


def passed(*numbers: int) -> list[dict[str, Any]]:
    game = {"graph": "softmax", "end": "judgeFinal", "moves": 5, "gas": 610_000}
    return [{"number": n, "kinds": ["honest" if is_honest(n) else "accumulator"], **game} for n in numbers]


def test_a_campaign_goes_on_behind_what_has_been_played(record: Path) -> None:
    faults.Record().add(range(10), passed(*range(10)))
    again = faults.Record()
    assert (again.next, again.failing) == (10, [])
    again.add(range(10, 12), passed(10, 11))
    content = json.loads(record.read_text())
    assert content["total"] == {"convicted": 11, "acquitted": 1, "transactions": 60}
    assert [(run["from"], run["to"]) for run in content["runs"]] == [(0, 12)]
    assert (content["kinds"], content["gas"]) == ({"accumulator": 11}, {"625000": 11})


def test_a_game_that_fails_is_not_counted_until_it_ends_as_it_must(record: Path) -> None:
    faults.Record().add(range(3), [*passed(0, 2), {"failed": 1, "report": "1: softmax"}])
    assert (faults.Record().next, faults.Record().failing) == (3, [1])
    faults.Record().add(range(1, 2), passed(1))
    assert faults.Record().failing == []
    assert json.loads(record.read_text())["total"]["convicted"] == 3


def test_other_contracts_have_an_entry_of_their_own(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults.Record().add(range(2), passed(0, 1))
    monkeypatch.setattr(faults, "contracts", lambda: "others")
    faults.Record().add(range(2, 4), passed(2, 3))
    assert [(run["from"], run["to"]) for run in json.loads(record.read_text())["runs"]] == [(0, 2), (2, 4)]


@pytest.mark.parametrize(
    ("number", "lost", "state"),
    [(0, False, State.FINAL), (0, None, State.FINAL), (0, True, State.REVEALED), (9, True, State.CONVICTED)],
)
def test_any_other_end_is_a_failure_that_names_the_game(number: int, lost: bool | None, state: State) -> None:
    outcome = None if lost is None else Outcome(lost, Reason.VERDICT)
    course = Course("7: softmax, a fault", 1, [Sent(Side.CHALLENGER, "judgeSpan", 9, 4, outcome)], outcome)
    case: Any = None  # it has been played
    line = faults._line(Story(number, "softmax", (), case), course, state)
    assert line["failed"] == number
    assert all(word in line["report"] for word in (course.name, "judgeSpan", state.name))


DIES_AT_2 = """
import json, os, sys
for number in range(int(sys.argv[2]), 5):
    if number == 2:
        os.abort()
    game = {"graph": "softmax", "kinds": ["received"], "end": "verdict", "moves": 7, "gas": 1}
    print(json.dumps({"number": number, **game}), flush=True)
"""


def test_a_process_that_ends_has_failed_at_what_it_did_not_play(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dies.py").write_text(DIES_AT_2)
    monkeypatch.setattr(faults, "__file__", str(tmp_path / "dies.py"))
    assert faults.campaign(faults=4, minutes=1, processes=1) == 1
    content = json.loads(record.read_text())
    assert (content["total"]["convicted"], content["failing"]) == (2, [2, 3])
