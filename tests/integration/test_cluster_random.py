"""Random clients on a cluster whose workers come and go, or have several slots: every tensor that is read is what it
means, and what one slot makes of it."""

import random
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentensor import merkle
from eigentensor.errors import ExecutionError
from eigentensor.graph import GraphBuilder
from eigentensor.program.codec import encode
from eigentensor_cluster.engine.inprocess import InProcess
from support.clusters import F32, Failing, Held, added, cluster, square


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


def results(seed: int, runs: int, slots: int, folder: Path) -> list[bytes]:
    """What runs that depend on each other by chance give, some of which fail: the elements, or the error."""
    chance, builder = random.Random(seed), GraphBuilder()
    broken = builder.compile(builder.input("x", (4, 4)) - builder.input("y", (4, 4))).program
    programs = Failing(merkle.program_root(encode(broken)), slots=slots)
    with cluster(folder) as c, c.session() as session:
        c.takes(InProcess(programs, slots, "here", socket.gethostname()))
        right, wrong = session.define(added()), session.define(broken)
        live = [1, 2, 3, 4]
        for handle in live:
            session.put(handle, square(scale=float(handle)), F32)
        for last in range(5, runs + 5):
            x, y = chance.choice(live), chance.choice(live)
            root = wrong if chance.random() < 0.04 else right
            freed = [live.pop(0)] if chance.random() < 0.3 and len(live) > 12 else []
            session.run(root, {"x": x, "y": y}, {"output": last}, freed=freed)
            live.append(last)
        made = []
        for handle in live:
            try:
                made.append(session.get(handle).tobytes())
            except ExecutionError as error:
                made.append(str(error).encode())
        return made


@pytest.mark.parametrize("seed", range(3))
def test_several_slots_make_what_one_makes_and_name_the_same_errors(seed: int, tmp_path: Path) -> None:
    one = results(seed, 60, 1, tmp_path / "one")
    assert results(seed, 60, 3, tmp_path / "several") == one
    assert b"this one fails" in one and len(set(one)) > 5


def test_what_depends_on_nothing_unfinished_is_executed_beside_what_was_asked_before(tmp_path: Path) -> None:
    held, free = added(4), added(5)
    with cluster(tmp_path) as c, c.session() as session:
        programs = Held(merkle.program_root(encode(held)), slots=2)
        c.takes(InProcess(programs, 2, "here", socket.gethostname()))
        first, second = session.define(held), session.define(free)
        session.put(1, square(4), F32)
        session.put(2, square(5), F32)
        for handle in (3, 5):
            session.run(first, {"x": 1 if handle == 3 else 3, "y": 1}, {"output": handle})
            session.run(second, {"x": 2 if handle == 3 else 4, "y": 2}, {"output": handle + 1})
        assert np.array_equal(session.get(6), square(5) * 3)  # while the first run waits, and the third for it
        programs.may.set()
        assert np.array_equal(session.get(5), square(4) * 3)
