"""Programs on several workers: the bits of the reference, whatever is where, and nothing read that was not sent."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from random import Random
from threading import active_count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import reference
from eigentensor.errors import BindingError, ExecutionError, LimitError
from eigentensor.program import Program, Results, Role
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.sharded import Sharded
from eigentensor.runtime.sharded.mail import Mail, MailClosed
from eigentensor.sharding.layout import Layout, axes_of
from eigentensor.sharding.signals import Hint
from support.generated.programs import generate
from support.programs import sharded
from support.programs.placements import PLACES, Hints, along, found, in_stages
from support.programs.reruns import same
from support.programs.sharded import SMALL, poison, tensors


def expected(name: str) -> Results:
    return reference.execute(sharded.captured(name).program, tensors(name))


@pytest.mark.parametrize("name", ["mlp step", "transformer layer"])
@pytest.mark.parametrize("place", PLACES)
def test_any_placement_has_the_bits_of_the_reference(name: str, place: str) -> None:
    program, results = sharded.captured(name).program, expected(name)
    for workers in (2, 3, 4):
        runs = Sharded(program, workers=workers, hints=PLACES[place](program, workers), device="PYTHON")
        assert same(poison(runs).run(tensors(name)), results)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("place", PLACES)
def test_any_placement_of_any_network_has_the_bits_of_the_reference(name: str, place: str) -> None:
    program, results = sharded.captured(name).program, expected(name)
    for workers in (1, 2, 3, 4, 5):
        runs = Sharded(program, workers=workers, hints=PLACES[place](program, workers), device="PYTHON")
        for seed in range(2):
            assert same(poison(runs, seed).run(tensors(name)), results)


def test_kernels_of_boxes_have_the_bits_of_a_run_on_one_device() -> None:
    program = sharded.captured("mlp step").program
    assert same(
        poison(Sharded(program, workers=3)).run(tensors("mlp step")), CompiledGraph(program).run(tensors("mlp step"))
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_kernels_of_boxes_of_any_network_have_the_bits_of_a_run_on_one_device(name: str) -> None:
    program = sharded.captured(name).program
    results = CompiledGraph(program).run(tensors(name))
    for workers, place in ((2, "found"), (3, "along the batch"), (4, "along features or channels")):
        runs = Sharded(program, workers=workers, hints=PLACES[place](program, workers), threads=2)
        assert same(poison(runs).run(tensors(name)), results)


def any_hints(random: Random, program: Program, workers: int) -> Hints:
    """For each call one or none."""

    def hint() -> Hint | None:
        chosen = tuple(random.sample(range(workers), random.randint(1, workers)))
        return random.choice((None, Hint(random.choice((0, 1, -1)), chosen, random.random() < 0.3)))

    return random.choice(([], [hint() for _ in program.calls]))


def any_layouts(random: Random, program: Program, workers: int) -> dict[str, Layout]:
    """Some tensors lie cut along their first axis already, or whole on the last worker."""
    layouts: dict[str, Layout] = {}
    for number, b in enumerate(program.buffers):
        shape, nothing = axes_of(program)[number], (None,) * (workers - 1)
        if b.name and b.elements and random.random() < 0.5:
            rest = tuple((0, extent - 1) for extent in shape[1:])
            ends = [n * shape[0] // workers for n in range(workers + 1)]
            parts = tuple(((a, e - 1), *rest) if e > a else None for a, e in pairwise(ends))
            layouts[b.name] = random.choice((parts, (*nothing, ((0, shape[0] - 1), *rest))))
    return layouts


@settings(max_examples=25)
@given(st.integers(0, 1 << 32))
def test_generated_programs_have_the_bits_of_the_reference_wherever_all_of_it_is(seed: int) -> None:
    check_generated(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1_000, 200))
def test_a_thousand_generated_programs_have_the_bits_of_the_reference_wherever_all_of_it_is(first: int) -> None:
    for seed in range(first, first + 200):
        check_generated(seed)


def check_generated(seed: int) -> None:
    random, example = Random(seed), generate(seed)
    program, workers = example.program, random.randint(1, 4)
    hints, layouts = any_hints(random, program, workers), any_layouts(random, program, workers)
    runs = poison(Sharded(program, workers=workers, hints=hints, layouts=layouts, device="PYTHON"), seed)
    results = runs.run(example.tensors, example.variables, example.repeat)
    assert same(results, reference.execute(program, example.tensors, example.variables, example.repeat))


def test_seven_rows_lie_on_three_workers() -> None:
    network = sharded.Network(lambda: sharded.Mlp(12, 16, 6), (7, 12))
    graph = network.captured()
    runs = Sharded(graph.program, graph.weights, workers=3, hints=along(0)(graph.program, 3), device="PYTHON")
    rows = [
        next(p.box[0] for p in worker.pieces if p.buffer >= len(graph.program.buffers)) for worker in runs.plan.workers
    ]
    assert rows == [(0, 1), (2, 3), (4, 6)]
    results = reference.execute(graph.program, {"x": network.input, **graph.weights})
    assert same(poison(runs).run({"x": network.input}), results)


def test_states_go_on_from_iteration_to_iteration() -> None:
    program, given = replace(sharded.captured("mlp step").program, max_repeat=4), tensors("mlp step")
    results = reference.execute(program, given, repeat=4)
    bound = {name: array for name, array in given.items() if name != "x"}
    for place in (found, along(-1), in_stages):
        runs = Sharded(program, bound, workers=3, hints=place(program, 3), device="PYTHON")
        for _ in range(2):
            assert same(poison(runs).run({"x": given["x"]}, repeat=4), results)


def test_programs_take_turns_on_threads_and_never_wait_for_each_other() -> None:
    network = sharded.Network(lambda: sharded.Mlp(12, 16, 6), (7, 12))
    graph = network.captured()
    every = [Sharded(graph.program, graph.weights, workers=3, device="PYTHON") for _ in range(6)]
    with ThreadPoolExecutor(6) as several:
        first, *others = several.map(lambda runs: runs.run({"x": network.input}), every)
    threads = active_count()
    for runs in every:
        assert same(runs.run({"x": network.input}), first)
    assert active_count() == threads and all(same(other, first) for other in others)


def fail(*_: Any) -> None:
    raise ExecutionError("the device is gone")


def test_kept_states_go_on_from_run_to_run_and_are_lost_with_a_run_that_fails() -> None:
    program, given = replace(sharded.captured("mlp step").program, max_repeat=3), tensors("mlp step")
    results, x = reference.execute(program, given, repeat=3), {"x": given["x"]}
    bound = {name: array for name, array in given.items() if name != "x"}
    runs = poison(Sharded(program, bound, workers=3, device="PYTHON", keep_states=True))
    with pytest.raises(ExecutionError, match="no run has left states"):
        runs.states()
    assert not runs.run(x, repeat=2).states
    assert same(Results(runs.run(x).outputs, runs.states()), results)
    actions, runs.workers[0].actions = runs.workers[0].actions, [fail]
    with pytest.raises(ExecutionError, match="the device is gone"):
        runs.run(x)
    runs.workers[0].actions = actions
    with pytest.raises(ExecutionError, match="its states are lost"):
        runs.run(x)
    assert not runs.run({name: given[name] for name in ("x", *program.named(Role.STATE))}, repeat=3).states
    assert same(Results(results.outputs, runs.states()), results)


def test_split_weights_take_their_share_of_memory_and_a_program_too_large_for_one_worker_runs_on_four() -> None:
    network = sharded.Network(lambda: sharded.Mlp(64, 256, 8), (4, 64))
    graph = network.captured()
    program, given = graph.program, {"x": network.input, **graph.weights}
    results = reference.execute(program, given)
    of_weights = {n: 4 * b.elements for n, b in enumerate(program.buffers) if b.role is Role.WEIGHT}
    most = sum(of_weights.values()) * 7 // 20
    for workers in (1, 2):
        with pytest.raises(LimitError, match=f"on {workers} workers the program needs") as refused:
            Sharded(program, workers=workers, memory=most, device="PYTHON")
        assert "workers with more memory" in refused.value.fix
    runs = poison(Sharded(program, graph.weights, workers=4, memory=most, device="PYTHON"))
    assert same(runs.run({"x": network.input}), results) and runs.plan.held <= most
    for worker in runs.workers:
        pieces = zip(worker.planned.pieces, worker.pieces, strict=True)
        assert (
            sum(array.nbytes for piece, array in pieces if piece.buffer in of_weights) == sum(of_weights.values()) // 4
        )


def test_a_message_out_of_order_is_refused() -> None:
    mail = Mail(2)
    first, second = mail.port(0), mail.port(1)
    box = np.arange(3)
    first.send(1, 0, box)
    box[:] = 9
    assert second.receive(0, 0).tolist() == [0, 1, 2]  # what was sent, whatever becomes of it
    first.send(1, 2, box)
    with pytest.raises(ExecutionError, match="message 2 of worker 0 where 1 was to come"):
        second.receive(0, 1)


def test_a_worker_that_fails_ends_the_run_of_all_with_its_error_and_the_next_run_is_right() -> None:
    runs = Sharded(sharded.captured("mlp step").program, workers=3, device="PYTHON")
    worker, results = runs.workers[1], runs.run(tensors("mlp step"))
    actions = worker.actions
    worker.actions = [fail]
    with pytest.raises(ExecutionError, match="the device is gone"):
        runs.run(tensors("mlp step"))
    worker.actions = actions
    assert same(runs.run(tensors("mlp step")), results)
    mail = Mail(2)
    mail.close()
    with pytest.raises(MailClosed):
        mail.port(0).receive(1, 0)


def test_what_does_not_fit_is_refused() -> None:
    program = sharded.captured("mlp step").program
    with pytest.raises(ExecutionError, match="memory of its own"):
        Sharded(program, workers=2, device="CUDA")
    with pytest.raises(BindingError, match="a plan for 0 workers"):
        Sharded(program, workers=0, device="PYTHON")
    with pytest.raises(BindingError, match="is to be on workers"):
        Sharded(program, workers=2, hints=[Hint(0, (0, 2), False)] * len(program.calls), device="PYTHON")
    with pytest.raises(BindingError, match="hints for"):
        Sharded(program, workers=2, hints=[None], device="PYTHON")
    with pytest.raises(BindingError, match="no tensor 'y'"):
        Sharded(program, workers=1, layouts={"y": (((0, 0),),)}, device="PYTHON")
    with pytest.raises(BindingError, match="do not have all of it"):
        Sharded(program, workers=2, layouts={"x": (((0, 3), (0, 11)), ((5, 7), (0, 11)))}, device="PYTHON")
    with pytest.raises(BindingError, match="missing"):
        Sharded(program, workers=2, device="PYTHON").run({})
