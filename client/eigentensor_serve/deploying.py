"""`eigentensor deploy`: a program with its weights as an endpoint of `eigentensor serve`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor.errors import BindingError
from eigentensor_client.screen import Screen, facts
from eigentensor_client.verbs import options
from eigentensor_client.verbs.options import grouped

if TYPE_CHECKING:
    from eigentensor_serve.apps.registry import App

app = typer.Typer(rich_markup_mode=None)


@app.command("deploy")
@grouped
def run(
    program: options.ProgramName,
    name: Annotated[str, typer.Option("--name", help="The endpoint is /v1/apps/NAME.")],
    offer: options.Offer,
    local: Annotated[
        bool, typer.Option("--local", help="For `serve --local`: no chain, no payment, no check.")
    ] = False,
    weights: Annotated[
        str | None, typer.Option("--weights", "-w", metavar="FILE|UUID", help="The weights: a file, or their uuid.")
    ] = None,
    states: Annotated[
        str | None, typer.Option("--states", metavar="FILE|UUID", help="The first states: a file, or their uuid.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", help="A model file: chat or embeddings, with a tokenizer.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="Tokens that a day may cost [no limit of its own].")
    ] = None,
    wait: Annotated[str, typer.Option("--wait", help="What an answer waits for: result, checked or final.")] = "result",
    data: options.ServeData = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Deploy a program as the next version of an app, which a running `eigentensor serve` serves at once.

    ONNX models and Python files become programs first, with weights of their own.
    """
    from eigentensor.chain import to_wei
    from eigentensor_client.client import Client
    from eigentensor_client.orders import check_stage, read_terms, terms_for
    from eigentensor_client.verbs.show import Show
    from eigentensor_serve.apps.deployment import Here, deploy, deploy_local, read_named
    from eigentensor_serve.apps.registry import Apps, serve_folder

    screen, apps = Screen(as_json=json), Apps(data or serve_folder())
    check_stage(wait)
    if local and (budget is not None or offer.max_price is not None):
        raise BindingError("nothing is paid with --local", fix="Leave --max-price and --budget out, or --local.")
    if local:
        screen.head("none, on this machine", None)
        parts = read_named(program, Here(apps.store), weights, states, model, apps)
        told, price = deploy_local(apps, name, parts), "nothing: this machine executes it"
    else:
        with Client(network, store=apps.store) as client:
            screen.head(client.network.name, client.address)
            terms = terms_for(wait, read_terms(client.network, offer))
            parts = read_named(program, client.gateway, weights, states, model, apps)
            daily = None if budget is None else to_wei(budget, client.network.deployment.token_decimals)
            with screen.work() as bar:
                told, plan = deploy(client, apps, name, parts, terms, wait, daily, bar)
            show = Show(client.network)
            for line in show.plan_lines(plan):
                screen.say(line)
            price = f"at most {show.amount(plan.escrow)}"
            price += "" if daily is None else f", {show.amount(daily)} a day"
    screen.result("eigentensor.app/1", told.to_json(), facts([*rows_of(told), ["a task", price], *urls_of(told)]))


def rows_of(app: "App") -> list[list[str]]:
    """What people read of an app."""
    model = [["model", f"{app.model.kind}, tokenizer {app.model.tokenizer}"]] if app.model else []
    market = f"network {app.market.network}, chain {app.market.domain.chain_id}" if app.market else "this machine"
    roots = {"weights": app.weights, "states": app.states}
    return [
        ["app", f"{app.name}, version {app.version}"],
        ["deployed", app.created],
        ["program", app.program],
        *([word, root] for word, root in roots.items() if root),
        *model,
        ["executed by", market],
    ]


def urls_of(app: "App") -> list[list[str]]:
    """Where `serve` answers for it."""
    texts = {"chat": "/v1/chat/completions", "embeddings": "/v1/embeddings"}
    text = [["as a model", f"{texts[app.model.kind]}, model {app.name!r}"]] if app.model else []
    return [["endpoint", f"POST /v1/apps/{app.name}"], ["page", f"/v1/apps/{app.name}/docs"], *text]
