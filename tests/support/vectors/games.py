"""Writes games.json: disputes over real programs from the first move after `publish`, each move as calldata.

Game and position are a chain's: whoever replays a game there writes its own over them, at bytes 4 to 356.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

from eigentensor.abi import encode, selector_of, type_of
from eigentensor.chain.contracts import abi
from eigentensor.dispute import Move, Outcome, Position, Publish, Reason, Side
from eigentensor.errors import WitnessError
from eigentensor.tracing import Execution
from support.programs.hostile import hostile
from support.stories.games import Played, Strategy, account_of, claimed, honest, play, reckless
from support.stories.liars import Fault, Liar
from support.vectors.dispute import captured


def text() -> str:
    return '{"games": [\n' + ",\n".join(json.dumps(game, separators=(",", ":")) for game in games()) + "\n]}\n"


def games() -> Iterator[dict[str, object]]:
    """A lie told to an honest challenger, and to one that is paid to look elsewhere; then honest executors."""
    example = captured("long sum")
    true = account_of(example)
    liar = Liar(true, example.tensors, Fault(0, 7, 30, 0, 33))
    lie = liar.account.outputs
    yield _game("lie", true, lie, play(true, lie, liar.next_move, honest(Side.CHALLENGER)))
    yield _game("bought", true, lie, _acquitted("bought", true, lie, liar.next_move))
    for name, other in hostile():
        account = account_of(other)
        yield _game(f"hostile: {name}", account, account.outputs, _acquitted(name, account, account.outputs))


def _acquitted(name: str, true: Execution, outputs: bytes, executor: Strategy | None = None) -> Played:
    """A game in which the challenger lets a step be judged that is as the executor says."""
    strategy = executor or honest(Side.EXECUTOR)
    for seed in count():
        with suppress(WitnessError):  # of a step behind the lie: the challenger's own account is not what is claimed
            played = play(true, outputs, strategy, reckless(Random(f"{name} {seed}")))
            if played.outcome == Outcome(False, Reason.VERDICT):
                return played
    raise AssertionError("numbers do not end")


def _game(name: str, true: Execution, outputs: bytes, played: Played) -> dict[str, object]:
    publish, *moves = played.moves
    assert isinstance(publish, Publish) and played.outcome is not None
    claim = claimed(true, outputs)
    roots = {key: _hex(getattr(claim, key)) for key in ("program", "inputs", "weights", "states", "variables")}
    return {
        "name": name,
        **roots,
        "repeat": claim.repeat,
        "outputs": _hex(outputs),
        "header": _hex(publish.header),
        "records": _hex(publish.records_root),
        "children": [_hex(node) for node in publish.children],
        "path": [_hex(node) for node in publish.path],
        "moves": [_hex(_calldata(*at)) for at in zip(played.positions[1:], moves, strict=True)],
        "executorLost": played.outcome.executor_lost,
    }


def _calldata(position: Position, move: Move) -> bytes:
    (function,) = (entry for entry in abi("DisputeGame") if entry.get("name") == move.function)
    values = [0, position.pack(), *move.arguments()]
    return selector_of(function) + encode([type_of(one) for one in function["inputs"]], values)


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


if __name__ == "__main__":
    (Path(__file__).parents[2] / "vectors" / "games.json").write_text(text())
