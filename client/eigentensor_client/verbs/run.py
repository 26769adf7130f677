"""`eigentensor run`: post, wait, fetch, verify."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor_client.screen import Screen, facts
from eigentensor_client.verbs import options
from eigentensor_client.verbs.grouped import grouped
from eigentensor_client.verbs.meeting import paying

if TYPE_CHECKING:
    from eigentensor_client.client import Client
    from eigentensor_client.orders import Terms, Work
    from eigentensor_client.results import TaskResult

app = typer.Typer(rich_markup_mode=None)
Keep = Annotated[bool, typer.Option("--keep", help="Keep the local network, if this command started it, until Ctrl-C.")]


@app.command()
@grouped
def run(
    given: options.Given,
    offer: options.Offer,
    output: options.Output = None,
    states_output: options.StatesOutput = None,
    receipt: options.ReceiptFile = None,
    wait: options.Wait = "final",
    timeout: options.Timeout = None,
    keep: Keep = False,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Post a program as a paid task, wait for it, fetch the result and verify it against the chain.

    ONNX models and Python functions become programs first. If the network is `local` and none runs, one is started.
    """
    from eigentensor_client.orders import terms_for
    from eigentensor_client.sources import is_uuid
    from eigentensor_client.verbs.show import write_result
    from eigentensor_client.verbs.work import read_terms, read_work

    work = None if is_uuid(given.program) else read_work(given)
    with (
        _started(network, Screen(as_json=json), keep=keep) as own,
        paying(network, json=json) as (screen, client, show),
    ):
        work = work or read_work(given, client.gateway)
        terms = terms_for(wait, read_terms(client.network, offer))
        for line in show.plan_lines(client.plan(work, terms), work.cast):
            screen.say(line)
        result = _paid(client, screen, work, terms, wait, timeout, own=own)
        written = write_result(work.program, result, output, states_output, receipt)
        screen.result("eigentensor.result/1", show.result(result), *show.task_lines(result.task), *written)


def _started(network: str | None, screen: Screen, *, keep: bool) -> AbstractContextManager[bool]:
    """A network for this command, where the package beside this one offers to run the one that is meant and it does not
    run; true if it was started."""
    from importlib.metadata import entry_points

    from eigentensor.chain.network import DEFAULT

    offers = tuple(entry_points(group="eigentensor.networks", name=network or DEFAULT))
    return offers[0].load()(screen, keep=keep) if offers else nullcontext(False)


def _paid(
    client: "Client", screen: Screen, work: "Work", terms: "Terms", stage: str, timeout: float | None, *, own: bool
) -> "TaskResult":
    unsure = "the order may be on its way: `eigentensor ps` shows whether it was posted"
    with screen.goes_on(*[] if own else [unsure]), screen.work() as bar:
        (task,) = client.post([work], terms, bar)
    screen.say(facts([["posted", task.uuid]]))
    words = [
        f"the task goes on: `eigentensor get {task.uuid[:10]}` takes it up again",
        f"while nobody accepted it, `eigentensor cancel {task.uuid[:10]}` takes it back",
    ]
    if own:
        words = ["the local network ends, and the task with it: nothing of it was worth anything"]
    with screen.goes_on(*words), screen.work() as bar:
        return client.deliver(client.wait(task, stage, timeout=timeout, tell=bar), bar)
