"""GT's older names of its modules."""

from eigentensor.gt.client import autograd, nn

__all__ = ["autograd", "nn"]
