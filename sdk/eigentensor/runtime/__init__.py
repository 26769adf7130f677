"""A program → its results, fast: C text straight from the bodies, compiled and loaded by tinygrad's CPU device."""

from eigentensor.runtime.executable import Executable, execute
from eigentensor.runtime.memory import estimate_memory_requirements

__all__ = ["Executable", "estimate_memory_requirements", "execute"]
