"""Matrices as files have them: floats, or blocks of small integers with a scale each, which are multiplied out where
they are used. Nothing is expanded in memory."""

from dataclasses import dataclass
from typing import Protocol

from tinygrad import Tensor, dtypes

from eigentensor.numerics.dtypes import DType

#: tinygrad's names for what files have.
DTYPES = {
    DType.FLOAT32: dtypes.float32, DType.FLOAT16: dtypes.float16, DType.BFLOAT16: dtypes.bfloat16,
    DType.INT8: dtypes.int8, DType.UINT8: dtypes.uint8,
}  # fmt: skip


class Matrix(Protocol):
    """(rows, columns), or more of them with axes before these, whatever it is kept as."""

    def product(self, x: Tensor) -> Tensor:
        """x (…, columns) → (…, rows), in float32."""

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows by their numbers, int32 (…) → float32 (…, columns)."""

    def chosen(self, numbers: Tensor) -> "Matrix":
        """Of many matrices, (count, rows, columns), those of these numbers, int32 (…): (…, rows, columns). No other one
        is read."""


def proven(numbers: Tensor, count: int) -> Tensor:
    """Numbers that are below `count`, so that whoever reads by them need not look: guarded reads are slow ones."""
    return numbers.cast(dtypes.uint32) % count


@dataclass(frozen=True, slots=True)
class Floats:
    """Elements of float32, or of half types, each of which is a float32 exactly."""

    elements: Tensor

    def product(self, x: Tensor) -> Tensor:
        """x (…, columns) → (…, rows), in float32."""
        return x @ self.elements.cast(dtypes.float32).transpose(-1, -2)

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows by their numbers, int32 (…) → float32 (…, columns)."""
        return self.elements[numbers].cast(dtypes.float32)

    def chosen(self, numbers: Tensor) -> "Floats":
        """Of many matrices those of these numbers."""
        return Floats(self.elements[proven(numbers, self.elements.shape[0])])


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of 32 along a row: `values` (rows, blocks, …), and what each is multiplied by, `scales` (rows, blocks) of
    float16. Values are int8, or uint8 of two of four bits each, 8 more than meant: the first half of a block low."""

    values: Tensor
    scales: Tensor

    def product(self, x: Tensor) -> Tensor:
        """x (…, columns) → (…, rows), in float32."""
        parts = self._parts(self.values, self.scales)
        blocks = x.reshape(*x.shape[:-1], self.values.shape[-2], len(parts), -1)
        products = [
            blocks[..., number, :].flatten(-2) @ part.flatten(-2).transpose(-1, -2) for number, part in enumerate(parts)
        ]
        return products[0] if len(parts) == 1 else products[0] + products[1]

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows by their numbers, int32 (…) → float32 (…, columns)."""
        flat = numbers.flatten()
        parts = self._parts(self.values[flat], self.scales[flat])
        return parts[0].cat(*parts[1:], dim=-1).reshape(*numbers.shape, -1)

    def chosen(self, numbers: Tensor) -> "Blocks":
        """Of many matrices those of these numbers."""
        few = proven(numbers, self.values.shape[0])
        return Blocks(self.values[few], self.scales[few])

    @staticmethod
    def _parts(values: Tensor, scales: Tensor) -> list[Tensor]:
        """The parts of all blocks, one behind the other in each: (rows, blocks, elements) in float32."""
        if values.dtype == dtypes.uint8:
            whole = [(part.cast(dtypes.int8) - 8) for part in (values & 15, values >> 4)]
        else:
            whole = [values]
        return [part.cast(dtypes.float32) * scales.cast(dtypes.float32).unsqueeze(-1) for part in whole]
