"""A game as one object: who, what, every move with what it published, whose turn, how it ended, who was paid."""

import re
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode

from eigentensor.chain.transcript import transcript, typed
from eigentensor.dispute import FINAL, Phase, Reason
from eigentensor.numerics.dtypes import DType
from eigentensor.task import BondReturned, Closed, Noted, Paid, TaskEvent
from support.stories.aggregator import (
    CHALLENGER,
    CLIENT,
    EXECUTOR,
    PARAMETERS,
    REVEALED_TASK,
    TASK,
    at,
    challenged,
    convicted,
    ended,
    life_of,
    moved,
)

F32 = int(DType.FLOAT32)
KERNEL: dict[str, Any] = {"kernel": b"k" * 32, "number": 2, "dtype": F32, "elements": 6000, "reductions": F32}
ONE, TWO = 0x3F800000, 0x40000000
BITS = ONE.to_bytes(4, "little") * 63


def nodes(count: int) -> bytes:
    return encode(["bytes32[]"], [[bytes([n]) * 32 for n in range(count)]])


PUBLISHED = moved(34, Phase.CALL, data=nodes(4), elements=4, level=2, opened=2)
PICKED = moved(36, Phase.TREE, level=5, **KERNEL)
DESCENDED = moved(37, Phase.NODE, level=5, opened=5, data=nodes(24), **KERNEL)
DEEPER = moved(38, Phase.LEAF, index=9, **KERNEL)
SHOWN = moved(39, Phase.ELEMENT, index=9, data=encode(["bytes", "bytes"], [b"leaf", b"results"]), **KERNEL)
SUM = KERNEL | {"index": 9, "element": 2321, "reduction": 0}
CHOSEN = moved(40, Phase.BORDERS, low=0, high=4096, high_value=TWO, **SUM)
BORDERS = moved(41, Phase.SPAN, low=0, high=4096, data=encode(["bytes"], [BITS]), **SUM)
STEP = moved(42, Phase.VERDICT, low=63, high=64, low_value=ONE, high_value=TWO, **SUM)
WHOLE = [PUBLISHED, PICKED, DESCENDED, DEEPER, SHOWN, CHOSEN, BORDERS, STEP]


def shown(*happened: TaskEvent) -> dict[str, Any]:
    events = [*REVEALED_TASK, *challenged(32), *happened]
    life = life_of(*events)
    sent = [(event, (CHALLENGER, 50_000)) for event in events]
    return transcript(1, sent, state=life.state_of(life.games[1]), block=45, parameters=PARAMETERS)


