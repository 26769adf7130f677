"""Games about own results and own answers: move at once, whatever else there is to do. Pure."""

from eigentensor.task import State
from eigentensor_operator.case import Step
from eigentensor_operator.game import Game
from eigentensor_operator.state import Operator


def next_step(operator: Operator, game: Game) -> Step | None:
    """What to do in a game. A side that used up its clock has lost by the clock alone: it moves no more."""
    case, me, head = operator.cases.get(game.task), operator.policy.operator, operator.head
    if case is None or case.now.state is not State.REVEALED or game.ended:
        return None
    if me not in (game.position.executor, game.position.challenger):
        return None
    if game.doing is not None or head < max(game.visible_by, game.not_before):
        return None
    in_time = head < game.last_block
    if game.awaits(me):  # a faulty device plays on: the clock alone would convict it as well
        return Step.PLAY if in_time and not operator.testing else None
    return None if in_time else Step.TIMEOUT
