"""A program → its results, fast: C text straight from the bodies, compiled and loaded by tinygrad's CPU device."""

from eigentensor.runtime.executable import Executable, execute

__all__ = ["Executable", "execute"]
