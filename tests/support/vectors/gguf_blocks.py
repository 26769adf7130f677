"""tests/vectors/gguf_blocks.json: the sha256 of what the library gguf makes of random blocks of each kind.

python -m support.vectors.gguf_blocks    # in tests/, where gguf is
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from support.vectors.gguf_models import digest

PATH = Path(__file__).parents[2] / "vectors" / "gguf_blocks.json"
#: Bytes of a block, elements of it, and where in it there are halves.
KINDS = {
    "Q8_0": (34, 32, (0,)), "Q4_0": (18, 32, (0,)), "Q4_K": (144, 256, (0, 2)), "Q5_K": (176, 256, (0, 2)),
    "Q6_K": (210, 256, (208,)),
}  # fmt: skip
ROWS = 5


def blocks(kind: str, rows: int, columns: int) -> npt.NDArray[np.uint8]:
    """Random blocks, (rows, bytes); halves are small numbers, and a few subnormal ones."""
    size, elements, halves = KINDS[kind]
    random = np.random.default_rng(sum(kind.encode()))
    made = random.integers(0, 256, (rows * columns // elements, size), np.uint8)
    for place in halves:
        scales = (random.standard_normal(len(made)) * 0.02).astype(np.float16)
        scales[::7] /= 4096
        made[:, place : place + 2] = scales.view(np.uint8).reshape(-1, 2)
    return made.reshape(rows, -1)


def expected() -> dict[str, str]:
    """By gguf."""
    import gguf

    kinds: Any = gguf.GGMLQuantizationType
    return {kind: digest(gguf.quants.dequantize(blocks(kind, ROWS, 512), kinds[kind])) for kind in KINDS}


if __name__ == "__main__":
    PATH.write_text(json.dumps(expected(), indent=1) + "\n")
