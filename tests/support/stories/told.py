"""A game that was played in Python as the chain would tell it: the events of its task, up to the conviction."""

from dataclasses import dataclass, replace

from eigentensor.abi import encode, selector_of, type_of
from eigentensor.chain.contracts import Contract, abi
from eigentensor.chain.judging import judgement
from eigentensor.chain.transcript import Happened
from eigentensor.dispute import Collect, JudgeResult, Position
from eigentensor.dispute.judged import Judged
from eigentensor.dispute.moves import ExecutorMove
from eigentensor.task import Challenged, Ended, GameEnded, Life, Moved, Opened, TaskEvent, fold
from eigentensor.tracing import Flat
from support.generated.programs import Example
from support.stories.aggregator import (
    CHALLENGER,
    EXECUTOR,
    PARAMETERS,
    REVEALED_TASK,
    TASK,
    at,
    convicted,
    revealed,
)
from support.stories.games import Played, account_of, informed, play
from support.stories.liars import Fault, Liar

GAME = Contract("DisputeGame", "0x" + "00" * 20)


@dataclass(frozen=True)
class Told:
    """What happened, the task that comes of it, and the step that was judged."""

    played: Played
    happened: Happened
    life: Life
    judged: Judged | None


def told(example: Example, fault: Fault, *, is_public: bool = False) -> Told:
    """The game about a fault, from the challenge in block 32 on, a move a block; the wrong tensor may be public."""
    true = account_of(example)
    liar = Liar(true, example.tensors, fault)
    tensor = Flat(
        true.program.parameter(fault.number + len(true.program.buffers)).dtype, liar.account.kept[fault.number]
    )
    challenger = informed({fault.number: tensor} if is_public else {})
    played = play(true, liar.account.outputs, liar.next_move, challenger)
    assert played.outcome is not None

    def of(position: Position, block: int) -> Position:
        return replace(position, task=TASK, executor=EXECUTOR, challenger=CHALLENGER, since=block)

    events: list[TaskEvent] = [*REVEALED_TASK[:-1], revealed(root=liar.account.outputs)]
    events += [
        Opened(at(32), TASK, 1, CHALLENGER, of(played.positions[0], 32)),
        Challenged(at(32), TASK, 1, CHALLENGER, 24),
    ]
    for block, (position, move) in enumerate(zip(played.positions[1:], played.moves, strict=False), 33):
        data = move.published() if isinstance(move, ExecutorMove) else b""
        events.append(Moved(at(block), TASK, 1, of(position, block), data))
    block = 32 + len(played.moves)
    lost, reason = played.outcome.executor_lost, played.outcome.reason
    events += [Ended(at(block), TASK, 1, lost, reason), GameEnded(at(block), TASK, 1, CHALLENGER, lost)]
    if lost:
        events.append(convicted(block))
    life = fold(events, PARAMETERS)
    assert life is not None
    return Told(played, [(event, (CHALLENGER, 50_000)) for event in events], life, _judged(played))


def _judged(played: Played) -> Judged | None:
    move = played.moves[-1]
    if isinstance(move, Collect | JudgeResult):
        return None
    (function,) = (entry for entry in abi("DisputeGame") if entry.get("name") == move.function)
    values = [0, played.positions[-1].pack(), *move.arguments()]
    return judgement(GAME, selector_of(function) + encode([type_of(one) for one in function["inputs"]], values))
