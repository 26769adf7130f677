"""`eigentensor challenge`: the games about results, to look at, to play, and to be paid for."""

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor.errors import BlobNotFound, TaskNotFound
from eigentensor_client.screen import Screen, facts, short, table
from eigentensor_client.verbs import options
from eigentensor_client.verbs.challenge_open import open_challenge
from eigentensor_client.verbs.meeting import looking, pace_of, paying

if TYPE_CHECKING:
    from eigentensor.chain import Network
    from eigentensor.store import GatewayClient
    from eigentensor_client.claims import Claimed
    from eigentensor_client.client import Client
    from eigentensor_client.games import Following, Game, Here
    from eigentensor_client.schemas import results as schemas
    from eigentensor_client.tables import Table

app = typer.Typer(
    help="Games about results: list, show, watch, open, claim.", no_args_is_help=True, rich_markup_mode=None
)

LAST = (1 << 63) - 1  # of the numbers that the gateway takes
GameNumber = Annotated[int, typer.Argument(metavar="ID", min=1, max=LAST, help="The number of the game.")]
app.command("open")(open_challenge)
POLL = 1.0  # seconds between questions to the gateway


@app.command("list")
def list_games(
    task: Annotated[str | None, typer.Option("--task", metavar="UUID", help="Of this task only.")] = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """List the games about results, newest first."""
    with looking(network, json=json) as (screen, _, gateway):
        listed = list(_all(gateway, **({} if task is None else {"task": task})))
        screen.result("eigentensor.challenges/1", {"challenges": listed}, games_table(listed))


def games_table(listed: "Iterable[Game]") -> "Table":
    """The games, a line each."""
    parties = ("task", "executor", "challenger")
    rows = [
        [str(game["game"]), *(short(game[name]) for name in parties), game["state"], str(game["opened"])]
        for game in listed
    ]
    return table(("game", *parties, "state", "since block"), rows)


@app.command()
def show(game: GameNumber, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Explain a game: who against whom, on what, every move, whose move it is, and what follows."""
    from eigentensor.chain import game_words
    from eigentensor_client import games

    with looking(network, json=json) as (screen, chosen, gateway):
        current = _game(gateway, game)
        body = _body(gateway, current)
        fields = current | {"follows": game_words.follows(current), "body": body}
        screen.result(current["schema"], fields, *games.drawn(current, _here(chosen), body or ()))


@app.command()
def watch(
    game: Annotated[
        int | None, typer.Argument(metavar="[ID]", min=1, max=LAST, help="One game [all that are open].")
    ] = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Follow a game to its end, or all games until Ctrl-C. With --json an object for every change."""
    from eigentensor_client.games import following

    with looking(network, json=json) as (screen, chosen, gateway), following(screen, _here(chosen)) as shown:
        if game is None:
            _watch_all(gateway, shown)
        else:
            _watch_one(gateway, shown, game)


def _watch_one(gateway: "GatewayClient", shown: "Following", number: int) -> None:
    while True:
        current = _game(gateway, number)
        shown.one(current)
        if current["state"] != "open":
            return
        time.sleep(POLL)


def _watch_all(gateway: "GatewayClient", shown: "Following") -> None:
    followed: set[int] = set()
    while True:
        open_ = {game["game"] for game in _all(gateway, state="open")}
        current = [_game(gateway, number) for number in sorted(open_ | followed)]
        shown.many(current, "" if current else "no game is open")
        followed = open_
        time.sleep(POLL)


@app.command()
def claim(
    of: Annotated[
        str | None, typer.Argument(metavar="[TASK|ID]", help="A task's uuid, or a game's number [all games].")
    ] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take the whole balance out of the market too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is due, and when.")] = False,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Collect what is due to this account from its games: bonds, fees, shares of slashed stake. Safe to repeat."""
    from eigentensor_client import claims
    from eigentensor_client.games import Here

    with paying(network, json=json) as (screen, client, _):
        with screen.work() as bar:
            bar("reading the account's games")
            due = claims.due(client.chain, _claimed_games(client, of))
        claimed = []
        with screen.work() as bar:
            for one in claims.send(client.chain, due, dry_run=dry_run):
                bar(f"{one.claim.message} of game {one.claim.facts.game.game_id}: {one.words(client.pace)}")
                claimed.append(one)
        balance = client.chain.market.balance_of(client.address).balance
        if withdraw and balance and not dry_run:
            client.chain.market.withdraw(client.address, balance)
        here = Here(client.address, client.amount, client.pace)
        show_claims(screen, here, claimed, balance, withdrawn=withdraw and not dry_run)


def show_claims(screen: Screen, here: "Here", claimed: "Sequence[Claimed]", balance: int, *, withdrawn: bool) -> None:
    """`eigentensor.claim/1`: what is due to the account that looks, and its `balance` (wei), which is in the market or
    has just been taken out."""
    rows = [
        [
            one.claim.message,
            str(one.claim.facts.game.game_id),
            here.amount(one.claim.brings),
            one.claim.what,
            one.words(here.pace),
        ]
        for one in claimed
    ]
    titles = ("message", "game", "brings", "what", "when")
    shown = [table(titles, rows)] if rows else [f"nothing is due to {here.account} from games"]
    where = "withdrawn to the wallet" if withdrawn else "in the market: --withdraw takes it out"
    fields: schemas.Claim = {
        "schema": "eigentensor.claim/1",
        "account": here.account or "",
        "claims": [one.to_json() for one in claimed],
        "balance": str(0 if withdrawn else balance),
        "withdrawn": str(balance if withdrawn else 0),
    }
    screen.result(fields["schema"], fields, *shown, facts([["balance", f"{here.amount(balance)} {where}"]]))


def _claimed_games(client: "Client", of: str | None) -> list[int]:
    """The account's games: one, those about a task, or all that the gateway knows."""
    if of is not None and of.isdigit() and len(of) < 19:
        return [int(_game(client.gateway, int(of))["game"])]
    if of is None:
        return [game["game"] for game in _all(client.gateway, challenger=client.address)][::-1]
    return list(client.chain.games.of(bytes.fromhex(client.task(of).uuid)))


def _all(gateway: "GatewayClient", **filters: str | int) -> "Iterator[Game]":
    """The rows of all pages of the gateway's list."""
    while True:
        page = gateway.challenges(**filters)
        yield from page["challenges"]
        if not page.get("next"):
            return
        filters["cursor"] = page["next"]


def _game(gateway: "GatewayClient", number: int) -> "Game":
    try:
        return gateway.challenge(number)
    except BlobNotFound:
        raise TaskNotFound(f"there is no game {number}", fix="`eigentensor challenge list` lists them.") from None


def _body(gateway: "GatewayClient", game: "Game") -> list[str] | None:
    """The text of the disputed call's body; None while no call is disputed, or where the program is nowhere."""
    from eigentensor.chain import game_words
    from eigentensor.program.codec import decode

    number = game_words.disputed_call(game)
    if number is None:
        return None
    try:
        order = gateway.task(game["task"])["order"]
        program = decode(gateway.fetch(order["program"]).read_bytes())
    except BlobNotFound:
        return None
    return game_words.disputed_body(program, number)


def _here(network: "Network") -> "Here":
    """As somebody who looks on."""
    from eigentensor_client.amounts import amount
    from eigentensor_client.games import Here

    return Here(None, partial(amount, deployment=network.deployment), pace_of(network))
