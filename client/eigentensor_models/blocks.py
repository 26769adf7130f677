"""What the blocks of each kind stand for: as floats, and multiplied with integers.

Elements stand in the order of a row's columns, as (rows, blocks, …, 16): the library gguf has the same bits. Terms of
products are those of rows that lie side by side (`quantised.Quantised`): (count, rows / 16, blocks, …, lanes, 16). Each
is the sum of eight products, of neighbours, an int32 and so exact in any order, times the scales. `OFFSETS` are what is
subtracted of the sums of these.
"""

from collections.abc import Callable, Mapping
from math import prod

from tinygrad import Tensor, dtypes

from eigentensor_models.quantised import BESIDE, FOUR

Fields = Mapping[str, Tensor]
GROUP = 32  #: elements of what is multiplied that are quantised together
LARGEST = 127.0
EIGHT = 8  #: products that are one term
LANES = GROUP // EIGHT


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
        """(count, 1, *shape, 1, 4), int8: what is multiplied with four neighbours of each row."""
        return self._values.reshape(self._count, 1, *shape, 1, FOUR)

    def whole(self, *shape: int) -> Tensor:
        """Sums of what the elements of each group stand for, float32: (count, 1, *shape, 1)."""
        sums = self._values.cast(dtypes.int32).sum(-1).cast(dtypes.float32) * self._scales
        return sums.contiguous().reshape(self._count, 1, *shape, 1)

    def scales(self, *shape: int) -> Tensor:
        """(count, 1, *shape, 1), float32."""
        return self._scales.reshape(self._count, 1, *shape, 1)


def apart(field: Tensor) -> Tensor:
    """A field of rows that lie side by side as one of rows that do not, (rows, blocks, …)."""
    axis = 3 if field.ndim == 5 else field.ndim - 1
    axes = [0, axis, *(n for n in range(1, field.ndim) if n != axis)]
    rows, blocks = field.shape[0] * BESIDE, field.shape[1]
    inner = field.shape[2:axis] + field.shape[axis + 1 :]
    return field.permute(axes).reshape(rows, blocks, *([prod(inner)] if inner else []))


