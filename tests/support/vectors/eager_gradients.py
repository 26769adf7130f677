"""Writes tests/vectors/eager_gradients.json: values and gradients by PyTorch, for tensors that work as its do.

PYTHONPATH=tests .venv/bin/python -m support.vectors.eager_gradients      needs PyTorch 2.13.0
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from support.programs.eager_gradients import CASES, GIVEN, INPUTS, Case, Values, taken, weights

FILE = Path(__file__).parents[2] / "vectors" / "eager_gradients.json"


class Expected(NamedTuple):
    """What PyTorch says: the result, and the gradients of all that a case takes, one after the other, flat."""

    value: Values
    gradients: Values


def expected() -> dict[str, Expected]:
    """The file, by the name of the case."""
    rows = json.loads(FILE.read_text())
    return {name: Expected(*(np.array(row[word].split(), np.float32) for word in ("value", "gradients")))
            for name, row in rows.items()}  # fmt: skip


def by_torch(case: Case) -> Expected:
    import torch

    tensors: dict[str, Any] = {name: torch.tensor(INPUTS[name], requires_grad=True) for name in taken(case)}
    given = {name: torch.tensor(values) for name, values in GIVEN.items()}
    result = eval(case.theirs or case.ours, {"torch": torch, "F": torch.nn.functional}, tensors | given)
    (result * torch.tensor(weights(tuple(result.shape)))).sum().backward()
    gradients = [np.asarray(t.grad).ravel() for t in tensors.values()]
    return Expected(result.detach().numpy().ravel(), np.concatenate(gradients))


def formatted(values: Values) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def main() -> None:
    """Write the file anew."""
    rows = {name: {word: formatted(values) for word, values in by_torch(case)._asdict().items()}
            for name, case in CASES.items()}  # fmt: skip
    FILE.write_text("{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(r)}" for n, r in rows.items()) + "\n}\n")


if __name__ == "__main__":
    main()
