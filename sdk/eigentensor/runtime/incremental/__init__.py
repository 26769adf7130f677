"""Running a program again where little of what it is given has changed: only what depends on that is computed.

All results of calls are kept; `recomputation` decides which elements of them are computed again.
"""

from eigentensor.runtime.incremental.runs import Incremental, Rerun, memory_of

__all__ = ["Incremental", "Rerun", "memory_of"]
