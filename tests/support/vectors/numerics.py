"""Writes numerics.json: answers of the exact model for each operation and type, one cell a line, patterns in hex."""

import json
from itertools import product
from pathlib import Path
from random import Random

from eigentensor.numerics import exact
from eigentensor.numerics.dtypes import DType
from eigentensor.program.ops import ARITY, Op
from eigentensor.program.signatures import mismatch
from support.generated.edges import CELLS, edges

COUNT = 12  #: vectors of a cell, fewer where there are no more
#: (1+2⁻¹⁸)·(1-2⁻¹⁸)·2⁻²⁴ + 1+2⁻²³: just below a tie, which a sum in float64 does not see
TIE = (0x3F800020, 0x337FFFC0, 0x3F800001)


def cells() -> list[dict[str, object]]:
    """One entry for each (op, dtype) or (CAST or BITCAST, source, target)."""
    random = Random(1)
    made: list[dict[str, object]] = []
    for op, dtype in CELLS:
        pool = list(product(edges(dtype), repeat=ARITY[op]))
        cases = random.sample(pool, min(COUNT, len(pool))) + ([TIE] if op is Op.MULACC else [])
        results = [exact.evaluate(op.name, dtype, *case) for case in cases]
        made.append(_cell(op, dtype, dtype, [list(column) for column in zip(*cases, strict=True)], results))
    for op, answer in ((Op.CAST, exact.cast), (Op.BITCAST, exact.bitcast)):
        for source, target in product(DType, DType):
            if not mismatch(op, target, [source]):
                chosen = sorted(random.sample(edges(source), min(COUNT, len(edges(source)))))
                made.append(_cell(op, source, target, [chosen], [answer(source, target, p) for p in chosen]))
    return made


def _cell(op: Op, source: DType, dtype: DType, operands: list[list[int]], results: list[int]) -> dict[str, object]:
    """`dtype` is that of the instruction's operands; CAST and BITCAST lead from `source` to it."""
    return {
        "name": f"{op.name} {source.name} {dtype.name}" if source is not dtype else f"{op.name} {dtype.name}",
        "op": int(op),
        "source": int(source),
        "dtype": int(dtype),
        "operands": [[hex(pattern) for pattern in column] for column in operands],
        "results": [hex(pattern) for pattern in results],
    }


def text() -> str:
    return '{"cells": [\n' + ",\n".join(json.dumps(cell) for cell in cells()) + "\n]}\n"


if __name__ == "__main__":
    (Path(__file__).parents[2] / "vectors" / "numerics.json").write_text(text())
