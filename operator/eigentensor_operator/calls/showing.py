"""What drawn verifiers are shown of a batch."""

from eigentensor import merkle
from eigentensor.channel import LineProof, open_line
from eigentensor.channel.shown import ShownCall
from eigentensor.errors import TaskNotFound
from eigentensor_operator.calls.interface import DrawnShare
from eigentensor_operator.calls.service import CallService


def show_share(service: CallService, drawn: DrawnShare) -> tuple[tuple[LineProof, ...], tuple[ShownCall, ...]]:
    """The lines of a share and its calls. Raises TaskNotFound for a batch that is not committed, or over."""
    lines = service.lines_of(drawn.pool, drawn.number)
    calls = service.calls_of(drawn.pool, drawn.number)
    if not lines or any(number >= len(calls) for number in drawn.calls):
        raise TaskNotFound("nothing is kept of this batch: it is not committed, or over")
    positions = [
        next(at for at, line in enumerate(lines) if line.index_of(number) is not None) for number in drawn.calls
    ]
    shown = sorted(set(positions))
    levels = {at: service.leaves_of(lines[at].channel)[: lines[at].first + lines[at].count] for at in shown}
    opened = []
    for number, at in zip(drawn.calls, positions, strict=True):
        call = calls[number]
        path = merkle.path(levels[at], call.receipt.index)
        result = merkle.result_of(call.receipt.outputs_root)
        opened.append(ShownCall(shown.index(at), call.receipt.index, call.order, call.variables, result, path))
    return tuple(open_line(lines, at) for at in shown), tuple(opened)
