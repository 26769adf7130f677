"""Bounds of the format (the table "Limits" of sdk/README.md). Each is the largest value that is allowed."""

from collections.abc import Iterable
from math import prod

PROGRAM_BYTES = 8 << 20
RECORD_BYTES = 16 << 10
NAME_BYTES = 128
VARIABLES = 64
BUFFERS = 65_536
BODIES = 4_096
CALLS = 65_536
RESULTS = 1_024
DIMENSIONS = 8
ELEMENTS = 1 << 32  # also of a tensor as it would be if its empty dimensions had one
ALL_ELEMENTS = 1 << 40
REPEAT = 1 << 20
EXECUTED_CALLS = 1 << 24
EVALUATIONS = 1 << 60

# of one body
INSTRUCTIONS = 1_536
PARAMETERS = 32
BODY_VARIABLES = 8
OUTPUT_RANGES = 16
REDUCE_RANGES = 16
REDUCTIONS = 8

# of judging one step
WITNESS = 64 << 10
GAS = 8_000_000

#: An index value lies within plus or minus this.
INDEX = 1 << 62


def volume(extents: Iterable[int]) -> int:
    """The product of the extents that are not zero: strides come to it also where there is no element."""
    return prod(extent for extent in extents if extent)
