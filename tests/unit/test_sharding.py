"""Plans: what is made where, once; who sends what; and how close to the fewest bytes a placement comes."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from math import ceil, prod
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor.capture import capture
from eigentensor.errors import LimitError
from eigentensor.program import Program
from eigentensor.regions.boxes import difference, volume, whole_box
from eigentensor.sharding import codec
from eigentensor.sharding.cluster import Cluster, Link, candidates
from eigentensor.sharding.improve import cheapest
from eigentensor.sharding.layout import Place, axes_of, is_whole, made, volumes
from eigentensor.sharding.place import places
from eigentensor.sharding.plan import Compute, Copy, Piece, Plan, Receive, Send, WorkerPlan, plan, planned_with
from eigentensor.sharding.signals import Hint
from eigentensor.sharding.transfers import Part, gathered
from support.bench.cluster import rows
from support.programs import sharded
from support.vectors.programs import README

SQUARE = Tensor(np.random.default_rng(0).standard_normal((16, 16), dtype=np.float32), device="CPU").realize()


def captured(function: Callable[..., Any], *shape: int) -> Program:
    x = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    return capture(function, {"x": x}, fingerprint=False).program


#: Rows of the table that are quickly made.
QUICK = ("MLP 784-256-10, 64 rows", "MLP 784-256-10, 64 rows, a step", "MLP 64-32-10, 8,192 rows, a step")
#: Small programs, each with what all ways to cut its calls can be tried for.
PROGRAMS: dict[str, Callable[[], Program]] = {
    "two products": lambda: captured(lambda x: (x @ SQUARE).relu() @ SQUARE, 8, 16),
    "product of products": lambda: captured(lambda x: (x @ SQUARE).contiguous().T @ (x @ SQUARE), 8, 16),
    "softmax of a product": lambda: captured(lambda x: (x @ SQUARE).softmax() @ SQUARE, 8, 16),
    "softmax the other way": lambda: captured(lambda x: (x @ SQUARE).softmax(0) @ SQUARE, 8, 16),
    "attention": lambda: captured(lambda x: x.scaled_dot_product_attention(x @ SQUARE, x), 2, 8, 16),
    "long sum": lambda: captured(lambda x: (x * 2).contiguous().sum(), 8, 1024),
    "mlp step": lambda: sharded.captured("mlp step").program,
    "conv net": lambda: sharded.captured("conv net").program,
}


def bytes_of(planned: Plan) -> int:
    return planned.moved + planned.renewed


def work_of(cluster: Cluster, chosen: Sequence[Place]) -> float:
    """What the workers that have most to compute of each call evaluate."""
    return sum(cluster.work(call, cluster.layout(call, place)) for call, place in enumerate(chosen))


def all_cuts(cluster: Cluster) -> Iterator[tuple[Place, ...]]:
    """Every way to cut each call along one of its axes; whole, where it has none."""
    options = []
    for call in range(len(cluster.program.calls)):
        cuts = [place for place in candidates(cluster, call) if place.axis is not None]
        options.append(cuts or [Place(None, (0,))])
    assert prod(map(len, options)) <= 1024
    return product(*options)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("workers", [2, 4])
def test_a_placement_moves_at_most_a_fifth_more_than_the_best_of_all_with_as_little_work(
    name: str, workers: int
) -> None:
    cluster = Cluster(PROGRAMS[name](), workers)
    chosen = cheapest(cluster, 2**-10)
    most = work_of(cluster, chosen) * 1.001
    best = min(bytes_of(planned_with(cluster, of)) for of in all_cuts(cluster) if work_of(cluster, of) <= most)
    assert bytes_of(planned_with(cluster, chosen)) <= 1.2 * best


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_every_element_is_made_once_and_no_worker_makes_more_than_its_share(axis: int, workers: int) -> None:
    program = sharded.captured("transformer layer").program
    planned = plan(program, workers, hints=(Hint(axis, tuple(range(workers)), False),) * len(program.calls))
    for call, axes in enumerate(axes_of(program)[len(program.buffers) :]):
        boxes = [step.box for worker in planned.workers for step in worker.steps if is_of(step, call)]
        assert sum(map(volume, boxes)) == prod(axes) and is_whole(tuple(boxes), axes)
        long = -len(axes) <= axis < len(axes) and axes[axis] >= workers
        assert max(map(volume, boxes)) == (
            prod(axes) // axes[axis] * ceil(axes[axis] / workers) if long else prod(axes)
        )


def is_of(step: object, call: int) -> bool:
    return isinstance(step, Compute) and step.call == call


@pytest.mark.parametrize("name", ["mlp step", "conv net", "transformer layer"])
def test_what_is_sent_is_received_in_the_same_order(name: str) -> None:
    planned = plan(sharded.captured(name).program, 3)
    sent, received = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for number, worker in enumerate(planned.workers):
        for step in (*worker.steps, *worker.renewing):
            if isinstance(step, Send):
                sent.append((number, step.worker, step.number, worker.pieces[step.source].buffer, step.box))
            if isinstance(step, Receive):
                received.append((step.worker, number, step.number, step.box))
    assert [(a, b, n, box) for a, b, n, _, box in sorted(sent)] == sorted(received)
    counts = Counter((a, b) for a, b, *_ in received)
    assert all([n for a, b, n, _ in received if (a, b) == pair] == list(range(count)) for pair, count in counts.items())
    sizes = {b: sharded.captured(name).program.parameter(b).dtype.size for *_, b, _ in sent}
    assert bytes_of(planned) == sum(volume(box) * sizes[b] for *_, b, box in sent)


def test_the_best_way_is_not_the_first_that_costs_nothing() -> None:
    # cut along rows, which is free until then, all weights would go to all workers after the step
    cluster = Cluster(sharded.captured("MLP 784-256-10, 64 rows, a step").program, 2)
    rows = tuple(candidates(cluster, call)[0] for call in range(len(cluster.program.calls)))
    weights = 4 * 784 * 256
    assert planned_with(cluster, rows).renewed > weights * 0.9
    assert bytes_of(plan(cluster.program, 2)) < weights / 10
    assert len(places(cluster, 2**-10, 2)) == len(cluster.program.calls)


def test_a_worker_sends_what_others_wait_for_before_it_waits() -> None:
    """Else the boxes of one exchange would come one after the other."""
    for worker in plan(sharded.captured("MLP 784-256-10, 64 rows, a step").program, 4).workers:
        kinds = [type(step) for step in worker.steps if not isinstance(step, Copy)]
        assert Receive in kinds and (Receive, Send) not in pairwise(kinds)


def test_a_program_is_not_split_where_a_message_takes_longer_than_it() -> None:
    program = sharded.captured("mlp step").program
    here, slow = plan(program, 2), plan(program, 2, link=Link(latency=1 << 20))
    assert here is plan(program, 2, link=Link()) and here is not slow
    assert here.moved and any(place.axis is not None for place in here.places)
    assert not bytes_of(slow) and all(place.axis is None for place in slow.places)
    assert plan(program, 2, link=Link(latency=16)).moved


def test_a_plan_is_made_once() -> None:
    program = sharded.captured("mlp").program
    assert plan(program, 2) is plan(program, 2)
    assert plan(program, 2) is not plan(program, 2, hints=(Hint(0, (1,), False),) * len(program.calls))


def test_an_axis_that_is_too_short_leaves_a_call_whole_on_the_first_worker() -> None:
    program = sharded.captured("mlp").program
    calls = len(program.calls)
    for axis, workers, chosen in (
        (0, (2, 1), Place(0, (2, 1))),
        (7, (2, 1), Place(None, (2,))),
        (-2, (1, 0), Place(0, (1, 0))),
    ):
        assert plan(program, 3, hints=(Hint(axis, workers, False),) * calls).places == (chosen,) * calls
    assert plan(program, 9, hints=(Hint(0, tuple(range(9)), False),) * calls).places == (Place(None, (0,)),) * calls
    nothing = plan(program, 2, hints=(Hint(0, (1,), False),) * calls)
    assert nothing.moved == 0 and not nothing.workers[0].steps and nothing.workers[0].held == 0


def test_what_is_replicated_is_on_every_worker_and_computed_once() -> None:
    program = sharded.captured("mlp").program
    planned = plan(program, 3, hints=(None, Hint(1, (0, 1, 2), True)))
    buffer = len(program.buffers) + 1
    whole = whole_box(axes_of(program)[buffer])
    assert all((buffer, whole) in {piece[:2] for piece in worker.pieces} for worker in planned.workers)


def test_memory_that_no_plan_fits_into_is_refused_with_how_much_it_takes() -> None:
    program = sharded.captured("mlp").program
    with pytest.raises(
        LimitError, match=r"on 2 workers the program needs [\d,]+ bytes of memory on one of them, there are 99"
    ):
        plan(program, 2, memory=99)


def test_boxes_are_cut_evenly_and_workers_without_elements_have_none() -> None:
    assert made(Place(0, (0, 1, 2)), (7, 2), 3) == (((0, 1), (0, 1)), ((2, 3), (0, 1)), ((4, 6), (0, 1)))
    assert made(Place(1, (2, 0)), (3, 2), 3) == (((0, 2), (1, 1)), None, ((0, 2), (0, 0)))
    assert volumes(made(Place(0, (0, 1, 2, 3)), (2, 5), 4)) == (5, 5, 0, 0)
    assert volumes(made(Place(None, (1, 2)), (2, 5), 3)) == (0, 10, 10)
    assert made(Place(None, ()), (0, 5), 2) == (None, None)


def test_boxes_come_from_the_worker_itself_first_then_from_the_next_ones() -> None:
    of = [Part(worker, 0, ((0, 7),)) for worker in (0, 1, 3)]
    assert gathered(((2, 5),), [Part(2, 4, ((0, 3),))], of, 2) == [Part(2, 4, ((2, 3),)), Part(3, 0, ((4, 5),))]
    assert gathered(((2, 9),), (), of, 2) is None
    rest = difference(((0, 3), (0, 3)), ((1, 2), (1, 2)))
    assert sum(map(volume, rest)) == 12


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n not in QUICK else []) for n in sharded.LARGE]
)
def test_the_readme_states_what_is_moved_held_and_computed(name: str) -> None:
    assert not [line for line in rows([name]) if line not in README.read_text()], "`scripts/bench cluster --write`"


def test_a_part_of_a_plan_comes_back_from_its_bytes_and_other_bytes_are_none() -> None:
    for of in plan(sharded.captured("mlp step").program, 3).workers:
        data = codec.encode(of)
        assert codec.decode(data) == of
        for broken in (data[:-1], data + b"\0", b"\xff" * 40):
            with pytest.raises(ValueError, match=r"part of a plan|step"):
                codec.decode(broken)
    piece = Piece(0, ((0, 3),), None)
    with pytest.raises(ValueError, match="a piece is named that there is not"):
        codec.decode(codec.encode(WorkerPlan((piece,), (1,), (), (), 0, 0)))
