"""Matrices as files have them: floats, or blocks of small integers with a scale each, which are multiplied out where
they are used. Nothing is expanded in memory."""

from dataclasses import dataclass
from typing import Protocol

from tinygrad import Tensor, dtypes


class Matrix(Protocol):
    """(rows, columns), whatever it is kept as."""

    def product(self, x: Tensor) -> Tensor:
        """x (…, columns) → (…, rows), in float32."""

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows by their numbers, int32 (…) → float32 (…, columns)."""


@dataclass(frozen=True, slots=True)
class Floats:
    """Elements of float32, or of half types, each of which is a float32 exactly."""

    elements: Tensor

    def product(self, x: Tensor) -> Tensor:
        return x @ self.elements.cast(dtypes.float32).transpose()

    def rows(self, numbers: Tensor) -> Tensor:
        return self.elements[numbers].cast(dtypes.float32)
