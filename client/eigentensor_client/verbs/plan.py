"""`eigentensor plan`: what a task would cost, before anything is paid."""

import typer

from eigentensor_client.verbs import options
from eigentensor_client.verbs.grouped import grouped
from eigentensor_client.verbs.meeting import paying

app = typer.Typer(rich_markup_mode=None)


@app.command()
@grouped
def plan(
    given: options.Given, offer: options.Offer, network: options.NetworkName = None, json: options.Json = False
) -> None:
    """Show what a task would cost, and what cheating would cost its executor. Nothing is sent."""
    from eigentensor_client.verbs.work import read_terms, read_work

    with paying(network, json=json) as (screen, client, show):
        work = read_work(given, client.gateway)
        found = client.plan(work, read_terms(client.network, offer))
        screen.result("eigentensor.plan/1", show.plan(found), *show.plan_lines(found, work.cast))
