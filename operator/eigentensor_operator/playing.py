"""Games about own results and own answers: move at once, whatever else there is to do. Pure."""

from eigentensor.dispute import Position, deadline_of
from eigentensor_operator.case import Play, Step
from eigentensor_operator.state import Operator


def next_step(operator: Operator, play: Play, position: Position) -> Step | None:
    """What to do in a game. A side that used up its clock has lost by the clock alone: it moves no more."""
    head = operator.head
    if play.doing is not None or head < max(play.visible_by, play.not_before):
        return None
    in_time = head < deadline_of(position)
    if operator.is_to_move(position):  # a faulty device plays on: the clock alone would convict it as well
        return Step.PLAY if in_time and not operator.testing else None
    return None if in_time else Step.TIMEOUT