def _dot(values: Tensor, others: Tensor, above: int = 0) -> Tensor:
    """Sums of eight products each of what values are `above` and others, (…, 2, 16, 4) by (…, 2, 1, 4) → (…, 16), in
    int32: two instructions of many processors."""
    places = [(n // FOUR, n % FOUR) for n in range(EIGHT)]
    pairs = [(values[..., fours, :, n], others[..., fours, :, n]) for fours, n in places]
    first, *products = [a.cast(dtypes.int32) * b.cast(dtypes.int32) for a, b in pairs]
    total = sum(products, first)
    return total + (others.cast(dtypes.int32).sum((-3, -1)) * -above).contiguous() if above else total


def _scale(field: Tensor, *shape: int) -> Tensor:
    """A block's scale, or those of its parts, float32 (rows, blocks, *shape)."""
    return field.cast(dtypes.float32).reshape(*field.shape[:2], *shape)


def _fours(field: Tensor, *shape: int) -> Tensor:
    """Bytes of rows that lie side by side, (rows / 16, blocks, *shape, 16, 4)."""
    return field.reshape(*field.shape[:2], *shape, BESIDE, FOUR)


def _beside(field: Tensor, *shape: int) -> Tensor:
    """Scales of rows that lie side by side, float32 (rows / 16, blocks, *shape, 16)."""
    return field.cast(dtypes.float32).reshape(*field.shape[:2], *shape, BESIDE)


def _shifts(step: int, *shape: int) -> Tensor:
    """How far bytes are shifted from place to place of these axes, the last one fastest: 0, `step`, 2 · `step`, …"""
    return (Tensor.arange(prod(shape)) * step).cast(dtypes.uint8).reshape(*shape)


def _halves(bytes_: Tensor, *inner: int) -> Tensor:
    """The low four bits of bytes (…, n), then the high ones: (…, 2, *inner), where the extents of `inner` make n."""
    return bytes_.reshape(*bytes_.shape[:-1], 1, *inner) >> _shifts(4, 2, *[1] * len(inner)) & 15


# Blocks of 32: one scale


def _q8_0(of: Fields) -> Tensor:
    rows, blocks = of["scale"].shape
    values = of["values"].cast(dtypes.float32) - (0 if of["values"].dtype == dtypes.int8 else 128)
    return values.reshape(rows, blocks, 2, 16) * _scale(of["scale"], 1, 1)


def _q8_0_products(of: Fields, by: Activations) -> Tensor:
    blocks = of["scale"].shape[1]
    sums = _dot(_fours(of["values"], LANES, 2), by.values(blocks, LANES, 2), 128)
    return sums.cast(dtypes.float32) * (_beside(of["scale"], 1) * by.scales(blocks, 1))


def _q4_0(of: Fields) -> Tensor:
    values = _halves(of["values"], 16).cast(dtypes.int8) - 8
    return values.cast(dtypes.float32) * _scale(of["scale"], 1, 1)


def _q4_0_products(of: Fields, by: Activations) -> Tensor:
    blocks = of["scale"].shape[1]
    values = _fours(of["values"], LANES, 1) >> _shifts(4, 2, 1, 1) & 15
    sums = _dot(values, by.values(blocks, 2, LANES).transpose(3, 4), 8)
    return sums.cast(dtypes.float32) * (_beside(of["scale"], 1) * by.scales(blocks, 1))


# Blocks of 256, in eight parts that have factors and offsets


def _q5_k(of: Fields) -> Tensor:
    rows, blocks = of["scale"].shape
    values = _halves(of["values"].reshape(rows, blocks, 4, 32), 2, 16)
    if "high" in of:
        values = values + (of["high"].reshape(rows, blocks, 1, 1, 2, 16) >> _shifts(1, 4, 2, 1, 1) & 1) * 16
    factors = _scale(of["scale"], 1, 1, 1, 1) * _scale(of["factors"], 4, 2, 1, 1)
    return values.cast(dtypes.float32) * factors - _scale(of["offset"], 1, 1, 1, 1) * _scale(of["offsets"], 4, 2, 1, 1)


def _q5_k_products(of: Fields, by: Activations) -> Tensor:
    blocks = of["scale"].shape[1]
    values = _fours(of["values"], 4, 1, LANES, 2) >> _shifts(4, 2, 1, 1, 1, 1) & 15
    if "high" in of:
        values = values + (_fours(of["high"], 1, 1, LANES, 2) >> _shifts(1, 4, 2, 1, 1, 1, 1) & 1) * 16
    sums = _dot(values, by.values(blocks, 4, 2, LANES, 2)).cast(dtypes.float32)
    factors = _beside(of["scale"], 1, 1, 1) * _beside(of["factors"], 4, 2, 1)
    return sums * (factors * by.scales(blocks, 4, 2, 1))


def _q5_k_offsets(of: Fields, by: Activations) -> Tensor:
    blocks = of["scale"].shape[1]
    return _beside(of["offset"], 1) * _beside(of["offsets"], 8) * by.whole(blocks, 8)


# Blocks of 256, in sixteen parts that have factors


def _q6_k(of: Fields) -> Tensor:
    rows, blocks = of["scale"].shape
    low = of["values"].reshape(rows, blocks, 2, 1, 2, 2, 16) >> _shifts(4, 2, 1, 1, 1) & 15
    high = of["high"].reshape(rows, blocks, 2, 1, 1, 2, 16) >> _shifts(2, 2, 2, 1, 1) & 3
    values = ((low + high * 16).cast(dtypes.int8) - 32).cast(dtypes.float32)
    return _scale(of["scale"], 1, 1, 1, 1, 1) * _scale(of["factors"], 2, 2, 2, 2, 1) * values


def _q6_k_products(of: Fields, by: Activations) -> Tensor:
    blocks = of["scale"].shape[1]
    low = _fours(of["values"], 2, 1, 2, LANES, 2) >> _shifts(4, 2, 1, 1, 1, 1, 1) & 15
    high = _fours(of["high"], 2, 1, 1, LANES, 2) >> _shifts(2, 2, 2, 1, 1, 1, 1) & 3
    sums = _dot(low + high * 16, by.values(blocks, 2, 2, 2, LANES, 2), 32)
    factors = _beside(of["factors"], 2, 2, 2, 2, 1).expand(-1, -1, -1, -1, -1, -1, LANES // 2, -1).flatten(5, 6)
    scales = _beside(of["scale"], 1, 1, 1, 1) * by.scales(blocks, 2, 2, 2, 1)
    return sums.cast(dtypes.float32) * (scales * factors)


ELEMENTS: Mapping[str, Callable[[Fields], Tensor]] = {
    "Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_K": _q5_k, "Q5_K": _q5_k, "Q6_K": _q6_k,
}  # fmt: skip
PRODUCTS: Mapping[str, Callable[[Fields, Activations], Tensor]] = {
    "Q8_0": _q8_0_products, "Q4_0": _q4_0_products, "Q4_K": _q5_k_products, "Q5_K": _q5_k_products,
    "Q6_K": _q6_k_products,
}  # fmt: skip
OFFSETS: Mapping[str, Callable[[Fields, Activations], Tensor]] = {"Q4_K": _q5_k_offsets, "Q5_K": _q5_k_offsets}
