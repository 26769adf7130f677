"""What would make operators take a task, from what they say about it."""

from dataclasses import replace
from typing import Any

import pytest

from eigentensor.economics import lifetime
from eigentensor.economics.situation import LOCAL
from eigentensor_client.remedies import Remedy, advice_of, best, opinions_of, remedy_of
from eigentensor_operator.policy import Code
from support.stories.orders import ORDER

#: What happens to tasks that were accepted or drawn; nobody says it of an open one.
LATER = {Code.LATE, Code.SEAL, Code.SEED, Code.RANK, Code.CONVICTED}


def amount(wei: int) -> str:
    return f"{wei} TETH"


def helps(reason: str, needed: str | None = None, offered: str | None = None) -> str | None:
    opinion: dict[str, Any] = {"reason": reason, "needed": needed, "offered": offered}
    remedy = remedy_of(opinion, replace(ORDER, max_price=100), LOCAL, amount)
    return None if remedy is None else remedy.text


@pytest.mark.parametrize("code", sorted(set(Code) - LATER))
def test_every_reason_of_an_operator_has_a_remedy(code: Code) -> None:
    text = helps(code.value, "70 blocks", "20 blocks")
    assert text and text != helps("something that no operator says")


def test_who_accepted_needs_no_help_and_who_is_silent_needs_time() -> None:
    assert helps("accepted") is None
    assert helps("silent") == "patience: nothing said yet"


@pytest.mark.parametrize(
    ("reason", "needed", "offered", "text"),
    [
        ("price", "300 wei", "100 wei", "would accept at a price of 300 TETH: a higher --max-price"),
        ("price", "90 wei", "50 wei", "patience: would accept at a price of 90 TETH, to which it still rises"),
        ("price", "there is none", "100 wei", "less at stake, or a shorter --exec: no price bears what is locked"),
        ("exec", "12 blocks", "8 blocks", "--exec 12 or more"),
        ("exec", "61 blocks", "8 blocks", "a smaller task: 61 blocks are needed, this market has 60 at most"),
        ("busy", "12 blocks", "8 blocks", "--exec 12 or more, or patience"),
        ("busy", "a free place", "4 of 4 taken", "patience: busy with other tasks"),
        ("memory", "9 bytes", "8 bytes", "a smaller task: at most 8 bytes"),
        ("work", "9 operations", "8 operations", "a smaller task: at most 8 operations"),
        ("lifetime", "stake for 9 blocks", f"{lifetime(LOCAL, 7)} blocks", "at most --exec 7"),
        ("lifetime", "stake for 9 blocks", "8 blocks", "another market: stake may leave this one too early"),
        ("semantics", "2", "1", "a program of semantics 1"),
    ],
)
def test_what_helps_names_how_much(reason: str, needed: str, offered: str, text: str) -> None:
    assert helps(reason, needed, offered) == text


@pytest.mark.parametrize("needed", ["", "much", "-3 wei", "3 WEI", "9" * 300])
def test_an_operator_that_says_nonsense_is_borne(needed: str) -> None:
    assert helps("price", needed, "x") and helps("exec", needed) and helps("lifetime", needed, needed)


def test_the_least_of_each_kind_is_what_to_try_and_what_helps_most_comes_first_and_patience_last() -> None:
    cheap, dear = Remedy("price", "cheap", 5), Remedy("price", "dear", 9)
    longer, patience = Remedy("exec", "longer", 7), Remedy("busy", "patience: busy")
    remedies = {"a": dear, "b": cheap, "c": longer, "d": patience, "e": longer, "f": patience, "g": patience}
    assert best(remedies) == [(longer, ["c", "e"]), (cheap, ["b"]), (patience, ["d", "f", "g"])]
    assert best({}) == []


def opinion(operator: str, reason: str, needed: str | None = None) -> dict[str, Any]:
    return {"operator": operator, "reason": reason, "needed": needed, "offered": None, "block": None}


OPINIONS = [
    opinion("0xa", "bindings"), opinion("0xb", "silent"), opinion("0xc", "bindings"), opinion("0xd", "price", "90 wei"),
    opinion("0xe", "busy"), opinion("0xf", "accepted"),
]  # fmt: skip


def test_as_long_as_a_task_is_open_silence_says_nothing() -> None:
    advice = advice_of(OPINIONS, replace(ORDER, max_price=100), LOCAL, amount, over=False)
    assert advice.reasons == "bindings (2 operators), price (0xd), busy (0xe)"
    assert advice.helps == (
        "tensors and variables that fit the program (2 operators)",
        "patience: busy with other tasks (0xe)",
        "patience: would accept at a price of 90 TETH, to which it still rises (0xd)",
    )
    assert advice.words == f"{advice.reasons}: {'; or '.join(advice.helps)}"
    assert advice_of([opinion("0xb", "silent")], ORDER, LOCAL, amount, over=False).words == ""


def test_afterwards_advice_is_about_another_order() -> None:
    advice = advice_of(OPINIONS, replace(ORDER, max_price=100), LOCAL, amount, over=True)
    assert advice.reasons == "bindings (2 operators), silent (0xb), price (0xd), busy (0xe)"
    assert advice.helps == (
        "tensors and variables that fit the program (2 operators)",
        "more time at a price of 90 TETH: a higher --min-price, or a longer --accept-within (0xd)",
        "later: busy with other tasks (0xe)",
        "another operator: it said nothing (0xb)",
    )


def test_what_a_gateway_says_that_operators_say_is_read_as_far_as_it_makes_sense() -> None:
    nonsense = [None, {}, {"operator": 1, "reason": "price"}, opinion("0xb", "price") | {"needed": 3}]
    assert opinions_of({"operators": [*nonsense, OPINIONS[0]]}) == [OPINIONS[0]]
    assert opinions_of({}) == opinions_of({"operators": 3}) == []
