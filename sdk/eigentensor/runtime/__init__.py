"""A program → its results, fast: text straight from the bodies, compiled and launched by what tinygrad opens.

Each name is loaded when it is used: how much memory a program takes is known without tinygrad.
"""

from typing import TYPE_CHECKING

from eigentensor.lazily import loading

if TYPE_CHECKING:
    from eigentensor.runtime.compiled import CompiledGraph, execute
    from eigentensor.runtime.incremental import Incremental
    from eigentensor.runtime.memory.plan import estimate_memory_requirements
    from eigentensor.runtime.sharded import Sharded

__all__ = ["CompiledGraph", "Incremental", "Sharded", "estimate_memory_requirements", "execute"]

__getattr__ = loading(
    __name__,
    {
        "compiled": "CompiledGraph execute",
        "incremental": "Incremental",
        "memory.plan": "estimate_memory_requirements",
        "sharded": "Sharded",
    },
)
