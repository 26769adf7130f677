"""Images as squares of pixels, each of which becomes a vector: where encoders of images begin."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from tinygrad import Tensor

from eigentensor_models.options import Options

LARGEST = 1 << 14  #: pixels along a side


@dataclass(frozen=True, slots=True)
class Squares:
    """Square images, cut into squares from the left to the right, then down."""

    size: int
    square: int
    channels: int

    @property
    def count(self) -> int:
        """How many there are."""
        return (self.size // self.square) ** 2

    def shape(self, width: int) -> tuple[int, ...]:
        """Of what makes vectors of them."""
        return width, self.channels, self.square, self.square

    def inputs(self, rows: int) -> dict[str, Any]:
        """Images as transformers' processors make them."""
        return {"pixel_values": np.zeros((rows, self.channels, self.size, self.size), np.float32)}

    def vectors(self, pixels: Tensor, weight: Tensor) -> Tensor:
        """(rows, channels, size, size) → (rows, count, width)."""
        rows, side = pixels.shape[0], self.size // self.square
        cut = pixels.reshape(rows, self.channels, side, self.square, side, self.square).permute(0, 2, 4, 1, 3, 5)
        return cut.reshape(rows, self.count, -1) @ weight.flatten(1).transpose()


def read_squares(options: Options, square: int) -> Squares:
    """What a configuration says of images. Raises ConfigError."""
    size, square = options.whole("image_size", 224), options.whole("patch_size", square)
    channels = options.whole("num_channels", 3)
    if size % square or size > LARGEST or channels > LARGEST:
        raise options.wrong(f"images of {size} pixels cannot be cut into squares of {square}", "Look at image_size.")
    return Squares(size, square, channels)
