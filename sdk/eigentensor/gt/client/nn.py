"""`eigentensor.gt.nn` by its older name."""

from eigentensor.gt.nn import (
    SGD,
    Adam,
    Linear,
    Module,
    binary_cross_entropy,
    cross_entropy_loss,
    mse_loss,
    relu,
    sigmoid,
    tanh,
)

__all__ = [
    "SGD", "Adam", "Linear", "Module", "binary_cross_entropy", "cross_entropy_loss", "mse_loss", "relu", "sigmoid",
    "tanh",
]  # fmt: skip
