"""Programs, their graphs and the economics as pages tell them."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from eigentensor.dispute import Side
from eigentensor.dispute.length import most_moves
from eigentensor.economics import curves
from eigentensor.economics.expected import expected, worst_cheat
from eigentensor.economics.pricing import Ask, Pricing, Speed
from eigentensor.economics.situation import LOCAL
from eigentensor.economics.tuning import Lock, rates, tune
from eigentensor.economics.words import read_situation
from eigentensor.program.cost import costs, needs_of
from eigentensor.program.text import listing
from eigentensor_aggregator.pages.economics import SHOWN, prospect, rows_of, sliders_of
from eigentensor_aggregator.pages.graphs import HEIGHT, WIDTH, WINDOW, graph
from eigentensor_aggregator.pages.program_facts import call_facts, facts, times
from support.generated.programs import Example, generate
from support.programs import long_program
from support.programs.worked_examples import layer, session
from support.stories.games import account_of, honest, play
from support.stories.liars import Liar, some_fault

WORDS: dict[str, Any] = {
    "price": "2", "cost": "0.6", "gain": "5", "value_at_risk": "5", "check": "20%", "share": "40%", "diligence": "90%",
    "watch": "1%", "gas_price": "1",
}  # fmt: skip


def test_a_graph_goes_from_who_writes_down_to_who_reads_and_no_box_covers_another() -> None:
    program = long_program.example(layers=100, width=2).program
    for first in (0, WINDOW):
        drawn = graph(program, first)
        numbers = [node.number for node in drawn.nodes]
        assert sorted(numbers) == list(range(first, min(first + WINDOW, len(program.calls))))
        places = [(node.x, node.y) for node in drawn.nodes]
        assert len(set(places)) == len(places) and all(edge.y < edge.to_y for edge in drawn.edges)
        for n, (x, y) in enumerate(places):
            assert 0 <= x <= drawn.width - WIDTH and 0 <= y <= drawn.height - HEIGHT
            assert all(abs(x - a) >= WIDTH or abs(y - b) >= HEIGHT for a, b in places[:n])
    assert next(node for node in drawn.nodes if node.number == WINDOW).outside == 1  # the call before it
    assert graph(layer().program).nodes[-1].results == tuple(layer().program.outputs)


@pytest.mark.parametrize("example", [session(), *map(generate, range(6))], ids=range(7))
def test_every_call_says_what_it_costs_and_all_of_them_are_the_program(example: Example) -> None:
    program = example.program
    whole = facts(program)
    assert whole.cost == costs(program)
    calls = [call_facts(program, number, whole.cost.evaluations) for number in range(len(program.calls))]
    assert sum(call.evaluations for call in calls) == whole.cost.evaluations
    assert max(call.gas for call in calls) == whole.cost.largest_gas
    text = listing(program)
    assert all(line in text for call in calls for line in call.lines)
    assert {name for call in calls for name in call.results} <= {tensor.name for tensor in whole.tensors}


def test_a_run_takes_as_long_as_operators_say_that_their_machines_take() -> None:
    program, needs = layer().program, needs_of(layer().program, 1)
    slow, fast = (Ask(Pricing(), Speed(speed, 1e9, 0.1), 1.0, 2) for speed in (1e3, 1e6))
    found = times(program, {"slow": slow, "fast": fast})
    assert [time.operator for time in found] == ["fast", "slow"]
    assert found[0].seconds == fast.speed.seconds(needs.operations, needs.memory)


def test_no_game_is_longer_than_it_can_be() -> None:
    random, longest = Random(1), []
    for example in (layer(), session(), *map(generate, range(8))):
        true = account_of(example)
        most = most_moves(example.program, example.repeat)
        for _ in range(6):
            try:
                liar = Liar(true, example.tensors, some_fault(true, random))
            except IndexError:
                continue
            if liar.changed:
                played = play(true, liar.account.outputs, liar.next_move, honest(Side.CHALLENGER))
                longest.append(most - len(played.moves) - 1)
    assert min(longest) == 1  # the last pick and its verdict are made in one


def test_the_page_of_economics_has_the_numbers_of_the_command() -> None:
    x = read_situation(LOCAL, **WORDS)
    shown = prospect(x, 2.0)
    assert {o.agent.name: o.brings for o in shown.outlooks} == {
        o.agent.name: expected(x, o.agent) for o in shown.outlooks
    }
    assert shown.worst == worst_cheat(x) and shown.is_safe is (worst_cheat(x)[1] < 0)
    terms = tune(x, 2.0, exec_=LOCAL.max_exec, lock=Lock(), rates=rates(LOCAL))
    assert shown.terms == tuple(terms[:SHOWN]) and all(one.loses >= 2.0 - 1e-6 for one in shown.terms)
    assert shown.pictures[0] == curves.payoffs_by_rate(x, len(shown.pictures[0].at))
    rows = rows_of(shown.pictures[0])
    honest_ = [row[1] for row in rows]
    assert len({round(value or 0, 3) for value in honest_}) == 1  # honesty earns the same whatever is checked
    assert worst_cheat(replace(x, share=0.99))[1] > 0


def test_sliders_hold_what_a_market_takes() -> None:
    least = {slider.name: slider.least for slider in sliders_of(LOCAL)}
    read_situation(LOCAL, **WORDS | {"check": f"{least['check']}%", "price": str(least["price"])})
