"""Random numbers as integer arithmetic: Threefry-2x32 with 20 rounds (Salmon et al.: Parallel random numbers: as easy
as 1, 2, 3; 2011) of the numbers of element and draw, under the seed. So each element is computed anywhere, alone.

A seed is a uint32 tensor of shape (2,), its low half first; `drawn`, of shape (), says how often was drawn from it.
"""

from math import pi, prod

from eigentensor.graph.creation import arange
from eigentensor.graph.node import Shape
from eigentensor.graph.tensor import Tensor
from eigentensor.numerics.dtypes import DType

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS = 20
BITS = 24  #: of a uniform number


def threefry(key: tuple[Tensor, Tensor], counter: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Two random words for each counter of two; all are uint32 tensors that broadcast."""
    keys = (*key, key[0] ^ key[1] ^ PARITY)
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for number in range(ROUNDS):
        distance = ROTATIONS[number % 8]
        a = a + b
        b = ((b << distance) | (b >> 32 - distance)) ^ a
        if number % 4 == 3:
            turn = number // 4 + 1
            a, b = a + keys[turn % 3], b + keys[(turn + 1) % 3] + turn
    return a, b


def words(shape: Shape, seed: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    """Two random words for each element of a shape."""
    numbers = arange(prod(shape)).astype(DType.UINT32)
    first, second = threefry((seed[0], seed[1]), (numbers, drawn.broadcast_to(numbers.shape)))
    return first.reshape(shape), second.reshape(shape)


def _fraction(word: Tensor) -> Tensor:
    """A float32 in [0, 1) of the word's upper bits."""
    return (word >> 32 - BITS).astype(DType.FLOAT32) * 2.0**-BITS


def uniform(shape: Shape, seed: Tensor, drawn: Tensor) -> Tensor:
    """float32 numbers from 0 up to, and without, 1: multiples of 2⁻²⁴."""
    return _fraction(words(shape, seed, drawn)[0])


def normal(shape: Shape, seed: Tensor, drawn: Tensor) -> Tensor:
    """float32 numbers of the standard normal distribution, by Box and Muller's formula."""
    first, second = words(shape, seed, drawn)
    radius = (_fraction(first) + 2.0**-BITS).log() * -2.0
    return radius.sqrt() * (_fraction(second) * (2 * pi)).cos()
