"""A game in words, as the gateway tells it: who, what, whose turn, until when, and how it ended."""

from typing import Any

import pytest
from eth_abi.abi import encode

from aggregator_stories import CHALLENGER, EXECUTOR, REVEALED_TASK, TASK, challenged, convicted, ended, moved, told
from eigentensor.chain import TaskEvent
from eigentensor.dispute import FINAL, Phase, Reason
from eigentensor_aggregator.games import explained
from eigentensor_aggregator.store import Sent

ROOTS = [b"\1" * 32] * 3
PUBLISHED = moved(34, Phase.CALL, data=encode(["bytes32", "bytes32", "bytes32[]"], [b"h" * 32, b"r" * 32, ROOTS]))
PICKED = moved(36, Phase.TREE, number=2, level=7)
DESCENDED = moved(37, Phase.NODE, number=2, level=7, opened=5, data=encode(["bytes32[]"], [ROOTS]))
DEEPER = moved(38, Phase.LEAF, number=2, index=9)
SHOWN = moved(39, Phase.ELEMENT, number=2, index=9, data=encode(["bytes", "bytes"], [b"leaf", b"results"]))
CHOSEN = moved(40, Phase.BORDERS, number=2, index=9, element=21, reduction=1, low=0, high=4096)
BORDERS = moved(41, Phase.SPAN, number=2, element=21, reduction=1, low=0, high=4096, data=encode(["bytes"], [b"x"]))
STEP = moved(42, Phase.VERDICT, number=2, element=21, reduction=1, low=63, high=64)
WHOLE = [PUBLISHED, PICKED, DESCENDED, DEEPER, SHOWN, CHOSEN, BORDERS, STEP]


def shown(*happened: TaskEvent) -> dict[str, Any]:
    events = [*REVEALED_TASK, *challenged(32), *happened]
    view = told(*events)
    sent = Sent(CHALLENGER, 50_000)
    return explained(view, view.games[1], [(event, sent) for event in events], 45)


def test_every_move_has_its_player_its_name_and_its_words() -> None:
    said = shown(*WHOLE, *ended(43, executor_lost=True), convicted(43))
    assert [(move["by"], move["move"], move["what"]) for move in said["moves"]] == [
        ("challenger", "challenge", "claims that the result is wrong"),
        ("executor", "publish", "published the tensor roots of all executed calls: 3"),
        ("challenger", "pick_call", "disputes executed call 2, node 0 at level 7 of its tensor"),
        ("executor", "descend", "published 3 hashes of the tree below"),
        ("challenger", "pick_node", "disputes executed call 2, leaf 9 of its tensor"),
        ("executor", "show_leaf", "showed leaf 9, and the results of the reductions of its elements"),
        ("challenger", "pick_reduction", "disputes executed call 2, element 21, reduction 1, steps 0 to 4096"),
        ("executor", "claim_borders", "published the accumulators between spans of steps 0 to 4096"),
        ("challenger", "pick_span", "disputes executed call 2, element 21, reduction 1, steps 63 to 64"),
        ("challenger", "verdict", "the referee computes another value than the executor claims: the executor loses"),
    ]
    assert [move["block"] for move in said["moves"]] == [32, 34, *range(36, 44)]
    assert all((move["gas"], move["account"]) == (50_000, CHALLENGER) for move in said["moves"])
    assert (said["state"], said["lost_by"], said["why"], said["turn"], said["until"]) == (
        "ended", "executor", "verdict", None, None,
    )  # fmt: skip


def test_the_side_to_move_and_its_last_block_are_told_while_it_is_played() -> None:
    begun = shown()
    assert (begun["state"], begun["phase"], begun["turn"], begun["until"]) == ("open", "publish", "executor", 111)
    assert begun["about"] == "the whole result" and begun["clocks"] == {"executor": 80, "challenger": 80}
    assert (begun["executor"], begun["challenger"], begun["bond"]) == (EXECUTOR, CHALLENGER, "24")
    assert begun["lost_by"] is None and begun["position"]["task"] == "0x" + TASK.hex()
    mine = shown(PUBLISHED)
    assert (mine["phase"], mine["turn"], mine["until"]) == ("call", "challenger", 113)


@pytest.mark.parametrize(
    ("reason", "executor_lost", "by", "move", "what"),
    [
        (Reason.CLOCK, True, "anybody", "timeout", "the executor's clock is over: it loses"),
        (Reason.CLOCK, False, "anybody", "timeout", "the challenger's clock is over: it loses"),
        (Reason.COLLECT, True, "challenger", "collect", "imply another outputs root than it revealed: the executor"),
        (Reason.COLLECT, False, "challenger", "collect", "imply the outputs root revealed: the challenger loses"),
        (Reason.DETERMINED, True, "challenger", "pick_call", "cannot be: the executor loses"),
        (Reason.VERDICT, False, "challenger", "verdict", "the value that the executor claims: the challenger loses"),
    ],
)
def test_every_end_says_why(reason: Reason, executor_lost: bool, by: str, move: str, what: str) -> None:
    said = shown(PUBLISHED, *ended(40, reason=reason, executor_lost=executor_lost))
    assert (said["moves"][-1]["by"], said["moves"][-1]["move"]) == (by, move)
    assert what in said["moves"][-1]["what"] and said["why"] == reason.name.lower()


def test_the_final_expression_has_no_steps() -> None:
    final = moved(42, Phase.VERDICT, number=2, element=21, reduction=FINAL)
    assert shown(*WHOLE[:5], final)["about"] == "executed call 2, element 21, the final expression"


def test_a_game_that_outlives_its_task_is_idle_and_nobodys_turn() -> None:
    said = shown(PUBLISHED, convicted(44))
    assert (said["state"], said["turn"], said["until"]) == ("idle", None, None)
