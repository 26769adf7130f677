"""Times of schedules that were not measured, from those that were: a ridge regression with its own error. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
LEAST = 8  #: rows without which nothing is fitted
#: Penalties that are tried; the one with the least error on rows left out is taken.
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)
WIDTHS = (1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class Model:
    """A function of features, linear plus a smooth rest; `deviation` is the typical error of log seconds.

    Kernel ridge regression (Saunders, Gammerman, Vovk 1998): the kernel is the linear one plus a Gaussian of `width`.
    """

    rows: Matrix
    weights: Vector
    mean: Vector
    scale: Vector
    level: float
    width: float
    deviation: float

    def log_seconds(self, features: Matrix) -> Vector:
        """For one row of features for each schedule."""
        scaled = (features - self.mean) / self.scale
        estimated: Vector = self.level + _kernel(scaled, self.rows, self.width) @ self.weights
        return estimated


def fit(features: Matrix, seconds: Vector) -> Model:
    """A model of at least LEAST rows. Width and penalty are those of the least error on rows left out in turn."""
    times = np.log(seconds)
    mean, level = features.mean(axis=0), float(times.mean())
    scale = features.std(axis=0)
    scale[scale < 1e-9] = 1.0
    rows = (features - mean) / scale
    best: tuple[float, float, Vector] | None = None
    for width in WIDTHS:
        values, vectors = np.linalg.eigh(_kernel(rows, rows, width))
        for penalty in PENALTIES:
            inverse = (vectors / (np.maximum(values, 0) + penalty * len(rows) / 100)) @ vectors.T
            weights = inverse @ (times - level)
            left_out = weights / np.diag(inverse)  # exact for each row without fitting again
            error = float(np.median(np.abs(left_out)))
            if best is None or error < best[0]:
                best = error, width, weights
    assert best is not None
    return Model(rows, best[2], mean, scale, level, best[1], best[0])


def _kernel(a: Matrix, b: Matrix, width: float) -> Matrix:
    distances = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
    product: Matrix = a @ b.T / a.shape[1] + np.exp(-np.maximum(distances, 0) / (2 * width**2 * a.shape[1]))
    return product
