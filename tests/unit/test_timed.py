"""What of a program is timed before it is accepted, and what follows from that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from eigentensor import timed
from eigentensor.program import Program, validity
from eigentensor.program.cost import body_cost, needs_of, work
from eigentensor.reexecution import confined
from eigentensor.runtime import execute
from eigentensor.timed import BODIES, ITERATIONS, LEAST, WORK, computing, samples
from eigentensor_operator.bench import PROGRAMS
from eigentensor_operator.policy import SUSPECT, Code, is_close, refuse_needs, refuse_timed
from support.generated.programs import generate
from support.stories.operator import NEEDS, POLICY, an_order


@dataclass
class Machine:
    """One that takes `startup` seconds for an execution, and as long for an iteration as is said of the program."""

    seconds: Callable[[Program], float]
    startup: float = 0.5
    now: float = 0.0

    def run(self, program: Program, tensors: Mapping[str, Any], variables: Mapping[str, int], repeat: int) -> None:
        self.now += self.startup + self.seconds(program) * repeat


def of(name: str) -> Program:
    return PROGRAMS[name]().program


@pytest.mark.parametrize("name", PROGRAMS)
def test_samples_are_valid_short_and_stand_for_all_work(name: str) -> None:
    program = of(name)
    selection = samples(program)
    assert 1 <= len(selection) <= BODIES
    for sample in selection:
        validity.check(sample.program)
        assert LEAST <= sample.iterations <= ITERATIONS
        assert work(sample.program) <= 2 * WORK or sample.program.bodies[0].parameters[0].elements == 1
    assert sum(s.times * work(s.program) for s in selection) >= 0.99 * work(program)


@pytest.mark.parametrize("seed", range(20))
def test_samples_of_any_program_give_what_they_were_given(seed: int) -> None:
    """Whatever operands are drawn, the runtime takes them."""
    for sample in samples(generate(seed).program):
        tensors = {b.name: timed.random_tensor(b) for b in sample.program.buffers}
        variables = {v.name: v.maximum for v in sample.program.variables}
        assert set(execute(sample.program, tensors, variables).outputs) == {"output"}


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "nothing"])
def test_a_program_takes_as_long_as_its_work_on_a_machine_of_any_startup(name: str) -> None:
    machine = Machine(lambda program: work(program) / 1e6)
    seconds = computing(of(name), machine.run, lambda: machine.now)
    assert seconds == pytest.approx(work(of(name)) / 1e6, rel=0.35)


def test_a_slow_kernel_is_seen_whatever_it_counts_for() -> None:
    """As remainders were, and as what nobody thought of will be."""
    slow = Machine(lambda program: work(program) / 1e6 * 50)
    quick = Machine(lambda program: work(program) / 1e6)
    program = of("divisions")
    times = computing(program, slow.run, lambda: slow.now) / computing(program, quick.run, lambda: quick.now)
    assert times == pytest.approx(50)


def test_samples_are_executed_as_tasks_are() -> None:
    program = next(p for p in (generate(seed).program for seed in range(100)) if samples(p))
    assert computing(program, timed.sandboxed(confined.limits(1 << 30, 60.0))) >= 0


def test_what_would_be_late_if_it_were_slower_is_timed_and_refused_if_it_is() -> None:
    order = an_order()
    room = order.exec - POLICY.reserve  # blocks of a second, of 1e6 operations
    large = replace(NEEDS, operations=int(room * 1e6) - 10_000)
    small = replace(NEEDS, operations=int(room * 1e6) // SUSPECT - 10_000)
    assert is_close(POLICY, order, large) and not is_close(POLICY, order, small)
    assert refuse_needs(POLICY, order, large) is None
    assert refuse_timed(POLICY, order, large, room - 0.1) is None
    refused = refuse_timed(POLICY, order, large, room + 0.1)
    assert refused is not None and refused.code is Code.EXEC and refused.lasting


def test_needs_count_what_is_slow() -> None:
    program = of("gathers")
    assert needs_of(program, 2).written == 2 * program.parameter(len(program.buffers)).dtype.size * sum(
        program.bodies[call.body].parameters[0].elements for call in program.calls
    )
    assert needs_of(program, 2).operations == 2 * sum(body_cost(program.bodies[c.body]).work for c in program.calls)
