"""A program → its results, fast: text straight from the bodies, compiled and launched by what tinygrad opens."""

from eigentensor.runtime.executable import Executable, execute
from eigentensor.runtime.memory import estimate_memory_requirements

__all__ = ["Executable", "estimate_memory_requirements", "execute"]
