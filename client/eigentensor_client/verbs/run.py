"""`eigentensor run`: post, wait, fetch, verify. `eigentensor plan`: what that would cost."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor.errors import BindingError
from eigentensor_client.screen import Screen, facts
from eigentensor_client.verbs import options
from eigentensor_client.verbs.meeting import paying, planning
from eigentensor_client.verbs.options import grouped
from eigentensor_client.verbs.timeout import Clock, within

if TYPE_CHECKING:
    from eigentensor_client.attempts import Attempts
    from eigentensor_client.client import Client
    from eigentensor_client.orders import Terms, Work
    from eigentensor_client.plans import Plans
    from eigentensor_client.results import Plan, TaskResult
    from eigentensor_client.task_view import TaskView
    from eigentensor_client.transfer import Keeper

app = typer.Typer(rich_markup_mode=None)
plan = typer.Typer(rich_markup_mode=None)
Keep = Annotated[bool, typer.Option("--keep", help="Keep the local network, if this command started it, until Ctrl-C.")]


@app.command()
@grouped
def run(
    execution: options.Execution,
    offer: options.Offer,
    output: options.Kept = None,
    states_output: options.StatesOutput = None,
    receipt: options.ReceiptFile = None,
    wait: options.Wait = "final",
    timeout: options.Timeout = None,
    retries: options.Retries = 0,
    keep: Keep = False,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Post a program as a paid task, wait for it, fetch the result and verify it against the chain.

    ONNX models and Python functions become programs first. If the network is `local` and none runs, one is started.
    """
    from eigentensor_client.attempts import Attempts
    from eigentensor_client.files import check_places
    from eigentensor_client.orders import read_terms, terms_for
    from eigentensor_client.sources import is_uuid
    from eigentensor_client.transfer import bound
    from eigentensor_client.verbs.outputs import show_result
    from eigentensor_client.verbs.planned import plan_lines

    check_places(output, states_output, receipt)
    talk = Screen(as_json=json)
    with within(timeout) as clock, talk.names_waits():
        work = None if is_uuid(execution.program) else read_work(execution)
        if work is not None:
            bound(work)  # what does not fit is said before a network is started for it
        with (
            _started(network, talk, keep=keep) as own,
            paying(network, json=json) as (screen, client, show),
        ):
            work = work or read_work(execution, client.gateway)
            terms = terms_for(wait, read_terms(client.network, offer))
            for line in plan_lines(client.plan(work, terms), client.amount, client.pace, work.cast):
                screen.say(line)
            task = _posted(client, screen, work, terms, own=own)
            attempts = Attempts([task], client.again, retries, screen.say)
            result = _paid(client, screen, attempts, wait, clock, own=own)
            show_result(screen, show, work.program, result, output, states_output, receipt)


def _started(network: str | None, screen: Screen, *, keep: bool) -> AbstractContextManager[bool]:
    """A network for this command, where the package beside this one offers to run the one that is meant and it does not
    run; true if it was started."""
    from importlib.metadata import entry_points

    from eigentensor.chain.network import DEFAULT

    offers = tuple(entry_points(group="eigentensor.networks", name=network or DEFAULT))
    return offers[0].load()(screen, keep=keep) if offers else nullcontext(False)


def _posted(client: "Client", screen: Screen, work: "Work", terms: "Terms", *, own: bool) -> "TaskView":
    unsure = "the order may be on its way: `eigentensor ps` shows whether it was posted"
    with screen.goes_on(*[] if own else [unsure]), screen.work() as bar:
        (task,) = client.post([work], terms, bar)
    screen.say(facts([["posted", task.uuid]]))
    return task


def _paid(
    client: "Client", screen: Screen, attempts: "Attempts", stage: str, clock: Clock, *, own: bool
) -> "TaskResult":
    from eigentensor_client.steps import finish

    try:
        with screen.work() as bar:
            return finish(client.completing(attempts, stage, clock.left(), bar))
    except KeyboardInterrupt:
        short = attempts.current[0].uuid[:10]
        if own:
            screen.say("the local network ends, and the task with it: nothing of it was worth anything")
        else:
            screen.say(f"the task goes on: `eigentensor get {short}` takes it up again")
            screen.say(f"while nobody accepted it, `eigentensor cancel {short}` takes it back")
        raise


def read_work(execution: options.Execution, gateway: "Keeper | None" = None) -> "Work":
    """The program and its tensors; the gateway is asked for a program that is named by its uuid. In a
    terminal it shows that one is captured."""
    from eigentensor_client.files import read_inputs, read_tensors
    from eigentensor_client.inputs import read_variables
    from eigentensor_client.orders import Work
    from eigentensor_client.sources import captured, is_captured, read_program

    inputs, states, variables = (
        read_inputs(execution.input),
        read_tensors(execution.states),
        read_variables(execution.variable),
    )
    if is_captured(execution.program):
        with Screen().work() as bar:
            bar(f"capturing {execution.program}")
            graph, inputs = captured(execution.program, inputs, execution.weights, execution.cast)
        weights, states = dict(graph.weights), states or dict(graph.states)
        return Work(graph.program, inputs, weights, states, variables, execution.repeat, graph.cast)
    if execution.cast:
        raise BindingError(
            f"{execution.program} is a program already", fix="Leave --cast out, and give it the types that it takes."
        )
    program = read_program(execution.program, gateway)
    return Work(program, inputs, read_tensors(execution.weights), states, variables, execution.repeat)


@plan.command("plan")
@grouped
def show_plan(
    execution: options.Execution, offer: options.Offer, network: options.NetworkName = None, json: options.Json = False
) -> None:
    """Show what a task would cost, and what cheating would cost its executor. Nothing is sent."""
    from eigentensor_client.verbs.planned import plan_lines

    with planning(network, json=json) as (screen, client):
        priced, cast = _planned(client, execution, offer)
        lines = plan_lines(priced, client.amount, client.pace, cast)
        screen.result("eigentensor.plan/1", priced.to_json(), *lines)


def _planned(client: "Plans", execution: options.Execution, offer: options.Offer) -> "tuple[Plan, Sequence[str]]":
    """The plan, and what is cast for it. Tensors are read only where their headers do not tell whether they fit."""
    from eigentensor.program.fitting import takes_bools
    from eigentensor_client.inputs import headers_of, read_variables
    from eigentensor_client.orders import read_terms
    from eigentensor_client.sources import is_captured, read_program

    if not is_captured(execution.program) and execution.cast is None:
        headers = headers_of(execution.input, execution.weights, execution.states)
        variables, program = read_variables(execution.variable), read_program(execution.program, client.gateway)
        if headers is not None and not takes_bools(program):
            terms = read_terms(client.network, offer)
            return client.plan_unread(program, headers, variables, execution.repeat, terms), ()
    work = read_work(execution, client.gateway)
    return client.plan(work, read_terms(client.network, offer)), work.cast
