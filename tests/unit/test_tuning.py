"""What was measured is kept, found again and used; what was not is estimated, or left to the heuristic."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from math import log
from pathlib import Path

import numpy as np
import pytest

from eigentensor.errors import ConfigError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, reduction, to_body
from eigentensor.program.model import Body
from eigentensor.program.ops import Op
from eigentensor.runtime.bodies.rewriting import join
from eigentensor.runtime.build.database import Database, Time
from eigentensor.runtime.build.decide import decide, log_seconds, tuned
from eigentensor.runtime.build.model import fit
from eigentensor.runtime.build.names import body_name, structure
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.choice import candidates, choose
from eigentensor.runtime.cpu.features import FEATURES, features
from eigentensor.runtime.cpu.schedule import Schedule, Target
from eigentensor.runtime.cpu.toolchain import Toolchain
from eigentensor.runtime.gpu.grid import Grid, Many, candidate_grids, grid_features

F32, INDEX, TARGET = DType.FLOAT32, DType.INDEX, Target(16, 32)
HERE, THERE = Toolchain("one build", TARGET, ()), Toolchain("another build", TARGET, ())


def place(*terms: tuple[Axis, int]) -> Node:
    parts = [binary(Op.MUL, counter(axis), const(INDEX, stride)) for axis, stride in terms]
    return binary(Op.ADD, *parts)


def product(rows: int, columns: int, inner: int, op: Op = Op.REDUCE_MULACC) -> Body:
    i, j, k = Axis(0, rows), Axis(1, columns), Axis(2, inner, True)
    x = load(Array("x", F32, rows * inner), place((i, inner), (k, 1)))
    w = load(Array("w", F32, inner * columns), place((k, columns), (j, 1)))
    terms = (x, w) if op is Op.REDUCE_MULACC else (binary(Op.MUL, x, w),)
    return to_body(reduction(op, (k,), *terms), (i, j)).body


def split_product() -> Body:
    """A product whose first factor is found by the parts of an index that together are the index."""
    i, j, k, step = Axis(0, 64), Axis(1, 16), Axis(2, 10), Axis(3, 2, True)

    def part(op: Op, a: Node, b: int) -> Node:
        return binary(op, a, const(INDEX, b))

    row = counter(i)
    quarter = part(Op.MUL, part(Op.FLOORDIV, row, 4), 4)
    half = part(Op.MUL, part(Op.FLOORMOD, part(Op.FLOORDIV, row, 2), 2), 2)
    element = binary(Op.ADD, part(Op.MUL, counter(j), 128), part(Op.MUL, counter(step), 64))
    for term in (quarter, half, part(Op.FLOORMOD, row, 2)):
        element = binary(Op.ADD, element, term)
    own = binary(Op.ADD, part(Op.MUL, counter(k), 128), part(Op.MUL, counter(step), 64))
    x, w = load(Array("x", F32, 2048), element), load(Array("w", F32, 1280), binary(Op.ADD, own, row))
    return to_body(reduction(Op.REDUCE_MULACC, (step,), x, w), (i, j, k)).body


def test_what_a_schedule_keeps_are_values_of_the_body_that_is_written() -> None:
    body = split_product()
    kept = {s: [join(body, s.joined).instructions[v] for v in s.packed] for s in candidates(body, TARGET)}
    assert any(kept.values())
    assert all(i.op is Op.LOAD for values in kept.values() for i in values)


USUAL, OTHER = Schedule(vector=1, lanes=8), Schedule(vector=1, lanes=8, row=0, rows=4)


def times(usual: float, other: float) -> list[Time]:
    return [Time(str(USUAL), usual, 9, True), Time(str(OTHER), other, 9, False)]


@cache
def possible(body: Body) -> list[Schedule]:
    """The candidates, the heuristic's first."""
    return candidates(body, TARGET)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "times.sqlite") as opened:
        yield opened


