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


#: The likeliest token counts so much in the sums of probabilities, which are exact.
UNIT = 1 << 24
BITS = 3  #: of a limit that one look at all tokens finds
LANES = 16  #: amounts are added in so many sums, each of its own tokens: integers, exact in any order


def nearest(distance: Tensor, amounts: Tensor, enough: Tensor) -> Tensor:
    """Which tokens (n,) are among the nearest that amount to `enough` together, all that are as near as the last one
    included: those for which what is nearer amounts to less. Distances are not negative, amounts are integers."""
    bits = distance.bitcast(dtypes.uint32)  # in the order of the distances, the first one 0
    more = (0, -distance.shape[0] % LANES)
    lanes, amounts = (t.pad((more,)).reshape(1, -1, LANES) for t in (bits, amounts))
    limit = Tensor([0], dtype=dtypes.uint32)
    for above in range(31, 0, -BITS):
        shift = max(0, above - BITS)
        steps = Tensor([n << shift for n in range(1, 1 << above - shift)], dtype=dtypes.uint32)
        nearer = (lanes < (limit + steps).reshape(-1, 1, 1)).where(amounts, 0).sum(1).contiguous().sum(1)
        limit = (limit + (nearer < enough).sum().cast(dtypes.uint32) * steps[:1]).contiguous()
    return bits <= limit


def allowed(scores: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Which tokens may be drawn: the `top_k` best, or all if that is 0; and of these the fewest, best first, that have
    `top_p` of their probability. Equal scores are in or out together."""
    distance = (scores.max().contiguous() - scores).contiguous()
    best = (top_k < 1) | nearest(distance, Tensor.ones(scores.shape[0], dtype=dtypes.int32), top_k)
    likely = (distance / temperature.maximum(1e-6) * -1).exp() * UNIT
    shares = best.where(likely.cast(dtypes.int32), 0).contiguous().cast(dtypes.int64)
    wanted = top_p * shares.sum().cast(dtypes.float32)
    enough = wanted.ceil().cast(dtypes.int64).contiguous()
    return best & ((top_p >= 1) | nearest(distance, shares, enough))


def sampled(
    scores: Tensor,
    temperature: Tensor,
    margin: Tensor,
    seed: Tensor,
    position: Tensor,
    among: Tensor | None = None,
) -> Tensor:
    """A token (1,) drawn with probabilities softmax(scores / temperature), the best one if the temperature is zero.

    Only tokens whose score is at most `margin` below the best are drawn, and only those `among` which there is a
    choice. The largest of the scores with independent Gumbel noise is such a draw; the noise of a token is a function
    of `seed`, two words, of its number and `position`.
    """
    number = Tensor.arange(scores.shape[0], dtype=dtypes.uint32)
    uniform = ((threefry(seed, position, number) >> 9).cast(dtypes.float32) + 0.5) * 2**-23
    noisy = scores - temperature * (-uniform.log()).log()
    best = scores.max().contiguous()  # once, not for each score
    choice = best - scores <= margin
    choice = choice if among is None else choice & among
    return choice.where(noisy, -math.inf).argmax().contiguous().reshape(1).cast(dtypes.int32)
