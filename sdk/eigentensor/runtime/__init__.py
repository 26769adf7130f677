"""A program → its results, fast: text straight from the bodies, compiled and launched by what tinygrad opens."""

from eigentensor.runtime.compiled import CompiledGraph, execute
from eigentensor.runtime.incremental import Incremental
from eigentensor.runtime.memory.plan import estimate_memory_requirements

__all__ = ["CompiledGraph", "Incremental", "estimate_memory_requirements", "execute"]