def test_bodies_that_differ_in_extents_alone_have_one_structure_also_where_extents_are_equal() -> None:
    shapes = [(8, 9, 10), (64, 64, 64), (8, 300, 8)]
    assert len({structure(product(*shape)) for shape in shapes}) == 1
    assert len({body_name(product(*shape)) for shape in shapes}) == 3
    assert structure(product(8, 9, 10)) != structure(product(8, 9, 10, Op.REDUCE_ADD))


def test_times_come_back_the_fastest_first_and_only_where_they_hold(database: Database) -> None:
    body = product(8, 9, 10)
    database.record(HERE.platform, body, times(2e-6, 1e-6))
    assert [t.seconds for t in database.times(HERE.platform, body)] == [1e-6, 2e-6]
    assert database.times(HERE.platform, body)[1] == Time(str(USUAL), 2e-6, 9, True)
    assert database.times(THERE.platform, body) == database.times(HERE.platform, product(8, 9, 11)) == []
    assert database.count() == 2
    assert database.platforms() == {HERE.platform: 1}


def test_a_new_time_replaces_the_old_one(database: Database) -> None:
    body = product(8, 9, 10)
    for seconds in (1e-6, 3e-6):
        database.record(HERE.platform, body, times(2e-6, seconds))
    assert [t.seconds for t in database.times(HERE.platform, body)] == [2e-6, 3e-6]


def test_many_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    def write(rows: int) -> None:
        with Database(tmp_path / "times.sqlite") as own:
            for inner in range(2, 12):
                body = product(rows, 9, inner)
                own.record(HERE.platform, body, times(2e-6, 1e-6))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(2, 8)))
    with Database(tmp_path / "times.sqlite") as database:
        assert database.count() == 6 * 10 * 2
        assert len(database.measured(HERE.platform, structure(product(8, 9, 10)))) == 60


