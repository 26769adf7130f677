"""What a page shows of outputs: bars of a few numbers, confidences of a classifier, how a tensor begins. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eigentensor.numerics.dtypes import DType
from eigentensor.program import Program
from eigentensor_client.elements import shown
from eigentensor_client.files import Tensors

_BARS = 12  # of a row; of more classes the likeliest
_CLASSES = (*range(2, 129), 1000)  # that classifiers have; other widths are those of vectors
_SURE = "confidence"
_ROWS = 4  # that are drawn; all are in the file

Values = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """One number: `share` is its length in percent, from `start`; `is_most` marks the largest of its row."""

    label: str
    words: str
    share: float
    start: float = 0.0
    is_most: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """An output: rows of bars, with what they stand for, or how it begins."""

    name: str
    dtype: str
    shape: str
    begins: str
    rows: tuple[tuple[Bar, ...], ...] = ()
    what: str = ""
    more: int = 0
    """Rows that are not drawn."""

    @property
    def is_sure(self) -> bool:
        """Whether its bars are confidences: the largest of a row is what it says."""
        return self.what.startswith(_SURE)


def figures(program: Program, outputs: Tensors, *, of_pictures: bool) -> list[Figure]:
    """What a page shows of a result. What says one number for each class of a picture is drawn as confidences."""
    return [
        figure(name, program.parameter(program.outputs[name].buffer).dtype, array, of_pictures=of_pictures)
        for name, array in outputs.items()
    ]


def figure(name: str, dtype: DType, array: Values, *, of_pictures: bool) -> Figure:
    """One output."""
    rows, what = _drawn(dtype, array, of_pictures=of_pictures)
    drawn = rows[:_ROWS]
    return Figure(
        name, dtype.name.lower(), str(list(array.shape)), shown(array, dtype),
        tuple(drawn), what if drawn else "", len(rows) - len(drawn),
    )  # fmt: skip


def _drawn(dtype: DType, array: Values, *, of_pictures: bool) -> tuple[list[tuple[Bar, ...]], str]:
    width = array.shape[-1] if array.ndim else 0
    is_number = dtype.is_float and dtype is not DType.BFLOAT16 and array.ndim in (1, 2)
    if not is_number or width < 2 or not np.isfinite(array).all():
        return [], ""
    table = array.reshape(-1, width).astype(np.float64)
    if of_pictures and width in _CLASSES:
        sure = confidences(table)
        return [_confident(row) for row in sure], _SURE if np.array_equal(sure, table) else f"{_SURE}, by softmax"
    return ([_measured(row) for row in table], "value") if width <= _BARS else ([], "")


def confidences(scores: Values) -> Values:
    """Rows that are distributions as they are, others by softmax."""
    if (scores >= 0).all() and np.allclose(scores.sum(axis=1), 1, atol=1e-3):
        return scores
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _confident(row: Values) -> tuple[Bar, ...]:
    """The classes in their order, or of many the likeliest first."""
    likeliest = np.argsort(-row, kind="stable")
    chosen: Sequence[Any] = range(len(row)) if len(row) <= _BARS else likeliest[:_BARS].tolist()
    return tuple(
        Bar(str(k), f"{100 * row[k]:.1f} %", round(100 * float(row[k]), 2), is_most=k == likeliest[0]) for k in chosen
    )


def _measured(row: Values) -> tuple[Bar, ...]:
    """Numbers from zero on, to the left and to the right."""
    low, high = min(0.0, float(row.min())), max(0.0, float(row.max()))
    scale = 100 / (high - low) if high > low else 0.0
    zero = -low * scale
    return tuple(
        Bar(str(k), f"{x:.6g}", round(abs(x) * scale, 2), round(zero - max(0.0, -x) * scale, 2), is_most=x == row.max())
        for k, x in enumerate(row.tolist())
    )
