"""What is drawn of the market over time. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eigentensor_aggregator.queries import Bucket
from eigentensor_aggregator.tables import SPAN

BARS = 48  #: of a chart, and some more where blocks do not divide
RANGES = (0, 256, 4096, 65_536)  #: blocks that a chart may be about; 0 is all
_GWEI = 10**9  # in a whole token


@dataclass(frozen=True, slots=True)
class Span:
    """The blocks of a chart: buckets of `size`, from number `first` to `last`."""

    first: int
    last: int
    size: int


def span(oldest: int, newest: int, blocks: int) -> Span:
    """What to draw of the last `blocks` of the market; of all, if that is 0."""
    start = oldest if blocks == 0 else max(oldest, newest - blocks + 1)
    size = -(-(newest - start + 1) // BARS)
    if size > 8 * SPAN:  # so many blocks that their sums are asked for, not their tasks
        size = -(-size // SPAN) * SPAN
    return Span(start // size, newest // size, size)


def throughput(buckets: Mapping[int, Bucket], span: Span) -> list[Sequence[float | None]]:
    """Block, tasks posted, tasks that became final."""
    return [(at * span.size, _of(buckets, at).posted, _of(buckets, at).final) for at in _numbers(span)]


def prices(buckets: Mapping[int, Bucket], span: Span) -> list[Sequence[float | None]]:
    """Block, mean price of what was posted there and accepted, in whole tokens."""
    return [(at * span.size, _tokens(_of(buckets, at).price)) for at in _numbers(span)]


def burn(buckets: Mapping[int, Bucket], span: Span) -> list[Sequence[float | None]]:
    """Block, what was burned from the first bucket on, in whole tokens."""
    rows: list[Sequence[float | None]] = []
    total = 0
    for at in _numbers(span):
        total += _of(buckets, at).burned
        rows.append((at * span.size, _tokens(total)))
    return rows


def _numbers(span: Span) -> range:
    return range(span.first, span.last + 1)


def _of(buckets: Mapping[int, Bucket], number: int) -> Bucket:
    return buckets.get(number, Bucket())


def _tokens(gwei: float | None) -> float | None:
    return None if gwei is None else round(gwei / _GWEI, 9)
