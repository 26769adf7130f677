"""What is zero stays out of memory, and all bits are the source's nevertheless."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentensor.runtime.memory.untouched import BLOCK, copied, rewrite

BLOCKS = 5


@pytest.mark.parametrize("dtype", [np.float32, np.uint16, np.bool_, np.int64])
@pytest.mark.parametrize("beyond", [0, 3])
def test_a_copy_has_all_bits_of_what_it_is_of(dtype: type[Any], beyond: int) -> None:
    array = np.zeros(BLOCKS * BLOCK // np.dtype(dtype).itemsize + beyond, dtype)
    array[7], array[-1] = 1, 1
    copy = copied(array)
    assert copy.dtype == array.dtype
    assert copy.tobytes() == array.tobytes()
    assert not np.shares_memory(copy, array)


def test_zeros_with_a_sign_and_payloads_are_bits_like_others() -> None:
    array = np.array([[0.0, -0.0], [np.nan, -np.nan]], np.float32)
    target = np.zeros((2, 2), np.float32)
    rewrite(target, array)
    assert target.tobytes() == array.tobytes()


def test_only_blocks_that_differ_are_written() -> None:
    array = np.zeros(BLOCKS * BLOCK // 4, np.float32)
    array[BLOCK // 4], array[-1] = 2, 3
    target, written = np.zeros_like(array), []

    def stored(block: NDArray[Any]) -> NDArray[Any]:
        written.append(block.size)
        return -block

    rewrite(target, array, stored)
    assert written == [BLOCK // 4] * 2
    assert (target[BLOCK // 4], target[-1]) == (-2, -3)
    assert not target[: BLOCK // 4].any()


@pytest.mark.parametrize("source", [np.zeros(4, np.float32), np.zeros((2, 2), np.int32)])
def test_an_array_of_another_kind_is_refused(source: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="of its shape and type"):
        rewrite(np.zeros((2, 2), np.float32), source)
