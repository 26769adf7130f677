"""Programs that no game can be played about: they are not posted, and not accepted."""

from eigentensor.dispute.rules import MAX_CALLS
from eigentensor.merkle import LEAF
from eigentensor.program.codec import HEADER, split, to_bytes
from eigentensor.program.cost import body_cost
from eigentensor.program.limits import RESULTS, WITNESS
from eigentensor.program.model import Program

#: Evaluations of instructions that players make within their clocks by the reference: for an element, whose steps are
#: taken one by one, and for all elements of a leaf.
ELEMENT, WHOLE_LEAF = 1 << 23, 1 << 30


def refuse(program: Program, repeat: int) -> str | None:
    """Why a valid program, repeated so often, cannot be disputed; None if it can.

    Whoever posts or accepts it nevertheless raises NotDisputable: a client could not have a wrong result convicted, an
    operator could not defend a right one.
    """
    executed = len(program.calls) * repeat
    if executed > MAX_CALLS:
        return f"it executes {executed:,} calls, at most {MAX_CALLS:,} can be disputed"
    if len(program.results) == RESULTS:
        return f"it has {RESULTS:,} results, which leaves none to observe a call by"
    if (size := _collect_bytes(program, executed)) > WITNESS:
        return f"its results need a proof of {size:,} bytes, at most {WITNESS:,} are allowed"
    for number, body in enumerate(program.bodies):
        dtype, elements = body.parameters[0]
        each = body_cost(body).evaluations // max(1, elements) if body.reductions else 0
        for what, count, most in (
            ("an element", 1, ELEMENT),
            ("a leaf", min(elements, LEAF // dtype.size), WHOLE_LEAF),
        ):
            if count * each > most:
                return f"{what} of body {number} takes {count * each:,} evaluations, at most {most:,} can be shown"
    return None


def _collect_bytes(program: Program, executed: int) -> int:
    """Of the proof of the outputs root."""
    records = split(to_bytes(program))[1]
    results = sum(2 + len(record) for record in records[len(records) - len(program.results) :])
    levels = (len(records) - 1).bit_length(), executed.bit_length()
    return HEADER.size + results + 32 * levels[0] + len(program.results) * 32 * (1 + levels[1])
