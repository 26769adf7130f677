"""Running a program on several workers, each of which holds and computes its boxes alone, as a plan says."""

from eigentensor.runtime.sharded.runs import Sharded

__all__ = ["Sharded"]
