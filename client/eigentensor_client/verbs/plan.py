"""`eigentensor plan`: what a task would cost, before anything is paid."""

import typer

from eigentensor_client.client import Client
from eigentensor_client.orders import ACCEPT_WITHIN, EXEC
from eigentensor_client.screen import Screen
from eigentensor_client.verbs import options
from eigentensor_client.verbs.show import Show
from eigentensor_client.verbs.work import read_terms, read_work

app = typer.Typer(rich_markup_mode=None)


@app.command()
def plan(
    context: typer.Context,
    program: options.ProgramName,
    max_price: options.MaxPrice,
    input: options.Inputs = None,  # noqa: A002
    weights: options.Weights = None,
    states: options.States = None,
    variable: options.Variables = None,
    repeat: options.Repeat = 1,
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
    """Show what a task would cost, and what cheating would cost its executor. Nothing is sent."""
    screen = Screen(as_json=json)
    with Client(network) as client:
        screen.head(client.network.name, client.address)
        work = read_work(client.gateway, program, input, weights, states, variable, repeat)
        found = client.plan(work, read_terms(client.network, context.params))
        show = Show(client.network)
        screen.result("eigentensor.plan/1", show.plan(found), *show.plan_lines(found))
