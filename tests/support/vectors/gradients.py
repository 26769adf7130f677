"""Writes tests/vectors/gradients.json: gradients at extreme values by PyTorch, and where tinygrad gives others.

PYTHONPATH=tests DEV=CPU .venv/bin/python -m gradient_vectors        needs PyTorch 2.13.0
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tinygrad import Tensor

from support.programs.extreme_gradients import CASES, INPUTS, WEIGHTS, Case, Values

FILE = Path(__file__).parents[2] / "vectors" / "gradients.json"


class Gradient(NamedTuple):
    """What PyTorch and tinygrad say, for all elements of all that a case takes."""

    torch: Values
    tinygrad: Values


def gradients() -> dict[str, Gradient]:
    """The file, by the name of the case."""
    by_name = {}
    for name, row in json.loads(FILE.read_text()).items():
        torch = np.array(row["torch"].split(), np.float32)
        tinygrad = torch.copy()
        tinygrad[row["places"]] = np.array(row["tinygrad"].split(), np.float32)
        by_name[name] = Gradient(torch, tinygrad)
    return by_name


def gradient_of(case: Case) -> Any:
    """The gradients of the weighted sum of a case's results, one after the other, as a function of Tensors."""

    def function(**tensors: Tensor) -> Tensor:
        result = eval(case.ours, {"Tensor": Tensor}, tensors)
        weights = Tensor(np.resize(WEIGHTS, result.shape))
        grads = (result * weights).sum().gradient(*tensors.values())
        return grads[0].flatten().cat(*(g.flatten() for g in grads[1:]))

    return function


def close(ours: Values, theirs: Values, also: Values | None = None) -> NDArray[np.bool_]:
    """Equal, or apart by no more than formulas are that round otherwise; or at most by twice as much as `also` is."""
    with np.errstate(invalid="ignore", over="ignore"):
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        far = 2e-3 * np.abs(b) + 1e-6
        if also is not None:
            far += np.where(close(also, theirs), 0, 2 * np.abs(also.astype(np.float64) - b))
        near = (np.abs(a - b) <= far) | (np.isfinite(b) & ~np.isfinite(far))
        return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)) | near)


def by_torch(case: Case) -> Values:
    import torch

    tensors = {name: torch.tensor(INPUTS[name], requires_grad=True) for name in case.takes}
    result = eval(case.theirs or case.ours, {"torch": torch, "F": torch.nn.functional}, tensors)
    (result * torch.tensor(np.resize(WEIGHTS, result.shape))).sum().backward()
    return np.concatenate([np.asarray(t.grad).ravel() for t in tensors.values()])


def main() -> None:
    """Write the file anew."""
    rows = {}
    for name, case in CASES.items():
        torch = by_torch(case)
        tinygrad = gradient_of(case)(**{name: Tensor(INPUTS[name]) for name in case.takes}).numpy()
        places = np.flatnonzero(~close(tinygrad, torch))
        rows[name] = {"torch": formatted(torch), "tinygrad": formatted(tinygrad[places]), "places": places.tolist()}
    FILE.write_text("{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(r)}" for n, r in rows.items()) + "\n}\n")


def formatted(values: Values) -> str:
    return " ".join(f"{value:.5g}" for value in values)


if __name__ == "__main__":
    main()
