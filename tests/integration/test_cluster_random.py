"""Random clients on a cluster whose workers come and go: every tensor that is read is what it means."""

import random
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from support.clusters import F32, added, cluster, square


def hold(seed: int, steps: int, folder: Path) -> int:
    """Puts, runs, frees, reads and losses by chance; how many runs were executed again."""
    chance = random.Random(seed)
    with cluster(folder) as c, c.session() as session:
        workers = [c.joined(slots=chance.choice([1, 2])) for _ in range(2)]
        if seed % 3 == 2:  # what is made here is never lost, and is made of what may be
            c.here()
        root, live = session.define(added()), dict[int, NDArray[Any]]()
        for last in range(1, steps + 1):
            what = chance.random()
            if not live or what < 0.15:
                live[last] = square(scale=float(last))
                session.put(last, live[last], F32)
            elif what < 0.7:
                x, y = chance.choice(list(live)), chance.choice(list(live))
                live[last] = live[x] + live[y]
                freed = [h for h in live if h != last and chance.random() < 0.1]
                session.run(root, {"x": x, "y": y}, {"output": last}, freed=freed)
                for handle in freed:
                    del live[handle]
            elif what < 0.85:
                handle = chance.choice(list(live))
                assert session.get(handle).tobytes() == live[handle].tobytes()
            elif what < 0.93 and len(live) > 3:
                handle = chance.choice(list(live))
                session.free([handle])
                del live[handle]
            elif what < 0.97:
                workers.append(c.joined())
                workers.pop(0).cancel()
        for handle, value in live.items():
            assert session.get(handle).tobytes() == value.tobytes()
        [inside] = c.dispatcher.sessions.values()
        c.until(lambda: not (inside.queue or inside.again or inside.under_way))
        stats = session.stats()
        assert (stats.handles, stats.held) == (len(live), 64 * len(live))
        session.free(list(live))
        assert session.stats().held == 0
        return c.dispatcher.replays


def test_whatever_workers_do_what_is_read_is_what_it_means(tmp_path: Path) -> None:
    assert sum(hold(seed, 150, tmp_path / str(seed)) for seed in range(3)) > 0


@pytest.mark.slow
def test_whatever_workers_do_what_is_read_is_what_it_means_for_long(tmp_path: Path) -> None:
    assert sum(hold(seed, 400, tmp_path / str(seed)) for seed in range(10, 40)) > 100
