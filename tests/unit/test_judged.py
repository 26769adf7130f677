"""What the message that ended a game says again: the step, what it reads, what is claimed and what is computed."""

import json
from pathlib import Path
from random import Random

import pytest

from eigentensor.chain.contracts import Contract
from eigentensor.chain.judging import judgement
from eigentensor.dispute.encoding import witness_bytes
from eigentensor.dispute.judged import JUDGING, read_witness
from eigentensor.errors import DisputeError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.ops import Op
from eigentensor.tracing import Element, evaluate_step, witness_of
from support.generated.programs import generate
from support.programs.worked_examples import session
from support.stories.games import account_of
from support.vectors.dispute import points

GAME = Contract("DisputeGame", "0x" + "00" * 20)
GAMES = {
    game["name"]: game for game in json.loads((Path(__file__).parents[1] / "vectors/games.json").read_text())["games"]
}


def last(name: str) -> bytes:
    """The calldata of a game's last move."""
    return bytes.fromhex(GAMES[name]["moves"][-1][2:])


def test_every_recorded_game_is_judged_again_as_it_was() -> None:
    functions = set()
    for name, game in GAMES.items():
        step = judgement(GAME, last(name))
        assert step is not None
        assert (step.computed != step.position.high_value) is game["executorLost"]
        assert step.values.keys() <= set(range(len(step.body.instructions)))
        functions |= {f for f in JUDGING if last(name).startswith(GAME.function(f).selector)}
    assert functions == set(JUDGING)


def test_the_lie_is_a_flipped_bit_of_a_sum_and_its_operands_are_told() -> None:
    step = judgement(GAME, last("lie"))
    assert step is not None and step.dtype is DType.FLOAT32
    assert (step.position.high_value, step.computed) == (0x81F1E000, 0xC1F1E000)  # bit 30
    assert (step.position.number, step.position.element, step.position.high - step.position.low) == (0, 7, 1)
    loads = [n for n, i in enumerate(step.body.instructions) if i.op is Op.LOAD and n in step.values]
    assert loads and all(step.values[n] for n in loads)


def test_a_move_that_has_nothing_judged_is_no_judgement() -> None:
    assert judgement(GAME, bytes.fromhex(GAMES["lie"]["moves"][0][2:])) is None
    assert judgement(GAME, b"") is None


def test_a_witness_is_read_as_it_was_written() -> None:
    random = Random(3)
    for example in (session(), *map(generate, range(12))):
        account = account_of(example)
        for number in account.kept:
            for element in range(min(2, account.written(number).array.size)):
                for point in points(Element(account, number, element), random):
                    witness = witness_of(account, Element(account, number, element), point)
                    again = read_witness(witness_bytes(witness), number, example.repeat, point)
                    assert witness_bytes(again) == witness_bytes(witness)
                    assert again == witness
                    seen: dict[int, int] = {}
                    assert evaluate_step(again, seen=seen) == evaluate_step(witness)
                    assert seen


def test_bytes_that_are_no_witness_are_refused() -> None:
    whole = last("lie")
    function = GAME.function("judgeSpan")
    game, position, *rest, witness = function.arguments(whole)
    for broken in (witness[:-1], witness + b"\0", witness[:40], b""):
        with pytest.raises(DisputeError):
            judgement(GAME, function.data([game, position, *rest, broken]))
