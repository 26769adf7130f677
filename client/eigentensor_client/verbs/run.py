"""`eigentensor run`: post, wait, fetch, verify."""

from pathlib import Path
from typing import Annotated

import typer

from eigentensor.program import Kind
from eigentensor_client.client import Client
from eigentensor_client.files import write_tensors
from eigentensor_client.orders import ACCEPT_WITHIN, EXEC, terms_for
from eigentensor_client.screen import Screen, facts
from eigentensor_client.verbs import options
from eigentensor_client.verbs.show import Show
from eigentensor_client.verbs.work import read_terms, read_work

app = typer.Typer(rich_markup_mode=None)


@app.command()
def run(
    context: typer.Context,
    program: options.ProgramName,
    max_price: options.MaxPrice,
    input: options.Inputs = None,  # noqa: A002
    weights: options.Weights = None,
    states: options.States = None,
    variable: options.Variables = None,
    repeat: options.Repeat = 1,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write the outputs.")] = None,
    states_output: Annotated[
        Path | None, typer.Option("--states-output", help="Where to write the new states.")
    ] = None,
    wait: options.Wait = "final",
    timeout: options.Timeout = None,
    min_price: options.MinPrice = None,
    ramp: options.Ramp = 0,
    check: options.Check = "20%",
    verifiers: options.VerifierCount = 1,
    check_fee: options.CheckFee = None,
    value_at_risk: options.ValueAtRisk = "0",
    exec: options.Exec = EXEC,  # noqa: A002
    accept_within: options.AcceptWithin = ACCEPT_WITHIN,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Post a program as a paid task, wait for it, fetch the result and verify it against the chain."""
    screen = Screen(as_json=json)
    with Client(network) as client:
        screen.head(client.network.name, client.address)
        show = Show(client.network)
        work = read_work(client.gateway, program, input, weights, states, variable, repeat)
        terms = terms_for(wait, read_terms(client.network, context.params))
        for line in show.plan_lines(client.plan(work, terms)):
            screen.say(line)
        with screen.work() as bar:
            (task,) = client.post([work], terms, bar)
        screen.say(facts([["posted", task.uuid]]))
        try:
            with screen.work() as bar:
                task = client.wait(task, wait, timeout=timeout, tell=bar)
                result = client.deliver(task, bar)
        except KeyboardInterrupt:
            screen.say(f"the task goes on: `eigentensor get {task.uuid[:10]}` takes it up again")
            screen.say(f"while nobody accepted it, `eigentensor task cancel {task.uuid[:10]}` takes it back")
            raise
        lines = show.task_lines(result.task)
        for path, tensors, kind in (
            (output, result.outputs, Kind.OUTPUT),
            (states_output, result.states, Kind.STATE),
        ):
            if path:
                write_tensors(path, tensors, work.program, kind)
                lines.append(facts([["written", str(path)]]))
        screen.result("eigentensor.result/1", show.result(result), *lines)