def test_a_database_of_a_later_version_is_refused_and_named(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "times.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigError, match=r"times\.sqlite was written by a later version"):
        Database(tmp_path / "times.sqlite")


def test_a_file_that_is_no_database_is_refused_for_tuning_and_ignored_for_running(tmp_path: Path) -> None:
    (tmp_path / "times.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(ConfigError, match="can be measured again"):
        try:
            Database(tmp_path / "times.sqlite")
        except ConfigError as error:
            raise ConfigError(error.fix) from None
    assert tuned(tmp_path / "times.sqlite", HERE, product(8, 9, 10)) is None


def test_a_database_that_others_could_write_is_passed_over(tmp_path: Path) -> None:
    body, path = product(8, 9, 10), tmp_path / "times.sqlite"
    with Database(path) as database:
        database.record(HERE.platform, body, times(2e-6, 1e-6))
    assert path.stat().st_mode & 0o077 == 0
    path.chmod(0o620)
    assert tuned(path, HERE, body) is None
    path.chmod(0o600)
    tuned.cache_clear()
    assert tuned(path, HERE, body) == OTHER


def test_running_makes_no_database(tmp_path: Path) -> None:
    assert tuned(tmp_path / "times.sqlite", HERE, product(8, 9, 10)) is None
    assert list(tmp_path.iterdir()) == []


def test_the_best_measured_schedule_is_chosen_unless_it_gains_next_to_nothing(database: Database) -> None:
    fast, same, slow = product(8, 9, 10), product(8, 9, 11), product(8, 9, 12)
    database.record(HERE.platform, fast, times(2e-6, 1e-6))
    database.record(HERE.platform, same, times(2e-6, 1.99e-6))
    database.record(HERE.platform, slow, times(2e-6, 3e-6))
    assert decide(database, HERE, fast) == OTHER
    assert decide(database, HERE, same) is None
    assert decide(database, HERE, slow) is None
    assert decide(database, THERE, fast) is None


def law(body: Body, schedule: Schedule) -> float:
    """Seconds by a made-up law: work, and four times as much with rows of their own."""
    rows, columns = body.output_ranges
    return 1e-9 * rows * columns * (4 if schedule.row is None else 1) + 1e-6


def learn(database: Database) -> None:
    for rows, columns in [(40, 48), (64, 96), (80, 33), (128, 64), (50, 200), (33, 70), (90, 90), (70, 150)]:
        body = product(rows, columns, 32)
        known = [Time(str(s), law(body, s), 9, not n) for n, s in enumerate(possible(body)[::3])]
        database.record(HERE.platform, body, known)


def test_a_shape_that_was_not_measured_is_estimated_from_its_neighbours_and_the_estimate_is_kept(
    database: Database,
) -> None:
    learn(database)
    body = product(77, 110, 32)
    chosen = decide(database, HERE, body) or possible(body)[0]
    assert law(body, chosen) == min(law(body, s) for s in possible(body))
    (kept,) = database.times(HERE.platform, body)
    assert kept.samples == 0
    assert (decide(database, HERE, body) or possible(body)[0]) == chosen
    count = database.count()
    near = product(76, 110, 32)
    database.record(HERE.platform, near, times(2e-6, 1e-6))  # whatever is measured of a structure ends its estimates
    assert database.times(HERE.platform, body) == []
    assert database.count() == count + 2


def test_estimates_of_unseen_shapes_follow_the_law(database: Database) -> None:
    learn(database)
    body = product(100, 120, 32)
    schedules = possible(body)
    logs, deviation = log_seconds(HERE, body, schedules, database.measured(HERE.platform, structure(body)))
    errors = np.abs(logs - [log(law(body, s)) for s in schedules])
    assert np.median(errors) < 0.1 and errors.max() < 0.5
    assert deviation < 0.2


def test_a_model_of_a_smooth_law_errs_less_than_the_nearest_row() -> None:
    random = np.random.default_rng(1)
    rows = random.uniform(0, 10, (160, 4))
    seconds = np.exp(rows @ [0.5, 0.2, -0.1, 0.0] + np.sin(rows[:, 3] / 3) - 12)
    model = fit(rows[:120], seconds[:120])
    errors = np.abs(model.log_seconds(rows[120:]) - np.log(seconds[120:]))
    distances = ((rows[120:, None] - rows[None, :120]) ** 2).sum(axis=2)
    nearest = np.abs(np.log(seconds[:120][distances.argmin(axis=1)]) - np.log(seconds[120:]))
    assert np.median(errors) < np.median(nearest) / 4
    assert errors.mean() / 3 < model.deviation < errors.mean() * 3


def test_every_candidate_has_finite_features_that_tell_it_from_others() -> None:
    body = product(53, 70, 300)
    rows = features(body, possible(body))
    assert rows.shape == (len(possible(body)), len(FEATURES))
    assert np.isfinite(rows).all()
    assert len(np.unique(rows, axis=0)) > len(rows) // 2


def test_grids_have_texts_and_features_too() -> None:
    body = product(53, 70, 320)
    grids = candidate_grids(body, Many(64, 256, 48 << 10, copies=True))
    assert any(grid.ahead for grid in grids)
    assert [Grid.parse(str(grid)) for grid in grids] == grids
    for wrong in ("", "rows=0", "rows=0 columns=1 tall=1 wide=1 high=1 broad=1 chunk=0 more=1"):
        with pytest.raises(ValueError):
            Grid.parse(wrong)
    rows = grid_features(body, grids)
    assert len(rows) == len(grids) > 1
    assert np.isfinite(rows).all()


def test_a_key_is_of_body_and_schedule_and_the_child_finds_it_without_a_database() -> None:
    body = product(8, 9, 10)
    plain = replace(toolchain.local(), schedules={})
    other = replace(plain, schedules={body_name(body): str(OTHER)})
    assert plain.key(body) != other.key(body)
    assert other.schedule(body) == OTHER
    assert plain.schedule(body) == choose(body, plain.target)
    child = Toolchain.from_json(other.settled([body, product(8, 9, 11)]).to_json())
    assert child == other
    assert child.key(body) == other.key(body)
