"""Matrices as files have them: floats, or blocks of small integers with scales, which are multiplied out where they are
used. Nothing is expanded in memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tinygrad import Tensor, dtypes
from tinygrad.dtype import DType as TensorType

from eigentensor.numerics.dtypes import DType
from eigentensor_models.blocks import ELEMENTS, OFFSETS, PRODUCTS, Activations, apart
from eigentensor_models.quantised import Kept, Quantised

#: tinygrad's names for what files have.
DTYPES = {
    DType.FLOAT32: dtypes.float32, DType.FLOAT16: dtypes.float16, DType.BFLOAT16: dtypes.bfloat16,
    DType.INT8: dtypes.int8, DType.UINT8: dtypes.uint8,
}  # fmt: skip
#: Where tensors are of which nothing is computed: to choose one, tinygrad tries all that there are, for half a second.
DEVICE = "CPU"
LANES = 16  #: terms of a row's sum are added lane by lane, each in order, and then the lanes, in order


def stand_in(shape: tuple[int, ...], dtype: TensorType) -> Tensor:
    """What a weight, or a state as it is at first, is while a program is captured."""
    return Tensor.empty(*shape, dtype=dtype, device=DEVICE)


def proven(numbers: Tensor, count: int) -> Tensor:
    """Numbers that are below `count`, so that whoever reads by them need not look: guarded reads are slow ones."""
    return numbers.cast(dtypes.uint32) % count


@dataclass(frozen=True, slots=True)
class Floats:
    """Elements of float32, or of half types, each of which is a float32 exactly."""

    elements: Tensor

    @property
    def parts(self) -> Mapping[str, Tensor]:
        """Its tensors by name."""
        return {"": self.elements}

    def product(self, x: Tensor) -> Tensor:
        """x (…, columns) → (…, rows), in float32."""
        whole = self.elements.cast(dtypes.float32)
        if whole.ndim > 2:
            return x @ whole.transpose(-1, -2)
        rows, columns = self.elements.shape
        return _product(x, whole.reshape(rows, -1, LANES if columns % LANES == 0 else 1))

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows by their numbers, int32 (…) → float32 (…, columns)."""
        return self.elements[numbers].cast(dtypes.float32)

    def chosen(self, numbers: Tensor) -> "Floats":
        """Of many matrices, (count, rows, columns), those of these numbers, int32 (…): (…, rows, columns). No other one
        is read."""
        return Floats(self.elements[proven(numbers, self.elements.shape[0])])


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of a kind, by their fields as `quantised.KINDS` has them: (rows, blocks, …) each."""

    kind: str
    fields: Mapping[str, Tensor]

    @property
    def parts(self) -> Mapping[str, Tensor]:
        """Its tensors by name."""
        return self.fields

    def product(self, x: Tensor) -> Tensor:
        """x (…, columns) → (…, rows), in float32."""
        return _product(x, ELEMENTS[self.kind](self.fields))

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows by their numbers, int32 (…) → float32 (…, columns)."""
        flat = numbers.flatten()
        whole = ELEMENTS[self.kind]({name: field[flat] for name, field in self.fields.items()})
        return whole.reshape(*numbers.shape, -1)

    def chosen(self, numbers: Tensor) -> Floats:
        """As of `Floats`, multiplied out."""
        few = {name: field[proven(numbers, field.shape[0])] for name, field in self.fields.items()}
        axes = few["scale"].shape[:-1]
        flat = {name: field.reshape(-1, *field.shape[len(axes) :]) for name, field in few.items()}
        return Floats(ELEMENTS[self.kind](flat).reshape(*axes, -1))


@dataclass(frozen=True, slots=True)
class Integers:
    """Blocks of rows that lie side by side, so many rows; products are those of integers: what is multiplied with the
    matrix is quantised first."""

    kind: str
    fields: Mapping[str, Tensor]
    count: int

    @property
    def parts(self) -> Mapping[str, Tensor]:
        """Its tensors by name."""
        return self.fields

    def product(self, x: Tensor) -> Tensor:
        """x (…, columns) → (…, rows), in float32."""
        by = Activations(x)
        terms = PRODUCTS[self.kind](self.fields, by)
        sums = terms.sum(tuple(range(2, terms.ndim - 2))).contiguous().sum(2)
        if self.kind in OFFSETS:
            less = OFFSETS[self.kind](self.fields, by)
            sums = sums - less.sum(tuple(range(2, less.ndim - 1)))
        return sums.contiguous().flatten(1)[:, : self.count].reshape(*x.shape[:-1], -1)

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows by their numbers, int32 (…) → float32 (…, columns)."""
        return Blocks(self.kind, {name: apart(field) for name, field in self.fields.items()}).rows(numbers)


#: (rows, columns), or but for `Integers` more of them with axes before these, whatever it is kept as.
Matrix = Floats | Blocks | Integers


def matrix_of(name: str, kept: Kept, tensors: Mapping[str, Tensor]) -> Matrix:
    """The matrix that is kept under a name, of the tensors by their names that it is in a program."""
    if not isinstance(kept, Quantised):
        return Floats(tensors[name])
    prefix = f"{name}."
    fields = {part.removeprefix(prefix): tensor for part, tensor in tensors.items() if part.startswith(prefix)}
    return Integers(kept.kind, fields, kept.shape[0]) if kept.beside else Blocks(kept.kind, fields)


def _product(x: Tensor, whole: Tensor) -> Tensor:
    """x (…, columns) by a matrix (rows, …, lanes), columns in order.

    One row of x is multiplied lane by lane: the matrix is read once and as it lies. Several share what is read of it.
    """
    if prod(x.shape[:-1]) > 1 or whole.shape[-1] == 1:
        return x @ whole.flatten(1).transpose()
    terms = x.contiguous().reshape(1, 1, *whole.shape[1:]) * whole.unsqueeze(0)
    return _lanes(terms).sum(-1).reshape(*x.shape[:-1], -1)


def _lanes(terms: Tensor) -> Tensor:
    """(count, rows, …, lanes) → (count, rows, lanes), each in the order of its terms."""
    return terms.sum(tuple(range(2, terms.ndim - 1))).contiguous()
