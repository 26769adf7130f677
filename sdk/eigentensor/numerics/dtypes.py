"""Element types with their codes (sdk/README.md). How NumPy holds them is `storage`'s."""

from enum import IntEnum


class DType(IntEnum):
    """Element types. INDEX is the mathematical integer of addresses and loop counters; it is never stored."""

    BOOL = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    UINT8 = 6
    UINT16 = 7
    UINT32 = 8
    UINT64 = 9
    FLOAT16 = 10
    BFLOAT16 = 11
    FLOAT32 = 12
    INDEX = 15

    __hash__ = int.__hash__  # Enum's own is ten times slower, and bodies are hashed often

    @property
    def size(self) -> int:
        """Bytes of an element; 8 for INDEX, which has no stored form."""
        return SIZES[self]

    @property
    def is_float(self) -> bool:
        """Whether it is float16, bfloat16 or float32."""
        return self in FLOATS

    @property
    def is_integer(self) -> bool:
        """True for the eight machine integers, not for BOOL and INDEX."""
        return DType.INT8 <= self <= DType.UINT64

    @property
    def is_signed(self) -> bool:
        """Whether it is one of the integers in two's complement; `index`, which has no width, is not."""
        return DType.INT8 <= self <= DType.INT64


FLOATS = frozenset({DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32})
SIZES = {
    DType.BOOL: 1, DType.INT8: 1, DType.INT16: 2, DType.INT32: 4, DType.INT64: 8,
    DType.UINT8: 1, DType.UINT16: 2, DType.UINT32: 4, DType.UINT64: 8,
    DType.FLOAT16: 2, DType.BFLOAT16: 2, DType.FLOAT32: 4, DType.INDEX: 8,
}  # fmt: skip
INFINITY = {DType.FLOAT16: 0x7C00, DType.BFLOAT16: 0x7F80, DType.FLOAT32: 0x7F800000}
CANONICAL_NAN = {DType.FLOAT16: 0x7E00, DType.BFLOAT16: 0x7FC0, DType.FLOAT32: 0x7FC00000}
