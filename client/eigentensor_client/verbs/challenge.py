"""`eigentensor challenge`: the games about results, for anybody who wants to understand one."""

from typing import Annotated, Any

import typer

from eigentensor.chain import Network
from eigentensor.errors import BlobNotFound, TaskNotFound
from eigentensor.program.codec import decode
from eigentensor.store import GatewayClient
from eigentensor_client import games
from eigentensor_client.screen import Screen, short, table
from eigentensor_client.verbs import options
from eigentensor_client.verbs.show import Show

app = typer.Typer(help="Games about results: list, show.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_games(
    task: Annotated[str | None, typer.Option("--task", metavar="UUID", help="Of this task only.")] = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """List the games about results, newest first."""
    screen = Screen(as_json=json)
    chosen = Network.load(network)
    screen.head(chosen.name, None)
    with GatewayClient(chosen.gateway_url) as gateway:
        found: list[dict[str, Any]] = []
        filters: dict[str, str | int] = {} if task is None else {"task": task}
        while True:
            page = gateway.challenges(**filters)
            found += page["challenges"]
            if not page.get("next"):
                break
            filters["cursor"] = page["next"]
    parties = ("task", "executor", "challenger")
    rows = [
        [str(game["game"]), *(short(game[name]) for name in parties), game["state"], str(game["opened"])]
        for game in found
    ]
    columns = ("game", *parties, "state", "since block")
    screen.result("eigentensor.challenges/1", {"challenges": found}, table(columns, rows))


@app.command()
def show(
    game: Annotated[int, typer.Argument(metavar="ID", help="The number of the game.")],
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Explain a game: who against whom, on what, every move, whose move it is, and what follows."""
    screen = Screen(as_json=json)
    chosen = Network.load(network)
    screen.head(chosen.name, None)
    with GatewayClient(chosen.gateway_url) as gateway:
        try:
            found = gateway.challenge(game)
        except BlobNotFound:
            raise TaskNotFound(f"there is no game {game}", fix="`eigentensor challenge list` lists them.") from None
        body = _body(gateway, found)
    fields = found | {"follows": games.follows(found), "body": body}
    screen.result("eigentensor.challenge/1", fields, *Show(chosen).game(found, body))


def _body(gateway: GatewayClient, game: dict[str, Any]) -> list[str] | None:
    """The text of the disputed call's body; None while no call is disputed, or where the program is nowhere."""
    number = games.disputed_call(game)
    if number is None:
        return None
    try:
        order = gateway.task(game["task"])["order"]
        program = decode(gateway.fetch(order["program"]).read_bytes())
    except BlobNotFound:
        return None
    return games.body(program, number)
