"""Planning: blocks found by equality, the fastest path within a tolerance, measured once; the verb that does it."""

import sqlite3
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.cache import Cache, default_folder
from eigentensor.errors import ExecutionError, ToleranceExceeded
from eigentensor.graph import Graph, GraphBuilder, arange, where
from eigentensor.graph.lower import lower
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.blocks import assembled, blocks
from eigentensor.planner.measure import Meter
from eigentensor.planner.oracle import max_relative_error, oracle
from eigentensor.planner.paths import paths
from eigentensor.planner.picture import picture
from eigentensor.planner.plan import Planner
from eigentensor.planner.sample import sample_of
from eigentensor.planner.search import Search
from eigentensor.runtime.build.database import Database
from eigentensor.runtime.cpu import toolchain
from support.programs.planned import decoder, tanh_of_a_sum


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with Database(tmp_path_factory.mktemp("times") / "times.sqlite") as opened:
        yield opened


def meter_of(database: Database) -> Meter:
    return Meter(toolchain.local(), Cache(default_folder()), database)


@pytest.mark.parametrize("layers", [2, 3, 12])
def test_blocks_of_a_decoder_are_found_whatever_their_weights_are_called(layers: int) -> None:
    graph = decoder(layers)
    partition = blocks(graph)
    assert sorted(len(block.places) for block in partition)[-1] == layers
    assert assembled(graph, [(block, block.graph) for block in partition]).roots == graph.roots


def test_parts_that_differ_in_a_number_are_not_one_block() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (4, 4))
    for number, factor in enumerate((2.0, 2.0, 3.0)):
        x = (x @ builder.weight(f"w{number}", np.eye(4, dtype=np.float32)) * factor).tanh()
    assert [len(block.places) for block in blocks(builder.graph(x))] == [2, 1]


def test_repetitions_within_repetitions_are_found() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (4, 8))
    for number in range(12):
        w, v = (builder.weight(f"{number}.{name}", np.eye(8, dtype=np.float32)) for name in "wv")
        x = x + (x @ w).tanh() @ v * (3.0 if number % 4 == 3 else 2.0)
    graph = builder.graph(x)
    partition = blocks(graph)
    assert sorted(len(block.places) for block in partition) == [3, 9]
    assert assembled(graph, [(block, block.graph) for block in partition]).roots == graph.roots


def test_a_graph_without_repetition_is_one_block() -> None:
    (block,) = blocks(tanh_of_a_sum())
    assert len(block.places) == 1


def test_a_weight_without_data_at_one_place_is_data_of_no_block() -> None:
    graph = decoder(3)
    some = {name: array for name, array in graph.data.items() if name != "2.up"}
    (block, *_) = sorted(blocks(Graph(graph.outputs, data=some)), key=lambda block: -len(block.places))
    shapes = [array.shape for array in block.graph.data.values()]
    assert (32, 128) not in shapes and len(shapes) == 5


def cached_attention(layers: int) -> Graph:
    """A step of a decoder whose caches are states, at a position that is a variable; it counts its steps."""
    builder, random = GraphBuilder(), np.random.default_rng(0)
    position = builder.variable("position", 0, 7)
    x, before = builder.input("x", (1, 8)), arange(8).reshape(8, 1)
    for layer in range(layers):
        cache = builder.state(f"{layer}.cache", np.zeros((8, 8), np.float32))
        weight = builder.weight(f"{layer}.w", random.standard_normal((8, 8)).astype(np.float32))
        kept = where(before == position, x @ weight, cache)
        builder.assign(f"{layer}.cache", kept)
        scores = where(before.reshape(1, 8) <= position, x @ kept.T, -1e9)
        x = x + scores.softmax() @ kept
    steps = builder.state("steps", np.zeros(1, np.int32))
    builder.assign("steps", steps + 1)
    return builder.graph(x, builder.input("untouched", (2,)))


def test_a_graph_with_states_and_variables_is_planned(database: Database) -> None:
    graph = cached_attention(2)
    assert max(len(block.places) for block in blocks(graph)) == 2
    plan = Planner(graph, meter_of(database), most=1).plan()
    assert set(plan.chosen.made.program.new_states) == {"0.cache", "1.cache", "steps"}
    assert plan.chosen.error <= 1e-5
    assert [v.name for v in plan.chosen.made.program.variables] == ["position"]


@pytest.mark.slow
def test_twenty_four_layers_are_planned_as_two_are(database: Database) -> None:
    plans = [Planner(decoder(layers), meter_of(database), most=6) for layers in (2, 24)]
    searches = [[(block.graph.roots, search) for block, search in plan.searches()] for plan in plans]
    assert [roots for roots, _ in searches[0]] == [roots for roots, _ in searches[1]]
    (few, many) = ([len(search.candidates) for _, search in pairs] for pairs in searches)
    assert few == many
    assert plans[1].meter.bodies_measured <= plans[0].meter.bodies_measured


