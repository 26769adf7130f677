"""What the blocks of each kind stand for: as floats, and multiplied with integers.

Elements stand in the order of a row's columns, as (rows, blocks, …, 16): the library gguf has the same bits. Terms of
products are (count, rows, blocks, …, lanes): each is the sum of products of four neighbours, an int32 and so exact in
any order, times the scales. `offsets` are what is subtracted of the sums of these.
"""

from collections.abc import Callable, Mapping
from math import prod

from tinygrad import Tensor, dtypes

Fields = Mapping[str, Tensor]
GROUP = 32  #: elements of what is multiplied that are quantised together
LARGEST = 127.0


class Activations:
    """What is multiplied with blocks, in int8: of 32 elements x with the largest size a > 0 each is x · (127 / a) ± 1/2
    towards zero, and stands for so many times a / 127. All float32, rounded after each operation."""

    def __init__(self, x: Tensor) -> None:
        """x is (…, columns)."""
        x = x.reshape(-1, x.shape[-1] // GROUP, GROUP)
        self._count = x.shape[0]
        largest = x.maximum(-x).max(-1).contiguous()
        factors = (largest > 0).where(LARGEST / largest, 0.0)
        scaled = x * factors.unsqueeze(-1)
        self._values = (scaled + (scaled < 0).where(-0.5, 0.5)).cast(dtypes.int8).contiguous()
        self._scales = (largest / LARGEST).contiguous()

    def values(self, *shape: int) -> Tensor:
        """(count, 1, *shape), int8."""
        return self._values.reshape(self._count, 1, *shape)

    def sums(self, *shape: int, times: int = 1) -> Tensor:
        """Sums of four neighbours each, int32, times a number: (count, 1, *shape)."""
        fours = self._values.reshape(self._count, -1, 4).cast(dtypes.int32).sum(-1) * times
        return fours.contiguous().reshape(self._count, 1, *shape)

    def whole(self, *shape: int) -> Tensor:
        """Sums of what the elements of each group stand for, float32: (count, 1, *shape)."""
        sums = self._values.cast(dtypes.int32).sum(-1).cast(dtypes.float32) * self._scales
        return sums.contiguous().reshape(self._count, 1, *shape)

    def scales(self, *shape: int) -> Tensor:
        """(count, 1, *shape), float32."""
        return self._scales.reshape(self._count, 1, *shape)


def _dot(values: Tensor, others: Tensor) -> Tensor:
    """Sums of four products each, of the last axis, in int32: an instruction of many processors."""
    products = [values[..., n].cast(dtypes.int32) * others[..., n].cast(dtypes.int32) for n in range(4)]
    return products[0] + products[1] + products[2] + products[3]


def _scale(field: Tensor, *shape: int) -> Tensor:
    """A block's scale, or those of its parts, float32 (rows, blocks, *shape)."""
    return field.cast(dtypes.float32).reshape(*field.shape[:2], *shape)


def _shifts(step: int, *shape: int) -> Tensor:
    """How far bytes are shifted from place to place of these axes, the last one fastest: 0, `step`, 2 · `step`, …"""
    return (Tensor.arange(prod(shape)) * step).cast(dtypes.uint8).reshape(*shape)


def _halves(bytes_: Tensor, *inner: int) -> Tensor:
    """The low four bits of bytes (…, n), then the high ones: (…, 2, *inner), where the extents of `inner` make n."""
    return bytes_.reshape(*bytes_.shape[:-1], 1, *inner) >> _shifts(4, 2, *[1] * len(inner)) & 15


# Blocks of 32: one scale


def _q8_0(of: Fields) -> Tensor:
    rows, blocks = of["scale"].shape
    return of["values"].reshape(rows, blocks, 2, 16).cast(dtypes.float32) * _scale(of["scale"], 1, 1)


def _q8_0_products(of: Fields, by: Activations) -> Tensor:
    rows, blocks = of["scale"].shape
    sums = _dot(of["values"].reshape(rows, blocks, 8, 4), by.values(blocks, 8, 4))
    return sums.cast(dtypes.float32) * (_scale(of["scale"], 1) * by.scales(blocks, 1))


def _q4_0(of: Fields) -> Tensor:
    values = _halves(of["values"], 16).cast(dtypes.int8) - 8
    return values.cast(dtypes.float32) * _scale(of["scale"], 1, 1)


def _q4_0_products(of: Fields, by: Activations) -> Tensor:
    rows, blocks = of["scale"].shape
    values, others = of["values"].reshape(rows, blocks, 4, 4), by.values(blocks, 2, 4, 4)
    less = by.sums(blocks, 2, 4, times=-8).sum(3).contiguous()
    sums = _dot(values & 15, others[:, :, :, 0]) + _dot(values >> 4, others[:, :, :, 1]) + less
    return sums.cast(dtypes.float32) * (_scale(of["scale"], 1) * by.scales(blocks, 1))


# Blocks of 256, in eight parts that have factors and offsets


def _five_bits(of: Fields, *inner: int) -> Tensor:
    """(rows, blocks, 4, 2, *inner): four bits, and a fifth where there is one."""
    rows, blocks = of["scale"].shape
    values = _halves(of["values"].reshape(rows, blocks, 4, 32), *inner)
    if "high" not in of:
        return values
    high = of["high"].reshape(rows, blocks, 1, 1, *inner) >> _shifts(1, 4, 2, *[1] * len(inner)) & 1
    return values + high * 16


def _q5_k(of: Fields) -> Tensor:
    values = _five_bits(of, 2, 16).cast(dtypes.float32)
    factors = _scale(of["scale"], 1, 1, 1, 1) * _scale(of["factors"], 4, 2, 1, 1)
    return values * factors - _scale(of["offset"], 1, 1, 1, 1) * _scale(of["offsets"], 4, 2, 1, 1)


def _q5_k_products(of: Fields, by: Activations) -> Tensor:
    blocks = of["scale"].shape[1]
    sums = _dot(_five_bits(of, 8, 4), by.values(blocks, 4, 2, 8, 4)).cast(dtypes.float32)
    factors = _scale(of["scale"], 1, 1, 1) * _scale(of["factors"], 4, 2, 1)
    return sums * (factors * by.scales(blocks, 4, 2, 1))


def _q5_k_offsets(of: Fields, by: Activations) -> Tensor:
    blocks = of["scale"].shape[1]
    return _scale(of["offset"], 1) * _scale(of["offsets"], 8) * by.whole(blocks, 8)


# Blocks of 256, in sixteen parts that have factors


def _six_bits(of: Fields, *inner: int) -> Tensor:
    """(rows, blocks, 2, 2, 2, *inner): 32 more than meant."""
    rows, blocks = of["scale"].shape
    ones = [1] * len(inner)
    low = of["values"].reshape(rows, blocks, 2, 1, 2, *inner) >> _shifts(4, 2, 1, *ones) & 15
    high = of["high"].reshape(rows, blocks, 2, 1, 1, *inner) >> _shifts(2, 2, 2, *ones) & 3
    return low + high * 16


def _q6_k(of: Fields) -> Tensor:
    values = (_six_bits(of, 2, 16).cast(dtypes.int8) - 32).cast(dtypes.float32)
    return _scale(of["scale"], 1, 1, 1, 1, 1) * _scale(of["factors"], 2, 2, 2, 2, 1) * values


def _q6_k_products(of: Fields, by: Activations) -> Tensor:
    blocks = of["scale"].shape[1]
    less = by.sums(blocks, 2, 2, 2, 8, times=-32)
    sums = _dot(_six_bits(of, 8, 4), by.values(blocks, 2, 2, 2, 8, 4)) + less
    scales = _scale(of["scale"], 1, 1, 1, 1) * by.scales(blocks, 2, 2, 2, 1)
    factors = _scale(of["factors"], 2, 2, 2, 2)
    first, second = (scales * factors[..., half : half + 1] for half in range(2))
    return sums.cast(dtypes.float32) * (Tensor.arange(8) < 4).where(first, second)


ELEMENTS: Mapping[str, Callable[[Fields], Tensor]] = {
    "Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_K": _q5_k, "Q5_K": _q5_k, "Q6_K": _q6_k,
}  # fmt: skip
PRODUCTS: Mapping[str, Callable[[Fields, Activations], Tensor]] = {
    "Q8_0": _q8_0_products, "Q4_0": _q4_0_products, "Q4_K": _q5_k_products, "Q5_K": _q5_k_products,
    "Q6_K": _q6_k_products,
}  # fmt: skip
OFFSETS: Mapping[str, Callable[[Fields, Activations], Tensor]] = {"Q4_K": _q5_k_offsets, "Q5_K": _q5_k_offsets}
