"""What an operator's steps come back with: whatever a gateway says, a reason that passes; what was tried, done once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from eigentensor import merkle, reference
from eigentensor.chain import Chain
from eigentensor.program import Role, encode
from eigentensor.program.cost import compile_seconds, needs_of
from eigentensor.store import GatewayClient, LocalStore, save_safetensors
from eigentensor.task import Life, Order, State
from eigentensor_operator.case import Case, Step
from eigentensor_operator.data import Shelf
from eigentensor_operator.device import Device
from eigentensor_operator.events import Done, Executed, Inspected, Undone
from eigentensor_operator.policy import Code, Policy
from eigentensor_operator.steps import Steps
from support.hostile.gateway import ANSWERS, FILES, hostile
from support.programs.worked_examples import layer
from support.stories.operator import PARAMETERS, POLICY, TASK, an_order, reaches

EXAMPLE = layer()
TRUE = merkle.results_root(EXAMPLE.program, reference.execute(EXAMPLE.program, EXAMPLE.tensors))
PATIENT = replace(POLICY, block_seconds=12.0)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "blobs")


@pytest.fixture
def order(store: LocalStore, tmp_path: Path) -> Order:
    """All that it names is in the store."""
    store.put(encode(EXAMPLE.program))
    roots = {}
    for role, word in ((Role.INPUT, "inputs"), (Role.WEIGHT, "weights")):
        save_safetensors(tmp_path / word, {name: EXAMPLE.tensors[name] for name in EXAMPLE.program.named(role)})
        roots[word] = bytes.fromhex(store.names(store.put(tmp_path / word)).computed or "")
    return an_order(program=merkle.program_root(encode(EXAMPLE.program)), **roots)


@pytest.fixture
def gateway(store: LocalStore) -> Iterator[GatewayClient]:
    """Nobody answers: what is needed is in the store."""
    with GatewayClient("http://127.0.0.1:9", store, attempts=1) as client:
        yield client


def steps_of(gateway: GatewayClient, folder: Path, policy: Policy = PATIENT, memory: int = 1 << 30) -> Steps:
    """Those that ask no chain."""
    device, shelf = Device(memory, unsafe=True), Shelf(folder / "results")
    return Steps(cast(Chain, None), gateway, device, shelf, policy, folder / "draining")


def a_case(order: Order) -> Case:
    program = EXAMPLE.program
    needs, seconds = needs_of(program, 1), compile_seconds(program)
    case = Case(Life(TASK, order, PARAMETERS), needs=needs, compile_seconds=seconds, fetched=True)
    return case.stepped(reaches(State.OPEN, 10, order=order))


@pytest.mark.parametrize("step", [Step.INSPECT, Step.FETCH, Step.UPLOAD])
@pytest.mark.parametrize("name", [*ANSWERS, *FILES])
def test_nothing_that_a_gateway_says_is_final(tmp_path: Path, order: Order, name: str, step: Step) -> None:
    with hostile() as server, GatewayClient(server.url, LocalStore(tmp_path / "empty"), attempts=1) as gateway:
        server.raw, server.file = ANSWERS.get(name, b""), FILES.get(name)
        steps = steps_of(gateway, tmp_path)
        Shelf(tmp_path / "results").keep(TASK, EXAMPLE.program, reference.execute(EXAMPLE.program, EXAMPLE.tensors))
        outcome = steps.do(step, a_case(order), 10)
        if isinstance(outcome, Undone):
            assert (outcome.reason.code, outcome.reason.lasting) == (Code.DATA, False)
        else:  # it says that it has what was to be given to it
            assert step is Step.UPLOAD


@pytest.mark.parametrize("trial", [2.0, 0.0])
def test_a_task_is_looked_at_prepared_and_executed(
    gateway: GatewayClient, tmp_path: Path, order: Order, trial: float
) -> None:
    steps, case = steps_of(gateway, tmp_path, replace(PATIENT, trial=trial)), a_case(order)
    inspected = steps.do(Step.INSPECT, case, 10)
    assert inspected == Inspected(TASK, needs_of(EXAMPLE.program, 1), compile_seconds(EXAMPLE.program))
    assert steps.do(Step.FETCH, case, 10) == Done(TASK, Step.FETCH)
    assert steps.do(Step.PREPARE, case, 10) == Done(TASK, Step.PREPARE)
    accepted = case.stepped(reaches(State.ACCEPTED, 11, executor=POLICY.operator))
    executed = steps.do(Step.EXECUTE, accepted, 11)
    assert isinstance(executed, Executed) and executed.seal.outputs_root == TRUE


def test_what_was_tried_is_not_executed_again(gateway: GatewayClient, tmp_path: Path, order: Order) -> None:
    steps, case = steps_of(gateway, tmp_path), a_case(order)
    assert steps.do(Step.PREPARE, case, 10) == Done(TASK, Step.PREPARE)
    accepted = case.stepped(reaches(State.ACCEPTED, 11, executor=POLICY.operator))
    late = accepted.deadline  # no second is left to execute anything
    hurried = steps_of(gateway, tmp_path, replace(PATIENT, block_seconds=1e-6))
    assert isinstance(hurried.do(Step.EXECUTE, accepted, late), Undone)
    executed = steps.do(Step.EXECUTE, accepted, late)
    assert isinstance(executed, Executed) and executed.seal.outputs_root == TRUE


def test_a_program_that_fails_when_it_is_tried_says_so_by_its_own_name(
    gateway: GatewayClient, tmp_path: Path, order: Order
) -> None:
    steps = steps_of(gateway, tmp_path, memory=-(4 << 30))  # no memory is left for its buffers
    outcome = steps.do(Step.PREPARE, a_case(order), 10)
    assert isinstance(outcome, Undone)
    assert (outcome.reason.code, outcome.reason.lasting) == (Code.TRIAL, True)


def test_a_shape_that_no_array_can_have_is_declined_however_long_the_program_takes(
    gateway: GatewayClient, tmp_path: Path, order: Order
) -> None:
    steps, case = steps_of(gateway, tmp_path, replace(PATIENT, trial=0.0)), a_case(order)
    bound = steps._load(TASK, order)
    first, *others = bound.program.results
    impossible = replace(bound.program, results=(first._replace(shape=(0, (1 << 32) - 1, (1 << 32) - 1)), *others))
    with pytest.raises(ValueError, match="too big"):
        steps._try(case, replace(bound, program=impossible))
