"""How fast blobs travel through a gateway whose blobs lie in an S3, verified on both sides, over loopback.

    scripts/bench blobs

Beside it stands what the same S3 gives alone, by s3fs: where that is slower than the goal, the S3 is the limit; then
what of its rate is left through the gateway says what that costs, and what a second of the gateway's processor brings
what it would do before a faster one.
"""

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import fsspec
import numpy as np

from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.folder import PART
from eigentensor_local.anvil import local_network
from support.bench.rest import BLOB, MEMORY, ROUNDS, gateway_blobs, process, report, serve_blobs
from support.services import access, s3_server

GOAL, LEFT = 200e6, 0.5
BUCKET = "s3://bench/blobs"


def alone(folder: Path) -> list[float]:
    """The S3 by its client alone: bytes a second up and down, the best of some rounds."""
    files, root = fsspec.core.url_to_fs("s3://bench/alone")
    files.makedirs(root, exist_ok=True)
    source, target = folder / "source", folder / "target"
    source.write_bytes(np.random.default_rng(3).bytes(BLOB))
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        files.put_file(str(source), f"{root}/x", chunksize=PART, max_concurrency=4)
        middle = time.perf_counter()
        files.get_file(f"{root}/x", str(target))
        taken.append((middle - start, time.perf_counter() - middle))
    rates = [BLOB / min(seconds) for seconds in zip(*taken, strict=True)]
    for name, rate in zip(("up", "down"), rates, strict=True):
        report(f"the S3 alone, {name}", f"{rate / 1e6:5.0f} MB/s", rate >= GOAL, f"{GOAL / 1e6:.0f} MB/s")
    return rates


def main() -> None:
    sys.stdout.write(f"{'':44} {'a second':>10} {'gateway':>10}\n")
    with ExitStack() as stack:
        os.environ.update(access(stack.enter_context(s3_server())))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-blobs-", dir=MEMORY)))
        own = alone(folder)
        _, network = stack.enter_context(local_network([]))
        path = network.save(folder / "network.json")
        settings = Settings(network=str(path), data=folder / "gateway", blobs=BUCKET, scrub_days=0)
        port, _, server = stack.enter_context(process(serve_blobs, settings))
        for name, ours, rate in zip(("up", "down"), gateway_blobs(port, folder, server, GOAL), own, strict=True):
            report(f"of the S3's own rate, {name}", f"{ours / rate:5.2f}", ours >= LEFT * rate, f"{LEFT}")


if __name__ == "__main__":
    main()
