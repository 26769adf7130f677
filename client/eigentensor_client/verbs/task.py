"""`eigentensor task`, `ps`, `get`, `cancel` and `logs`: what became of tasks."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor_client.screen import Screen, facts
from eigentensor_client.verbs import options
from eigentensor_client.verbs.meeting import paying, reading
from eigentensor_client.verbs.timeout import within

if TYPE_CHECKING:
    from eigentensor_client.task_view import TaskView
    from eigentensor_client.verbs.show import Show

app = typer.Typer(help="One task: show, explain, cancel, logs.", no_args_is_help=True, rich_markup_mode=None)
ps = typer.Typer(rich_markup_mode=None)
get = typer.Typer(rich_markup_mode=None)
cancel = typer.Typer(rich_markup_mode=None)
logs = typer.Typer(rich_markup_mode=None)


@ps.command("ps")
def list_tasks(network: options.NetworkName = None, json: options.Json = False) -> None:
    """List the account's tasks, newest first."""
    from eigentensor.task import view

    with reading(network, json=json) as (screen, client, show):
        tasks = list(client.tasks())
        fields = {"tasks": [view.task(task.life, task.block) for task in tasks]}
        screen.result("eigentensor.tasks/1", fields, show.tasks_table(tasks))


@get.command("get")
def fetch(
    task: options.TaskName,
    output: options.Kept = None,
    states_output: options.StatesOutput = None,
    receipt: options.ReceiptFile = None,
    wait: options.Wait = "result",
    timeout: options.Timeout = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Wait for a task, fetch its result and verify it against the chain."""
    from eigentensor_client.files import check_places
    from eigentensor_client.orders import check_stage
    from eigentensor_client.verbs.outputs import show_result

    check_stage(wait)
    check_places(output, states_output, receipt)
    with within(timeout) as clock, paying(network, json=json) as (screen, client, show):
        with screen.goes_on("the task goes on: the same command takes it up again"), screen.work() as bar:
            current = client.wait(client.task(task), wait, timeout=clock.left(), report=bar)
            result = client.deliver(current, bar)
        program = client.program(current.order.program.hex())
        show_result(screen, show, program, result, output, states_output, receipt)


@app.command("show")
def show_task(task: options.TaskName, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Show where a task stands and what happened to it."""
    with reading(network, json=json) as (screen, client, show):
        current = client.task(task)
        screen.result("eigentensor.task/1", show.task(current), *show.task_lines(current))


@app.command()
def explain(task: options.TaskName, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Say why a task is where it is: what each operator says, and what would help."""
    with reading(network, json=json) as (screen, client, show):
        current = client.task(task)
        response = client.explain(current)
        screen.result(
            "eigentensor.explanation/1", show.explained(current, response), *show.explanation(current, response)
        )


@app.command("cancel")
@cancel.command("cancel")
def cancel_task(task: options.TaskName, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Take back a task that nobody accepted; its whole escrow returns."""
    from eigentensor_client.orders import escrow_of

    with paying(network, json=json) as (screen, client, show):
        current = client.cancel(client.task(task))
        back = f"{show.amount(escrow_of(current.order))}, in the market's balance of {client.address}"
        screen.result("eigentensor.task/1", show.task(current), *show.task_lines(current), facts([["refund", back]]))


@app.command("logs")
@logs.command("logs")
def follow(
    task: options.TaskName,
    until_end: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")] = False,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Print what happened to a task, a line each as it happens. With --json an object a line."""
    with reading(network, json=json) as (screen, client, show):
        current = client.task(task)
        printed = _print_events(screen, show, current, 0)
        with screen.goes_on(f"the task goes on: `eigentensor logs {current.uuid[:10]} -f` shows what follows"):
            while until_end and not current.state.is_terminal:
                time.sleep(client.poll)
                current = client.look(current)
                printed = _print_events(screen, show, current, printed)


def _print_events(screen: Screen, show: "Show", task: "TaskView", printed: int) -> int:
    """Prints the events behind the first `printed`; how many there are. A reorganisation can have taken some back."""
    from eigentensor.task import view

    for event in task.events[printed:]:
        screen.result("eigentensor.event/1", {"task": task.uuid, **view.event(event)}, show.event_line(event))
    return len(task.events)
