"""What a body is called: as it is, and whatever its extents are."""

import hashlib

from eigentensor.program.model import Body
from eigentensor.program.ops import REDUCTIONS, Op


def body_name(body: Body) -> str:
    """The name of a body in cache and database, which lasts from process to process: sha256 in hex."""
    return hashlib.sha256(repr(body).encode()).hexdigest()


def structure(body: Body) -> str:
    """The same for two bodies that compute the same from tensors of other extents: all constants count as equal.

    A value is named by how it is made, not by its place: where two extents are equal, an instruction serves for both.
    """
    made: list[bytes] = []
    for i in body.instructions:
        own: tuple[int, ...] = ()
        if i.op in (Op.RANGE, Op.VAR, Op.LOAD):
            own = (i.a,)
        elif i.op in REDUCTIONS:
            own = (i.c,)
        of = [made[v] for v in i.values]
        if i.op in REDUCTIONS:
            of += [made[r.extent] for r in body.reduce_ranges if r.reduction == i.c]
        made.append(hashlib.blake2b(repr((i.op, i.dtype, own)).encode() + b"".join(of), digest_size=16).digest())
    dtypes = tuple(p.dtype for p in body.parameters)
    return hashlib.sha256(made[-1] + repr((len(body.output_ranges), dtypes)).encode()).hexdigest()
