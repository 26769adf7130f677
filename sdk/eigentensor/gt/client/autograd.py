"""`no_grad` by its older name: there is one."""

from eigentensor.gt.tensors import no_grad

__all__ = ["no_grad"]
