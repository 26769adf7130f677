"""Writes tests/vectors/sampling.json: which tokens transformers' logits processors leave, out of the same scores.

PYTHONPATH=tests .venv/bin/python -m support.vectors.sampling      needs transformers and PyTorch
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FILE = Path(__file__).parents[2] / "vectors" / "sampling.json"
TOKENS, COUNT = 40, 60


class Case(NamedTuple):
    """Scores, three limits, and the numbers of the tokens that may be drawn."""

    scores: np.ndarray[Any, Any]
    temperature: float
    top_k: int
    top_p: float
    kept: list[int]


def cases() -> list[Case]:
    """The file."""
    rows = json.loads(FILE.read_text())["cases"]
    return [Case(np.array(row.pop("scores").split(), np.float32), **row) for row in rows]


def by_transformers(scores: np.ndarray[Any, Any], temperature: float, top_k: int, top_p: float) -> list[int]:
    """In the order of its `generate`: temperature, top_k, top_p."""
    import torch
    from transformers.generation import logits_process as processors

    left = torch.from_numpy(scores).reshape(1, -1)
    steps = [processors.TemperatureLogitsWarper(temperature)]
    steps += [processors.TopKLogitsWarper(top_k)] if top_k else []
    steps += [processors.TopPLogitsWarper(top_p)] if top_p < 1 else []
    for step in steps:
        left = step(None, left)
    return [int(number) for number in torch.isfinite(left).flatten().nonzero().flatten()]


def main() -> None:
    import torch
    import transformers

    random, rows = np.random.default_rng(9), []
    for _ in range(COUNT):
        scores = (random.standard_normal(TOKENS) * random.choice([0.3, 1, 4])).astype(np.float32)
        limits = {
            "temperature": float(random.choice([0.5, 1.0, 1.5])),
            "top_k": int(random.choice([0, 1, 4, 20])),
            "top_p": float(random.choice([0.2, 0.6, 0.9, 1.0])),
        }
        kept = by_transformers(scores, **limits)  # type: ignore[arg-type]
        rows.append({"scores": " ".join(map(str, scores)), **limits, "kept": kept})
    by = f"transformers {transformers.__version__}, torch {torch.__version__}"
    FILE.write_text(f'{{"by": "{by}", "cases": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]}\n")


if __name__ == "__main__":
    main()
