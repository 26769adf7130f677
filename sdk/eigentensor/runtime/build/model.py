"""Times of schedules that were not measured, from those that were: kernel ridge regression. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
LEAST = 8  #: rows without which nothing is fitted
#: What is tried; the pair that errs least on rows left out in turn is taken.
WIDTHS, PENALTIES = (0.5, 1.0, 2.0, 4.0), (0.003, 0.01, 0.03, 0.1, 0.3)


@dataclass(frozen=True, slots=True)
class Model:
    """Log seconds as a function of features, of which the first is the logarithm of a reckoned time.

    The estimate is that, plus `level`, plus the weighted sum of the kernel between the features and each row of those
    that it was fitted to: of their scalar product, and of a Gaussian of their distance (Saunders, Gammerman, Vovk:
    Ridge regression learning algorithm in dual variables, 1998). `deviation` is its mean error.
    """

    rows: Matrix
    weights: Vector
    mean: Vector
    level: float
    width: float
    deviation: float

    def log_seconds(self, features: Matrix) -> Vector:
        """For one row of features for each schedule."""
        rest: Vector = self.level + _kernel(features - self.mean, self.rows, self.width) @ self.weights
        return features[:, 0] + rest


def fit(features: Matrix, seconds: Vector) -> Model:
    """A model of at least LEAST rows, whose width and penalty err least on rows that are left out in turn."""
    mean, rest = features.mean(axis=0), np.log(seconds) - features[:, 0]
    level = float(np.median(rest))
    rows, rest = features - mean, rest - level
    best: Model | None = None
    for width in WIDTHS:
        values, vectors = np.linalg.eigh(_kernel(rows, rows, width))
        for penalty in PENALTIES:
            inverse = (vectors / (np.maximum(values, 0) + penalty)) @ vectors.T
            weights = inverse @ rest
            error = float(np.abs(weights / np.diag(inverse)).mean())  # without fitting again for each row
            if best is None or error < best.deviation:
                best = Model(rows, weights, mean, level, width, error)
    assert best is not None
    return best


def _kernel(a: Matrix, b: Matrix, width: float) -> Matrix:
    distances = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
    numbers = a.shape[1]
    both: Matrix = a @ b.T / numbers + np.exp(-np.maximum(distances, 0) / (2 * width**2 * numbers))
    return both
