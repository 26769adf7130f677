"""What hashing leaves on the device would take, beside copying them to the host and hashing them there.

The kernel is the plain one: a work item hashes a leaf, 17 blocks of SHA-256 one after the other.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from math import isqrt

import numpy as np

from eigentensor import merkle
from eigentensor.leaves import LEAF
from eigentensor.runtime import devices
from eigentensor.runtime.gpu.gridded import HERE, Gridded, Launch
from eigentensor.runtime.gpu.simt import NAME
from support.bench.pairs import in_turn

ITEMS = 128  #: leaves of a group
HASH = 32
MASK = 0xFFFFFFFF
WORDS = LEAF // 4


def measured(device: str, size: int) -> dict[str, float]:
    """Milliseconds for so many bytes, a multiple of `ITEMS` leaves. Raises ValueError if hashes are wrong."""
    build = devices.of(device)
    assert isinstance(build, Gridded)
    queue = build.queue()
    data = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    hashes = np.empty(size // LEAF * HASH, np.uint8)
    source, target = queue.allocate(size), queue.allocate(hashes.nbytes)
    queue.write(source, data)
    kernel = queue.kernel(build.compile((HERE / build.header).read_text() + text()))
    launch = queue.launcher([Launch(kernel, (target, source), (), size // LEAF // ITEMS, ITEMS)])
    back = np.empty_like(data)

    def here() -> None:
        launch()
        queue.wait()

    here()
    queue.read(target, hashes)
    if hashes.tobytes() != b"".join(merkle.leaf_hashes(data)):
        raise ValueError(f"{device} hashes wrongly")
    ways: dict[str, Callable[[], object]] = {
        "hashed here": here,
        "copied to the host": partial(queue.read, source, back),
        "hashed there": partial(merkle.leaf_hashes, data),
    }
    return {name: seconds * 1e3 for name, seconds in in_turn(ways, rounds=7).items()}


def text() -> str:
    """The kernel: sha256 of a byte 0 and a leaf, for each leaf."""
    lines = [
        "FN u32 turned(u32 x, i32 n) { return x >> n | x << (32 - n); }",
        "FN u32 swapped(u32 x) { return (turned(x, 8) & 0xFF00FF00u) | (turned(x, 24) & 0x00FF00FFu); }",
        f"KERNEL({ITEMS}) void {NAME}(GLOBAL u32 *restrict hashes, GLOBAL const u32 *restrict data) {{",
        f"const i64 leaf = GROUP * {ITEMS} + ITEM;",
        f"GLOBAL const u32 *const words = data + leaf * {WORDS};",
        "u32 before = 0, word;",
        *(f"u32 w{n}, s{n} = {_roots(2)[n]}u;" for n in range(8)),
        *(f"u32 w{n};" for n in range(8, 16)),
        "for (i32 block = 0; block < 17; block++) {",
        "if (block < 16) {",
        *(line for n in range(16) for line in (
            f"word = swapped(words[block * 16 + {n}]);", f"w{n} = before << 24 | word >> 8;", "before = word;",
        )),
        "} else {",
        f"w0 = before << 24 | 0x800000u; w15 = {8 * (LEAF + 1)}u;",
        *(f"w{n} = 0;" for n in range(1, 15)),
        "}",
        *_rounds(),
        "}",
        *(f"hashes[leaf * 8 + {n}] = swapped(s{n});" for n in range(8)),
        "}",
    ]  # fmt: skip
    return "\n".join([*lines, ""])


def _rounds() -> Iterator[str]:
    """A block, which lies in w0 to w15: a round changes two of the eight letters, and all move on by one."""
    letters = "abcdefgh"
    yield from (f"u32 {letter} = s{n};" for n, letter in enumerate(letters))
    for t, constant in enumerate(_roots(3)):
        if t >= 16:
            near, far = f"w{(t + 1) % 16}", f"w{(t + 14) % 16}"
            yield (
                f"w{t % 16} += (turned({near}, 7) ^ turned({near}, 18) ^ {near} >> 3) + w{(t + 9) % 16}"
                f" + (turned({far}, 17) ^ turned({far}, 19) ^ {far} >> 10);"
            )
        a, b, c, d, e, f, g, h = (letters[(n - t) % 8] for n in range(8))
        yield (
            f"{h} += (turned({e}, 6) ^ turned({e}, 11) ^ turned({e}, 25)) + ({g} ^ ({e} & ({f} ^ {g})))"
            f" + {constant}u + w{t % 16}; {d} += {h};"
        )
        yield (f"{h} += (turned({a}, 2) ^ turned({a}, 13) ^ turned({a}, 22)) + (({a} & {b}) | ({c} & ({a} | {b})));")
    yield from (f"s{n} += {letter};" for n, letter in enumerate(letters))


def _roots(degree: int) -> list[int]:
    """The first 32 bits behind the point of the square or cube roots of the first 8 or 64 primes."""
    primes = (p for p in count(2) if all(p % q for q in range(2, isqrt(p) + 1)))
    if degree == 2:
        return [isqrt(p << 64) & MASK for p in islice(primes, 8)]
    return [_cube_root(p << 96) & MASK for p in islice(primes, 64)]


def _cube_root(n: int) -> int:
    low, high = 0, 1 << (n.bit_length() // 3 + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 <= n else (low, middle)
    return low
