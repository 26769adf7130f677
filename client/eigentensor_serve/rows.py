"""Rows of an app: a request may have fewer than the program, which are filled up, and whose results are cut. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from eigentensor.errors import BindingError
from eigentensor.lowering.build import NAME as FINGERPRINT
from eigentensor_client.files import Tensors


@dataclass(frozen=True, slots=True)
class Cut:
    """How many rows of these outputs were asked for: the others are of rows that were filled up."""

    rows: int
    outputs: tuple[str, ...]

    def of(self, outputs: Tensors) -> Tensors:
        """The outputs without other rows, and without the checksum, which is of all."""
        wanted = {name: array for name, array in outputs.items() if name != FINGERPRINT}
        return {name: array[: self.rows] if name in self.outputs else array for name, array in wanted.items()}

    def to_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads what `to_json` wrote."""
        return cls(int(values["rows"]), tuple(values["outputs"]))


@dataclass(frozen=True, slots=True)
class Rows:
    """Inputs whose first axis has `count` rows that keep apart, and the outputs whose rows are theirs."""

    count: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The member `rows` of `eigentensor.app/1`."""
        return {"count": self.count, "inputs": list(self.inputs), "outputs": list(self.outputs)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads what `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(int(values["count"]), tuple(values["inputs"]), tuple(values["outputs"]))

    def filled(self, tensors: Tensors) -> tuple[Tensors, Cut | None]:
        """The tensors with as many rows as the program has, and what of its outputs was asked for; None: all.

        Rows that are missing are zeros: they change no bit of the others. Raises BindingError for none, too many, or
        other numbers of them; what else is wrong with a tensor is left to others.
        """
        present = {name: tensors[name] for name in self.inputs if name in tensors and tensors[name].ndim}
        numbers = sorted({len(array) for array in present.values()})
        if len(numbers) > 1:
            each = ", ".join(f"{name} {len(array)}" for name, array in present.items())
            raise BindingError(f"the inputs have other numbers of rows: {each}", fix="Give as many of each.")
        if not numbers or numbers == [self.count]:
            return tensors, None
        (rows,) = numbers
        if not 1 <= rows <= self.count:
            raise BindingError(
                f"{', '.join(self.inputs)}: {rows} rows, in a request there are 1 to {self.count}",
                fix="Send several requests, or deploy a program of more rows.",
            )
        more = {name: _filled(array, self.count) for name, array in present.items()}
        return {**tensors, **more}, Cut(rows, self.outputs)


def _filled(array: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    whole = np.zeros((count, *array.shape[1:]), array.dtype)
    whole[: len(array)] = array
    return whole
