"""How a program multiplies weights of eight bits: as integers, which they are, or as floats, which they stand for."""

from eigentensor.program.model import Body, Program, Role
from eigentensor.program.ops import DType, Op
from eigentensor.program.structure import below

_NARROW = (DType.INT8, DType.UINT8)
FEW = 10  #: a way in which less than one of so many bytes is multiplied is not named


def products(program: Program) -> str | None:
    """`integers`, `floats`, or `integers and floats`, if it multiplies such weights; None if it has none of them."""
    narrow = {n: b.elements for n, b in enumerate(program.buffers) if b.role is Role.WEIGHT and b.dtype in _NARROW}
    read = {"integers": 0, "floats": 0}
    for call in program.calls:
        body, weights = program.bodies[call.body], {n: a for n, a in enumerate(call.arguments, 1) if a in narrow}
        if weights and body.reduce_ranges:  # not rows that are looked up
            way = "integers" if _multiplies_integers(body, set(weights)) else "floats"
            read[way] += sum(narrow[argument] for argument in weights.values())
    return " and ".join(way for way, size in read.items() if size * FEW > sum(read.values())) or None


def _multiplies_integers(body: Body, narrow: set[int]) -> bool:
    """Whether a body multiplies what it reads of these parameters with integers of eight bits."""
    loads = {n for n, i in enumerate(body.instructions) if i.op is Op.LOAD and i.a in narrow}
    others = {n for n, i in enumerate(body.instructions) if i.op is Op.LOAD and i.dtype in _NARROW} - loads

    def meets(number: int) -> bool:
        a, b = (set(below(body, value)) for value in body.instructions[number].values[:2])
        return any(one & loads and other & others and not other & loads for one, other in ((a, b), (b, a)))

    multiplied = (n for n, i in enumerate(body.instructions) if i.op in (Op.MUL, Op.MULACC) and i.dtype is DType.INT32)
    return any(map(meets, multiplied))