def test_the_chosen_program_is_within_the_tolerance_and_is_what_the_reference_computes(database: Database) -> None:
    graph = tanh_of_a_sum()
    plan = Planner(graph, meter_of(database), most=8).plan()
    (part,) = plan.parts
    assert len(part.search.candidates) == 8
    sample = sample_of(graph)
    outputs = reference.execute(plan.chosen.made.program, sample.tensors).outputs
    (exact,) = oracle(graph, sample.tensors)
    assert max_relative_error(DType.FLOAT32, outputs["output"], exact) == plan.chosen.error <= 1e-5
    assert plan.chosen.cost.measured and plan.chosen.cost.seconds <= plan.original.cost.seconds


def product() -> Graph:
    builder, random = GraphBuilder(), np.random.default_rng(0)
    weight = builder.weight("w", random.standard_normal((64, 32)).astype(np.float32))
    return builder.graph(builder.input("x", (32, 64)) @ weight)


def test_a_narrow_tolerance_excludes_halves_and_a_wide_one_does_not(database: Database) -> None:
    graph, meter = product(), meter_of(database)
    for tolerance, refused in ((1e-5, True), (0.1, False)):
        search = Search(graph, meter, sample_of(graph), tolerance, most=6)
        search.run_all()
        halves = [c for c in search.candidates if any("float16" in rule for rule in c.path.rules)]
        assert halves and all(bool(c.verdict) is refused for c in halves)
        assert (next(search.ranked()) in halves) <= (not refused)
        assert all(c.cost.measured and c.error is not None for c in search.candidates)


def test_nothing_is_measured_twice_and_what_was_measured_before_an_interruption_is_kept(database: Database) -> None:
    graph = Graph({"out": tanh_of_a_sum(16, 48).outputs["output"]})
    first, second, third = (meter_of(database) for _ in range(3))

    def interrupt(text: str, done: float, total: float) -> None:
        if text.endswith("looking at paths"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Planner(graph, first, most=3).plan(progress=interrupt)
    plan = Planner(graph, second, most=3).plan()
    again = Planner(graph, third, most=3).plan()
    assert (first.bodies_measured, third.bodies_measured) == (1, 0)
    assert again.chosen.made.uuid == plan.chosen.made.uuid


def test_a_path_that_cannot_be_executed_here_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    graph, here, cache = tanh_of_a_sum(8, 8), toolchain.local(), Cache(tmp_path / "kernels")
    with Database(tmp_path / "times.sqlite") as database:
        Planner(graph, Meter(here, cache, database), most=1).plan()
        broken = replace(here, command=("false",))
        plan = Planner(graph, Meter(broken, cache, database), most=4).plan()
        (part,) = plan.parts
        first, *others = part.search.candidates
        assert part.chosen is first and plan.chosen is plan.original
        assert "refused: it cannot be executed here" in {c.verdict for c in others}
        assert {c.verdict for c in others} <= {"refused: it cannot be executed here", ""}
        with pytest.raises(ExecutionError, match="clang ended"):
            Planner(tanh_of_a_sum(8, 9), Meter(broken, cache, database), most=1).plan()


def test_no_path_is_exact_and_the_error_says_how_far_the_best_is(database: Database) -> None:
    with pytest.raises(ToleranceExceeded, match="the best errs by"):
        Planner(tanh_of_a_sum(), meter_of(database), tolerance=0, most=3).plan()


def test_what_is_chosen_for_a_block_goes_to_all_its_places() -> None:
    graph = decoder(3)
    partition = blocks(graph)
    rounded = next(p for p in paths(partition[0].graph, 60) if p.rules == ("weight in float16",))
    whole = assembled(graph, [(partition[0], rounded.graph), *((b, b.graph) for b in partition[1:])])
    halves = [name for name in lower(whole).weights if name.endswith(".float16")]
    assert len(halves) == 3 and len({name.split(".")[1] for name in halves}) == 1


def test_transfers_and_errors_are_rows(tmp_path: Path) -> None:
    here = toolchain.local().platform
    with Database(tmp_path / "times.sqlite") as database:
        assert database.transfer(here, "out", 4096) is None
        database.record_transfer(here, "out", 4096, 1e-6, 5)
        database.record_error("program", "sample", 1e-7)
        meter_of(database).cost(lower(tanh_of_a_sum()).program)
    with Database(tmp_path / "times.sqlite") as database:
        assert database.transfer(here, "out", 4096) == 1e-6
        assert database.error("program", "sample") == 1e-7
        assert database.error("program", "another") is None
        assert database.transfer(here, "in", 4096) is not None


def test_a_database_of_the_first_version_is_used_on(tmp_path: Path) -> None:
    path = tmp_path / "times.sqlite"
    with Database(path) as database:
        database._connection.executescript("DROP TABLE transfers; DROP TABLE errors; PRAGMA user_version = 1")
    with Database(path) as database:
        assert database.error("program", "sample") is None
    with sqlite3.connect(path) as plain:
        assert plain.execute("PRAGMA user_version").fetchone() == (2,)
    plain.close()


def test_the_picture_shows_every_call_with_its_time(database: Database) -> None:
    made = lower(decoder(1))
    drawn = picture(made.program, meter_of(database).cost(made.program), "a <decoder>")
    texts = [element.text for element in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "a <decoder>"
    assert sum("µs" in (text or "") for text in texts[2:]) == len(made.program.calls)
