"""A function's result from an idle local network: how many blocks a call takes, and where they go.

    scripts/bench remote [SECONDS]     of a block, 1 unless given

`f.remote(x)` with `wait="result"`, after a first call that uploads program and weights. The market's rules take four
blocks and the rest of one: post, accept, commit, the block that draws, and the one after, in which the draw is known
and the result is revealed. A call that is drawn for a check waits for those who check it: it is shown, and not counted.
"""

import os
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from tinygrad import Tensor

import eigentensor as et
from eigentensor_client.client import Client
from eigentensor_local.devnet import devnet
from support.bench.goals import Goal, judge
from support.bench.pairs import say

CALLS = 7
GOAL = Goal(3, least=False, unit=" blocks")
WEIGHT = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3), device="CPU")


@et.function(max_price="0.05", wait="result", timeout=240, exec=60, accept_within=100)
def scores(x: Tensor) -> Tensor:
    return x @ WEIGHT


def call(client: Client, seed: int) -> tuple[float, dict[str, int]]:
    """Seconds that a call takes; the blocks of its events, counted from its post."""
    x = Tensor(np.random.default_rng(seed).standard_normal((2, 4), dtype=np.float32), device="CPU")
    began = time.monotonic()
    y: Any = scores.remote(x)
    seconds = time.monotonic() - began
    events = client.task(y.result.uuid).events
    first = events[0].place.block
    return seconds, {type(event).__name__.lower(): event.place.block - first for event in events}


def main() -> None:
    block = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    with TemporaryDirectory(prefix="eigentensor-") as folder:
        os.environ |= {f"XDG_{word}_HOME": str(Path(folder) / word.lower()) for word in ("STATE", "DATA", "CONFIG")}
        with devnet(3, block_time=block) as net, Client(net.network) as client:
            scores.remote(Tensor(np.ones((2, 4), np.float32), device="CPU"))
            seconds = []
            for seed in range(CALLS):
                took, blocks = call(client, seed)
                seconds += [] if "answered" in blocks else [took]
                where = ", ".join(f"{word} {number}" for word, number in blocks.items())
                say(f"{took:.2f} s; blocks from the post: {where}")
    judge([("f.remote, wait=result, in the median", median(seconds) / block, GOAL)])


if __name__ == "__main__":
    main()
