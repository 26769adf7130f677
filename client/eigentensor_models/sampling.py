"""Drawing a token from scores, with random numbers that are computed: the same token on every device."""

import math

from tinygrad import Tensor, dtypes

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(key: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The first of the two words of Threefry-2x32 with 20 rounds (Salmon et al., SC 2011) of a counter of two words."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = first + keys[0], second + keys[1]
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            a = a + b
            b = a ^ ((b << distance) | (b >> (32 - distance)))
        a, b = a + keys[(group + 1) % 3], b + keys[(group + 2) % 3] + (group + 1)
    return a


def sampled(scores: Tensor, temperature: Tensor, margin: Tensor, seed: Tensor, position: Tensor) -> Tensor:
    """A token (1,) drawn with probabilities softmax(scores / temperature), the best one if the temperature is zero.

    Only tokens whose score is at most `margin` below the best are drawn. The largest of the scores with independent
    Gumbel noise is such a draw; the noise of a token is a function of `seed`, two words, of its number and `position`.
    """
    number = Tensor.arange(scores.shape[0], dtype=dtypes.uint32)
    uniform = ((threefry(seed, position, number) >> 9).cast(dtypes.float32) + 0.5) * 2**-23
    noisy = scores - temperature * (-uniform.log()).log()
    best = scores.max().contiguous()  # once, not for each score
    return (best - scores <= margin).where(noisy, -math.inf).argmax().contiguous().reshape(1).cast(dtypes.int32)
