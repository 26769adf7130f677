"""A dispute as its page tells it: after every move, down both trees, to the operation and the money."""

from functools import cache
from itertools import pairwise

import pytest

from eigentensor import economics
from eigentensor.dispute import Phase
from eigentensor.pace import Pace
from eigentensor.task import Noted, Paid
from eigentensor_aggregator.pages.descents import Cell, Level, Stance
from eigentensor_aggregator.pages.flows import flows
from eigentensor_aggregator.pages.replays import Shown, moves_of, shown
from eigentensor_aggregator.pages.trees import WIDTH, drawing
from support.programs import long_program
from support.stories.aggregator import CHALLENGER, CLIENT, PARAMETERS, TASK, at
from support.stories.liars import Fault
from support.stories.told import Told, told
from support.vectors.dispute import captured

FAULTS = {
    "long sum": Fault(0, 7, 30, 0, 33),  # of an accumulator
    "softmax": Fault(2, 1, 20),
    "digits": Fault(1, 1, 20),
    "embedding": Fault(0, 1, 20),
    "many calls": Fault(100, 2, 3),
    "many calls, the last public": Fault(139, 2, 3),
}


@cache
def game(name: str) -> Told:
    if name.startswith("many calls"):
        return told(long_program.example(layers=70, width=4), FAULTS[name], is_public=name.endswith("public"))
    return told(captured(name), FAULTS[name])


def page(name: str, move: int | None = None) -> Shown:
    one = game(name)
    last = len(moves_of(one.happened, 1))
    return shown(one.life, one.happened, 1, move or last, block=90, pace=Pace(2.0), judged=one.judged)


@pytest.mark.parametrize("name", FAULTS)
def test_every_move_of_a_game_has_its_page(name: str) -> None:
    one, before = game(name), 0
    last = len(one.played.moves) + 1
    for number in range(1, last + 1):
        at = page(name, number)
        assert (at.move, at.last, len(at.game["moves"]), len(at.all_moves)) == (number, last, number, last)
        turns = [player.side for player in at.players if player.runs]
        if number < last:
            assert turns == [one.played.positions[number - 1].phase.side.name.lower()] and at.is_replay
            assert at.verdict is None and not at.flows
            assert all(0 < player.left <= player.whole for player in at.players)
        assert at.gas == 50_000 * number == sum(player.gas for player in at.players)
        executor, challenger = at.trees
        assert len(executor.rows) == len(challenger.rows) >= before
        before = len(executor.rows)
    assert turns == [] and at.game["lost_by"] == "executor"


@pytest.mark.parametrize("name", FAULTS)
def test_the_way_down_ends_at_the_lie(name: str) -> None:
    at, fault = page(name), FAULTS[name]
    executor, challenger = at.trees
    rejected = [[box for box in row.boxes if box.stance is Stance.REJECTS] for row in executor.rows]
    assert all(len(boxes) == 1 for boxes in rejected)
    labels = [boxes[0].label for boxes in rejected]
    assert labels[0] == "outputs root" and f"[{fault.element}]" in labels
    assert any(text.endswith(f"call {fault.number}") for text in (*labels, *(row.title for row in executor.rows)))
    assert at.verdict is not None and at.verdict.is_wrong and at.verdict.differing == 1
    claimed, computed = at.verdict.claimed.value["bits"], at.verdict.computed.value["bits"]
    assert int(claimed, 16) ^ int(computed, 16) == 1 << fault.bit
    assert rejected[-1][0].detail == claimed  # the last row has both values beside each other
    assert [box.detail for box in challenger.rows[-1].boxes if box.stance is Stance.REJECTS] == [computed]
    for tree in at.trees:  # on each level the challenger agrees with what stands before the first that it rejects
        for row in tree.rows:
            stances = [box.stance for box in row.boxes]
            assert stances == sorted(stances, key=[Stance.AGREES, Stance.REJECTS, Stance.SILENT].index)


def test_the_operation_of_a_sum_is_told_with_its_operands() -> None:
    verdict = page("long sum").verdict
    assert verdict is not None
    assert (verdict.where, verdict.operation) == ("call 0, element 7, reduction 0, step 33", "accumulator + value 16")
    assert [(name, value["value"]) for name, value in verdict.operands] == [
        ("accumulator after 33 steps", "-29.46875"),
        ("value 16", "-0.765625"),
    ]
    assert [len(field) for field in verdict.claimed.fields] == [1, 8, 23]
    assert (verdict.claimed.value["value"], verdict.computed.value["value"]) == ("-8.885084e-38", "-30.234375")
    assert [line.text for line in verdict.lines] == ["CMPLT 13, 14", "LOAD p1[9] if 15"] and verdict.hidden == 15


def test_a_trace_of_many_calls_is_descended_in_parts() -> None:
    assert Phase.TRACE in {position.phase for position in game("many calls").played.positions}
    titles = [row.title for row in page("many calls").trees[0].rows]
    assert titles[1:3] == ["executed calls, by parts", "results of executed calls"]
    titles = [row.title for row in page("many calls, the last public").trees[0].rows]
    assert titles[1] == "executed calls, by parts" and "results of executed calls" not in titles


def test_the_money_of_a_conviction_is_told_to_the_last_wei() -> None:
    one, told_ = game("softmax"), page("softmax").flows
    price, order = one.life.price or 0, one.life.order
    by = {(flow.source, flow.party): flow.amount for flow in told_}
    assert by["escrow", "client"] == 19 and by["bond", "challenger"] == 24
    assert by["collateral", "challenger"] == economics.reward(PARAMETERS, price)
    fees = order.verifiers * order.check_fee
    assert by["collateral", "burned"] + by["collateral", "challenger"] + fees == one.life.collateral
    assert {flow.to for flow in told_} == {CLIENT, CHALLENGER, None}


def test_a_slash_is_told_when_the_core_has_released_it() -> None:
    life = game("softmax").life.step(Noted(at(70), TASK, 4, 100, (CHALLENGER,))).step(Paid(at(90), TASK, 4, 50, 51))
    stake = {(flow.party, flow.amount) for flow in flows(life, 1, 95) if flow.source == "stake"}
    assert stake == {("challenger", 50), ("burned", 51)}
    assert all(flow.source != "stake" for flow in flows(life, 1, 89))


@pytest.mark.parametrize(("count", "chosen"), [(1, 0), (5, 4), (6, 0), (64, 63), (2048, 1000), (2048, None)])
def test_a_level_of_any_size_fits_its_row(count: int, chosen: int | None) -> None:
    level = Level("leaves", tuple(Cell(f"leaf {n}", bytes(32)) for n in range(count))).with_choice(chosen)
    (row,) = drawing("challenger", [level]).rows
    assert row.boxes[0].x >= 0 and row.ends[1] <= WIDTH + 1e-9
    assert all(a.x + a.width < b.x for a, b in pairwise(row.boxes))
    assert len(row.boxes) + sum(gap.many for gap in row.left_out) == count
    if chosen is not None:
        (box,) = (box for box in row.boxes if box.stance is Stance.REJECTS)
        assert box.label == f"leaf {chosen}" and row.way == box.x + box.width / 2
