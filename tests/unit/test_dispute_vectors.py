"""The committed questions to the referee are fresh, and of every kind."""

import json
import runpy
from pathlib import Path

from eth_abi.abi import decode

from eigentensor.dispute import Phase
from eigentensor.dispute.position import POSITION, Position

TESTS = Path(__file__).parents[1]
VECTORS = TESTS / "vectors" / "dispute.json"


def test_the_questions_are_those_that_players_ask_now() -> None:
    assert VECTORS.read_text() == runpy.run_path(str(TESTS / "support/vectors/dispute.py"))["text"]()


def test_the_questions_and_positions_are_of_every_kind() -> None:
    vectors = json.loads(VECTORS.read_text())
    assert len({cell["question"][:10] for cell in vectors["cells"]}) == 6
    encoded = (bytes.fromhex(position["encoded"][2:]) for position in vectors["positions"])
    phases = [Position.unpack(decode(["uint256", POSITION], one)[1]).phase for one in encoded]
    assert {Phase.PUBLISH, Phase.CALL, Phase.LEAF, Phase.ELEMENT, Phase.BORDERS, Phase.SPAN} <= {*phases}
