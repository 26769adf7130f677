"""How long a game about a program can last: its moves at most, counted from the trees that are opened. Pure."""

from eigentensor.dispute.rules import SPANS
from eigentensor.dispute.trees import depth_of, descend_levels
from eigentensor.program.bounds import steps_of
from eigentensor.program.model import Body, Program


def most_moves(program: Program, repeat: int = 1) -> int:
    """The most moves of a game about the result of a valid program whose players open and pick as `strategy` does; the
    challenge and the verdict are two of them."""
    trace = _rounds((len(program.calls) * repeat).bit_length())
    bodies = {program.bodies[call.body] for call in program.calls}
    return 1 + 2 * trace + max((_below(body) for body in bodies), default=0)


def _below(body: Body) -> int:
    """After a call is picked: its tensor is opened, a leaf shown, a reduction picked and cut to a step; the verdict."""
    dtype, elements = body.parameters[0]
    spans = max((_cuts(steps) for steps in steps_of(body)), default=0)
    return 2 * _rounds(depth_of(dtype, elements)) + 2 + 2 * spans + 1


def _rounds(depth: int) -> int:
    """In how many moves a tree is opened from its root to its leaves."""
    rounds = 0
    while depth > 0:
        depth, rounds = depth - descend_levels(depth), rounds + 1
    return rounds


def _cuts(steps: int) -> int:
    """How often steps are cut into spans until one is left."""
    cuts = 0
    while steps > 1:
        steps, cuts = -(-steps // SPANS), cuts + 1
    return cuts
