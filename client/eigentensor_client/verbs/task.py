"""`eigentensor task`, `ps` and `get`: what became of tasks."""

from pathlib import Path
from typing import Annotated

import typer

from eigentensor.program import Kind
from eigentensor_client.client import Client
from eigentensor_client.files import write_tensors
from eigentensor_client.orders import check_stage, escrow_of
from eigentensor_client.screen import Screen, facts, short, table
from eigentensor_client.stages import waits_for
from eigentensor_client.verbs import options
from eigentensor_client.verbs.show import Show

app = typer.Typer(help="One task: show, explain, cancel.", no_args_is_help=True, rich_markup_mode=None)
ps = typer.Typer(rich_markup_mode=None)
get = typer.Typer(rich_markup_mode=None)


@ps.command("ps")
def list_tasks(network: options.NetworkName = None, json: options.Json = False) -> None:
    """List the account's tasks, newest first."""
    screen = Screen(as_json=json)
    with Client(network) as client:
        screen.head(client.network.name, client.address)
        show, tasks = Show(client.network), list(client.tasks())
        rows = [
            [
                task.uuid[:10],
                task.words,
                show.amount(task.order.max_price if task.price is None else task.price),
                short(task.executor) if task.executor else "–",
                "–" if task.state.is_terminal else waits_for(task),
            ]
            for task in tasks
        ]
        columns = ("task", "state", "price", "executor", "waits for")
        screen.result("eigentensor.tasks/1", {"tasks": [show.task(task) for task in tasks]}, table(columns, rows))


@get.command("get")
def fetch(
    task: options.TaskName,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the outputs.")],
    states_output: Annotated[
        Path | None, typer.Option("--states-output", help="Where to write the new states.")
    ] = None,
    wait: options.Wait = "result",
    timeout: options.Timeout = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Wait for a task, fetch its result and verify it against the chain."""
    check_stage(wait)
    screen = Screen(as_json=json)
    with Client(network) as client:
        screen.head(client.network.name, client.address)
        with screen.work() as bar:
            found = client.wait(client.task(task), wait, timeout=timeout, tell=bar)
            result = client.deliver(found, bar)
        program = client.program(found.order.program.hex())
        write_tensors(output, result.outputs, program)
        if states_output:
            write_tensors(states_output, result.states, program, Kind.STATE)
        show = Show(client.network)
        lines = [*show.task_lines(result.task), facts([["written", str(output)]])]
        screen.result("eigentensor.result/1", show.result(result), *lines)


@app.command()
def show(task: options.TaskName, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Show where a task stands and what happened to it."""
    screen = Screen(as_json=json)
    with Client(network) as client:
        screen.head(client.network.name, client.address)
        found, view = client.task(task), Show(client.network)
        screen.result("eigentensor.task/1", view.task(found), *view.task_lines(found))


@app.command()
def explain(task: options.TaskName, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Say why a task is where it is: what each operator says, and what would help."""
    screen = Screen(as_json=json)
    with Client(network) as client:
        screen.head(client.network.name, client.address)
        found, view = client.task(task), Show(client.network)
        said = client.explain(found)
        fields = said | {"now": view.task(found)}
        screen.result("eigentensor.explanation/1", fields, *view.explanation(found, said))


@app.command()
def cancel(task: options.TaskName, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Take back a task that nobody accepted; its whole escrow returns."""
    screen = Screen(as_json=json)
    with Client(network) as client:
        screen.head(client.network.name, client.address)
        found, view = client.cancel(client.task(task)), Show(client.network)
        back = f"{view.amount(escrow_of(found.order))}, in the market's balance of {client.address}"
        lines = [*view.task_lines(found), facts([["refund", back]])]
        screen.result("eigentensor.task/1", view.task(found), *lines)
