"""Programs that no game can be played about: they are not posted, and not accepted."""

from collections import Counter

from eigentensor.economics import GAMES
from eigentensor.merkle import LEAF
from eigentensor.program.codec import HEADER, split, to_bytes
from eigentensor.program.cost import body_cost, depth, game_work, record_bytes
from eigentensor.program.model import Body, Parameter, Program, Role
from eigentensor.program.ops import Op
from eigentensor.program.structure import cone, reductions

#: Evaluations of instructions that players make within their clocks by the reference: for an element, whose steps are
#: taken one by one, and for all elements of a leaf.
ELEMENT, WHOLE_LEAF = 1 << 23, 1 << 30
#: Evaluations of ordinary instructions in a second that a player of games is expected to make, at least.
RATE = 1 << 27
#: Bytes of the largest witness: what fits a transaction beside the rest.
MOST = 120_000


def refuse(program: Program, repeat: int, clock: float | None = None) -> str | None:
    """Why a valid program, repeated so often, cannot be disputed; None if it can.

    `clock` is what a player has for all its moves in one game, in seconds, if that is known: an executor must be able
    to play `economics.GAMES` at once.

    Whoever posts or accepts it nevertheless raises NotDisputable: a client could not have a wrong result convicted, an
    operator could not defend a right one.
    """
    executed = len(program.calls) * repeat
    if (size := largest_witness(program, executed)) > MOST:
        return f"a step needs a witness of {size:,} bytes, at most {MOST:,} fit a transaction"
    for number, body in enumerate(program.bodies):
        dtype, elements = body.parameters[0]
        each = body_cost(body).evaluations // max(1, elements) if body.reductions else 0
        for what, count, most in (
            ("an element", 1, ELEMENT),
            ("a leaf", min(elements, LEAF // dtype.size), WHOLE_LEAF),
        ):
            if count * each > most:
                return f"{what} of body {number} takes {count * each:,} evaluations, at most {most:,} can be shown"
    if clock is not None and (seconds := GAMES * game_work(program) / RATE) > clock:
        return f"{GAMES} games at once take an executor {seconds:,.0f} s, its clock in each runs for {clock:,.0f} s"
    return None


def largest_witness(program: Program, executed: int) -> int:
    """Of all steps of all calls; what a tensor needs is counted as if its iteration were any."""
    records = [len(record) for record in split(to_bytes(program))[1]]
    levels, trace = (len(records) - 1).bit_length(), executed.bit_length()
    buffers = len(program.variables)
    calls = buffers + len(program.buffers) + len(program.bodies)
    results = max(records[calls + len(program.calls) :])

    def shown(buffer: int) -> int:
        """Bytes that say where a tensor comes from."""
        if buffer >= len(program.buffers):
            return 1 + 32 * (1 + trace)
        record = 1 + 2 + records[buffers + buffer] + 32 * levels
        if program.buffers[buffer].role is Role.CONSTANT:
            return record
        bound = 8 + 32 * (1 + len(program.buffers).bit_length())
        return record + max(bound, 4 + results + 32 * (levels + 1 + trace))

    largest, loads = 0, [_loads(body) for body in program.bodies]
    for number, call in enumerate(program.calls):
        body = program.bodies[call.body]
        kernel = HEADER.size + 4 + records[calls + number] + record_bytes(body) + 4 * len(body.variables)
        for counts in loads[call.body]:
            opened = sum(
                shown(buffer) + (0 if _is_constant(program, buffer) else count * _opening(body.parameters[parameter]))
                for parameter, buffer in enumerate(call.arguments, 1)
                if (count := counts[parameter])
            )
            largest = max(largest, kernel + 1 + opened)
    return largest


def _loads(body: Body) -> list[Counter[int]]:
    """How often each parameter is loaded, by the final expression and by a step of each reduction."""
    roots = [(len(body.instructions) - 1,), *(body.instructions[number].values for number in reductions(body))]
    instructions = ([body.instructions[n] for n in cone(body, values)] for values in roots)
    return [Counter(i.a for i in expression if i.op is Op.LOAD) for expression in instructions]


def _opening(parameter: Parameter) -> int:
    return LEAF + 32 * depth(parameter.elements, parameter.dtype.size)


def _is_constant(program: Program, buffer: int) -> bool:
    return buffer < len(program.buffers) and program.buffers[buffer].role is Role.CONSTANT
