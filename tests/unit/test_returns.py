"""What a call returns, written down by one process and made again by another."""

import json
from dataclasses import dataclass
from enum import IntEnum
from math import inf
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from tinygrad import Tensor, dtypes

from eigentensor.capture.returns import Returns
from eigentensor.capture.signatures import Signatures
from eigentensor.capture.structure import rest_of
from eigentensor.errors import BindingError

COUNT = Tensor.zeros(1, device="CPU").contiguous().realize()


class Pair(NamedTuple):
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class Named:
    of: Any
    fields: Any = "word"


class Colour(IntEnum):
    RED = 1


def again(returns: Returns, module: str = __name__, **tensors: Tensor) -> Returns:
    return Returns.from_json(json.loads(json.dumps(returns.to_json(__name__))), module, tensors)


def returns_of(function: Any) -> tuple[Any, Returns]:
    (use,) = Signatures(function).uses([((np.ones(2, np.float32),), {})])
    return use.captured.graph.program, use.returns


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x: [x, (x + 1, None, True, 2**80, -0.0, inf, "words", b"bytes", dtypes.bfloat16)],
        lambda x: {"a": Pair(x, [x * 2]), 3: Named({None: x, 2.5: ()})},
        lambda x: Named(x, fields=Pair(1, 2)),
    ],
)
def test_what_was_written_down_is_the_same_again(function: Any) -> None:
    _, returns = returns_of(function)
    copy = again(returns)
    assert rest_of(copy.structure) == rest_of(returns.structure) and copy.device == returns.device == "CPU"


def test_it_is_filled_with_the_same_tensors() -> None:
    program, returns = returns_of(lambda x: Pair(x + 1, Named(x.cast(dtypes.bfloat16))))
    outputs: dict[str, NDArray[Any]] = {
        "low": np.array([2.0, 3.0], np.float32),
        "high.of": np.array([0x3F80, 0x4000], np.uint16),
    }
    for each in (returns, again(returns)):
        pair = each.filled(program, outputs, {})
        assert (pair.low.tolist(), pair.high.of.dtype, pair.high.fields) == ([2, 3], dtypes.bfloat16, "word")


def test_what_a_function_assigns_to_is_found_by_its_name() -> None:
    def counted(x: Tensor) -> Tensor:
        COUNT.assign(COUNT + 1)
        return x + COUNT

    program, returns = returns_of(counted)
    copy = again(returns, COUNT=COUNT)
    copy.filled(program, {"output": np.zeros(2, np.float32)}, {"COUNT": np.array([7.0], np.float32)})
    assert COUNT.item() == 7
    with pytest.raises(BindingError, match="has no tensor 'COUNT' any more"):
        again(returns)


@pytest.mark.parametrize(
    ("function", "module", "match"),
    [
        (lambda x: Pair(x, 1), "another", "a Pair of another with the fields high, low; there is none here"),
        (lambda x: (x, Colour.RED), __name__, "a Colour, which another process cannot know"),
    ],
)
def test_what_cannot_be_known_any_more_is_said(function: Any, module: str, match: str) -> None:
    _, returns = returns_of(function)
    with pytest.raises(BindingError, match=match):
        again(returns, module)


def test_a_class_with_other_fields_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    _, returns = returns_of(lambda x: Pair(x, 1))
    monkeypatch.setitem(globals(), "Pair", NamedTuple("Pair", [("low", Any)]))
    with pytest.raises(BindingError, match="fields high, low; there is none here"):
        again(returns)
