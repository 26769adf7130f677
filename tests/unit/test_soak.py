"""What a soak calls a leak."""

import numpy as np
import pytest

from support.campaigns.soak import failures, risen

TIMES = np.arange(0, 1200, 5.0)


def lines(values: "np.ndarray[tuple[int], np.dtype[np.float64]]", name: str = "memory") -> list[str]:
    return list(failures({("daemon", name): list(zip(TIMES, values.tolist(), strict=True))}))


def test_what_fills_in_the_first_third_and_then_stays_is_none() -> None:
    noise = np.random.default_rng(1).normal(0, 3, len(TIMES))
    filled = 100 + 80 * np.minimum(TIMES / 400, 1) + noise
    filled[200] = 900  # one sample, while something large was executed
    assert lines(filled) == []
    rise, median = risen(list(zip(TIMES, filled.tolist(), strict=True)))
    assert abs(rise) < 2 and abs(median - 180) < 3


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("memory", 100 + TIMES / 50),
        ("handles", 30 + TIMES // 100),
        ("threads", 5 + TIMES // 250),
    ],
)
def test_a_line_that_rises_is_one(name: str, values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> None:
    (words,) = lines(values, name)
    assert words.startswith(f"{name} of daemon rises by ")
