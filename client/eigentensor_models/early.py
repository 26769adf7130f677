"""Who is told what a model's programs are made of as soon as it is there: others can begin with it meanwhile."""

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Program


class Early(Protocol):
    """Whoever is told. What it does must not fail: nobody waits for it."""

    def program(self, program: Program) -> None:
        """A program is captured."""

    def weights(self, tensors: Mapping[str, NDArray[Any]], dtypes: Mapping[str, DType]) -> None:
        """Programs of these weights are going to be captured, by their names there."""


class _Nobody:
    def program(self, program: Program) -> None:
        pass

    def weights(self, tensors: Mapping[str, NDArray[Any]], dtypes: Mapping[str, DType]) -> None:
        pass


NOBODY = _Nobody()