def test_every_move_has_its_player_its_name_and_its_words() -> None:
    game = shown(*WHOLE, *ended(43, executor_lost=True), convicted(43))
    assert [(move["by"], move["move"], move["what"]) for move in game["moves"]] == [
        ("challenger", "challenge", "claims that the result is wrong"),
        ("executor", "publish", "published the tensor roots of all executed calls: 3"),
        ("challenger", "pick_call", "disputes executed call 2, node 0 at level 5 of its tensor"),
        ("executor", "descend", "published 24 hashes of the tree below"),
        ("challenger", "pick_node", "disputes executed call 2, leaf 9 of its tensor"),
        ("executor", "show_leaf", "showed leaf 9, and the results of the reductions of its elements"),
        ("challenger", "pick_reduction", "disputes executed call 2, element 2321, reduction 0, steps 0 to 4096"),
        ("executor", "claim_borders", "published the accumulators between spans of steps 0 to 4096"),
        ("challenger", "pick_span", "disputes executed call 2, element 2321, reduction 0, steps 63 to 64"),
        ("challenger", "verdict", "the referee computes another value than the executor claims: the executor loses"),
    ]
    assert [move["block"] for move in game["moves"]] == [32, 34, *range(36, 44)]
    assert all((move["gas"], move["account"]) == (50_000, CHALLENGER) for move in game["moves"])
    assert (game["state"], game["lost_by"], game["why"], game["turn"], game["until"]) == (
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
    game = shown(PUBLISHED, *ended(40, reason=reason, executor_lost=executor_lost))
    assert (game["moves"][-1]["by"], game["moves"][-1]["move"]) == (by, move)
    assert what in game["moves"][-1]["what"] and game["why"] == reason.name.lower()


def test_the_final_expression_has_no_steps() -> None:
    final = moved(42, Phase.VERDICT, high_value=TWO, **SUM | {"reduction": FINAL})
    game = shown(*WHOLE[:5], final)
    assert game["about"] == "executed call 2, element 2321, the final expression"
    assert [part["part"] for part in game["path"]] == ["calls", "call", "leaves", "leaf", "element", "expression"]
    assert game["moves"][-1]["data"] == {"stored": {"dtype": "float32", "value": "2.0", "bits": "0x40000000"}}


def test_a_game_that_outlives_its_task_is_idle_and_nobodys_turn() -> None:
    game = shown(PUBLISHED, convicted(44))
    assert (game["state"], game["turn"], game["until"]) == ("idle", None, None)


def test_the_way_down_has_every_range_that_was_disputed() -> None:
    def part(name: str, first: int, last: int, of: int | None, elements: list[int] | None = None) -> dict[str, Any]:
        return {"part": name, "first": first, "last": last, "of": of, "elements": elements}

    assert shown(*WHOLE)["path"] == [
        part("calls", 0, 2, 3),
        part("call", 2, 2, 3),
        part("leaves", 0, 23, 24, [0, 5999]),
        part("leaf", 9, 9, 24, [2304, 2559]),
        part("element", 2321, 2321, 6000),
        part("reduction", 0, 0, 1),
        part("steps", 0, 4095, 4096),
        part("steps", 63, 63, 4096),
    ]
    ways = [[(p["part"], p["last"]) for p in move["path"]] for move in shown(*WHOLE)["moves"]]
    assert ways[0] == [] and ways[2] == [("calls", 2), ("call", 2), ("leaves", 23)]


def test_every_move_says_what_it_published_and_what_is_left_on_the_clocks() -> None:
    moves = shown(*WHOLE)["moves"]
    data = {move["move"]: move["data"] for move in moves}
    assert data["publish"]["level"] == 0 and len(data["publish"]["nodes"]) == 4
    assert data["descend"]["level"] == 0 and data["descend"]["nodes"][1] == "0x" + "01" * 32
    assert data["show_leaf"] == {
        "dtype": "float32", "elements": [2304, 2559], "leaf": "0x" + b"leaf".hex(), "reductions": ["float32"],
        "results": "0x" + b"results".hex(),
    }  # fmt: skip
    one, two = typed(DType.FLOAT32, ONE), typed(DType.FLOAT32, TWO)
    assert data["claim_borders"]["borders"][:2] == [{"step": 64, **one}, {"step": 128, **one}]
    assert data["pick_span"] == {"before": {"step": 63, **one}, "after": {"step": 64, **two}}
    assert all(move["clocks"] == {"executor": 80, "challenger": 80} for move in moves)
    assert [move["phase"] for move in moves[:3]] == ["publish", "call", "tree"]
    assert moves[2]["position"]["number"] == "2" and moves[2]["position"]["phase"] == "tree"


def test_a_trace_that_does_not_fit_one_move_is_descended() -> None:
    great: dict[str, Any] = {"elements": 5001, "node": b"n" * 32}
    begun = moved(34, Phase.CALL, data=nodes(40), level=13, opened=7, **great)
    below = moved(36, Phase.TRACE, level=6, index=3, **great)
    opened = moved(37, Phase.CALL, data=nodes(64), level=6, opened=6, index=3, **great)
    game = shown(begun, below, opened)
    assert [move["what"] for move in game["moves"][1:]] == [
        "published 40 hashes of the tree over all executed calls: 5,000",
        "disputes executed calls 192 to 255",
        "published 64 hashes of the tree over executed calls 192 to 255",
    ]
    assert [move["move"] for move in game["moves"][1:]] == ["publish", "pick_node", "descend"]
    assert [(p["first"], p["last"], p["of"]) for p in game["path"]] == [(0, 4999, 5000), (192, 255, 5000)]
    assert game["about"] == "executed calls 192 to 255"
    alone = moved(36, Phase.TRACE, level=12, index=1, elements=4097, node=b"n" * 32)
    assert shown(begun, alone)["about"] == "the outputs root"  # which no challenger gains by


def test_a_conviction_pays_the_bond_the_reward_the_escrow_and_a_share_of_the_slash() -> None:
    noted = Noted(at(70), TASK, 4, 100, (CHALLENGER,))
    game = shown(PUBLISHED, *ended(43, executor_lost=True), convicted(43), noted, Paid(at(90), TASK, 4, 50, 50))
    assert (game["bond"], game["reward"]) == ("24", "21")
    assert [(p["block"], p["to"], p["amount"], p["what"]) for p in game["payouts"]] == [
        (43, CHALLENGER, "24", "bond"),
        (43, CHALLENGER, "21", "reward"),
        (43, CLIENT, "19", "escrow"),
        (90, CHALLENGER, "50", "share of the slash"),
    ]


def test_a_lost_bond_is_shared_when_the_task_is_final_and_an_idle_game_gives_it_back() -> None:
    lost = shown(PUBLISHED, *ended(43, executor_lost=False), Closed(at(95), TASK, 9, 10))
    assert [(p["to"], p["amount"], p["what"]) for p in lost["payouts"]] == [(EXECUTOR, "21", "share of the lost bond")]
    idle = shown(PUBLISHED, convicted(44), BondReturned(at(50), TASK, 1, CHALLENGER, 24))
    assert [(p["to"], p["amount"]) for p in idle["payouts"]] == [(CHALLENGER, "24")]
    assert idle["state"] == "ended" and idle["lost_by"] is None


@pytest.mark.parametrize(
    ("dtype", "pattern", "value", "bits"),
    [
        (DType.FLOAT32, 0x3DCCCCCD, "0.1", "0x3dcccccd"),
        (DType.FLOAT32, 0x7FC00000, "nan", "0x7fc00000"),
        (DType.FLOAT32, 0x80000000, "-0.0", "0x80000000"),
        (DType.FLOAT16, 0x7C00, "inf", "0x7c00"),
        (DType.BFLOAT16, 0x3F80, "1.0", "0x3f80"),
        (DType.INT64, (1 << 64) - 2, "-2", "0xfffffffffffffffe"),
        (DType.UINT8, 200, "200", "0xc8"),
        (DType.BOOL, 1, "true", "0x01"),
    ],
)
def test_a_value_is_shown_with_its_bits(dtype: DType, pattern: int, value: str, bits: str) -> None:
    assert typed(dtype, pattern) == {"dtype": dtype.name.lower(), "value": value, "bits": bits}


def test_the_documentation_names_every_field() -> None:
    text = (Path(__file__).parents[2] / "aggregator" / "README.md").read_text().partition("### A game")[2]
    table, _, data = text.partition("\n\n`data` of a move: ")
    rows = dict(re.findall(r"^\| (`.*?`) \| (.*) \|$", table, re.MULTILINE))
    game = shown(*WHOLE, *ended(43, executor_lost=True), convicted(43))
    assert re.findall(r"`(\w+)`", " ".join(rows)) == [*_in_order(game, rows)]
    for name, row in (("`moves`", game["moves"][0]), ("`path`", game["path"][0]), ("`payouts`", game["payouts"][0])):
        (words,) = (text for names, text in rows.items() if name in names)
        assert row.keys() - {"part"} <= set(re.findall(r"`(\w+)`", words))
    fields = {name for move in game["moves"] for name in move["data"]}
    assert fields <= set(re.findall(r"`(\w+)`", data.partition("## ")[0]))


def _in_order(game: dict[str, Any], rows: dict[str, str]) -> list[str]:
    """The fields, as the rows name them: none is missing, and none is too many."""
    named = re.findall(r"`(\w+)`", " ".join(rows))
    return sorted(game, key=named.index)


def test_many_results_are_shown_and_judged_one_by_one() -> None:
    asked = moved(36, Phase.OUTPUTS, elements=4, level=2, opened=2)
    leaves = encode(["bytes32[]", "bytes32[]"], [[b"a" * 32, b"b" * 32], [b"c" * 32]])
    answered = moved(37, Phase.RESULT, data=leaves, elements=4, level=2, opened=2)
    game = shown(PUBLISHED, asked, answered, *ended(38, reason=Reason.COLLECT, executor_lost=True))
    assert [(move["by"], move["move"], move["what"]) for move in game["moves"][2:]] == [
        ("challenger", "ask_outputs", "disputes which results the outputs root is made of"),
        ("executor", "show_outputs", "showed the 3 results that the outputs root is made of"),
        (
            "challenger",
            "judge_result",
            "the executor's call roots imply another outputs root than it revealed: the executor loses",
        ),
    ]
    assert game["moves"][3]["data"]["states"] == ["0x" + (b"c" * 32).hex()]
    assert game["about"] == "the whole result"
