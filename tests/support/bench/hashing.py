"""How fast trees are hashed: GB/s of the root of a tensor, beside one stream of OpenSSL over the same bytes.

Each way takes its turn in every round: other work on the machine disturbs all of them, and the best round least.
"""

import sys
import time
from collections.abc import Callable
from hashlib import sha256
from statistics import median
from unittest.mock import patch

import numpy as np

from eigentensor import hashing, merkle
from eigentensor.cache import Cache, default_folder
from eigentensor.hashing import Helper, Kind
from eigentensor.numerics.dtypes import DType

BYTES = 16 << 20
ROUNDS = 25


def ways(data: np.ndarray) -> dict[str, Callable[[], bytes]]:
    """What is timed by name; all but the last give the same root."""

    def root() -> bytes:
        return merkle.tensor_root(DType.FLOAT32, data)

    def by(digests: Callable[..., bytes]) -> Callable[[], bytes]:
        def run() -> bytes:
            with patch.object(merkle, "digests", digests):
                return root()

        return run

    library, chosen = hashing.load(Cache(default_folder())), hashing.chosen().helper
    assert chosen is not None
    hashers = {"hashlib, leaf by leaf": by(hashing.by_hashlib)}
    for kind in Kind:
        if library.supports(kind):
            hashers[f"helper, {kind.name.lower()}, 1 thread"] = by(Helper(library, kind, 1))
    hashers[f"helper as chosen, {chosen.kind.name.lower()}, {chosen.threads} threads"] = root
    return hashers | {"OpenSSL, one stream": lambda: sha256(data.data).digest()}


def main() -> None:
    data = np.random.default_rng(1).integers(0, 256, BYTES, np.uint8).view(np.float32)
    timed = ways(data)
    roots = [run() for run in timed.values()]
    assert len(set(roots[:-1])) == 1
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(ROUNDS):
        for name, run in timed.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    sys.stdout.write(f"{'GB/s':40} {'median':>6} {'best':>6}   {BYTES >> 20} MiB, {ROUNDS} rounds\n")
    for name, taken in seconds.items():
        sys.stdout.write(f"{name:40} {BYTES / median(taken) / 1e9:6.2f} {BYTES / min(taken) / 1e9:6.2f}\n")


if __name__ == "__main__":
    main()
