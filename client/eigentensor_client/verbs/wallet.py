"""`eigentensor wallet`: the account that pays, and its money."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor.errors import ConfigError, InsufficientFunds
from eigentensor_client.screen import Screen, facts
from eigentensor_client.verbs import keystores, options
from eigentensor_client.verbs.meeting import knowing, paying

if TYPE_CHECKING:
    from eigentensor_client.amounts import Amount
    from eigentensor_client.schemas import networks as schemas
    from eigentensor_client.tables import Table
    from eigentensor_client.tasks import Tasks

app = typer.Typer(
    help="The account that pays: show, deposit, withdraw, fund, new, import, list.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Tokens = Annotated[str, typer.Argument(metavar="AMOUNT", help="How many tokens.")]
TokensOrAll = Annotated[str, typer.Argument(metavar="AMOUNT|all", help="How many tokens, or all.")]
COINS = 10 * 10**18  # wei of a local chain's coin that an account has at least once it is funded


@app.command()
def show(network: options.NetworkName = None, json: options.Json = False) -> None:
    """Show the account: its address, where its key comes from, and what it has in the wallet and in the market."""
    with knowing(network, json=json) as (screen, client):
        _show(screen, client)


@app.command()
def deposit(amount: Tokens, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Pay tokens of the wallet into the market, where orders take them from first. Posting does it by itself."""
    from eigentensor.chain import to_wei

    with paying(network, json=json) as (screen, client, _):
        wei, there = (
            to_wei(amount, client.network.deployment.token_decimals),
            client.chain.token.balance_of(client.address),
        )
        if wei > there:
            words, topic = "Deposit less, or get tokens.", client.network.funding
            raise InsufficientFunds(f"the wallet has {client.amount(there)}", fix=words, topic=topic)
        with _sending(screen, f"depositing {client.amount(wei)}"):
            client.chain.market.deposit(client.address, wei)
        _show(screen, client)


@app.command()
def withdraw(amount: TokensOrAll, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Take tokens out of the market into the wallet. What open tasks, collateral and bonds hold stays there."""
    from eigentensor.chain import to_wei

    with paying(network, json=json) as (screen, client, _):
        free = client.chain.market.balance_of(client.address).balance
        wei = free if amount == "all" else to_wei(amount, client.network.deployment.token_decimals)
        if wei > free:
            raise InsufficientFunds(f"{client.amount(free)} are free in the market", fix="Withdraw less, or all.")
        with _sending(screen, f"withdrawing {client.amount(wei)}"):
            client.chain.market.withdraw(client.address, wei)
        _show(screen, client)


@app.command()
def fund(
    amount: Annotated[str, typer.Argument(metavar="[AMOUNT]", help="How many tokens; 0 gives coins alone.")] = "100",
    to: Annotated[str | None, typer.Option("--to", metavar="ADDRESS", help="Another account than who pays.")] = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Give an account of a local chain test tokens, and coins for gas. Other chains give nothing."""
    from eigentensor.chain import Network, to_wei
    from eigentensor.chain.keys import checked_address

    chosen, other = Network.load(network), checked_address(to, "--to")
    token, symbol = chosen.deployment.token, chosen.deployment.token_symbol
    if not chosen.is_local:
        raise ConfigError(
            f"network {chosen.name} is no local chain: nobody makes its tokens or coins",
            fix=f"Send coins for gas and {symbol} (token {token}) to {other or 'the account of `wallet show`'}.",
        )
    wei = to_wei(amount, chosen.deployment.token_decimals)
    with paying(network, json=json) as (screen, client, _):
        address = other or client.address
        with _sending(screen, f"giving {client.amount(wei)} and coins to {address}"):
            for account in {client.address, address}:
                client.chain.node.give_ether(account, COINS)
            if wei:
                client.chain.token.mint(address, wei)
        _show(screen, client, address)


app.command()(keystores.new)
app.command("import")(keystores.import_key)
app.command("list")(keystores.list_keystores)


@contextmanager
def _sending(screen: Screen, text: str) -> Iterator[None]:
    """While a transaction is sent and mined."""
    unsure = "the transaction may be on its way: `eigentensor wallet show` tells what has arrived"
    with screen.goes_on(unsure), screen.work() as bar:
        bar(text)
        yield


def _show(screen: Screen, client: "Tasks", address: str = "") -> None:
    """The account that pays, unless another address is named."""
    from eigentensor_client.accounts import origin

    chain, address = client.chain, address or client.address
    account, coins = chain.market.balance_of(address), chain.node.ether_of(address)
    fields: schemas.Wallet = {
        "schema": "eigentensor.wallet/1",
        "address": address,
        "key": origin(client.network) if address == client.address else "elsewhere",
        "coins": str(coins),
        "tokens": str(chain.token.balance_of(address)),
        "balance": str(account.balance),
        "held": str(account.collateral),
    }
    screen.result(fields["schema"], fields, wallet_facts(fields, client.amount))


def wallet_facts(fields: "schemas.Wallet", amount: "Amount") -> "Table":
    """Coins are in wei of the chain's coin, which every chain here has 18 decimals of."""
    from eigentensor.chain import from_wei

    return facts(
        [
            ["address", fields["address"]],
            ["key", fields["key"]],
            ["wallet", amount(int(fields["tokens"]))],
            ["market", f"{amount(int(fields['balance']))} free, {amount(int(fields['held']))} held"],
            ["for gas", f"{from_wei(int(fields['coins']))} of the chain's coin"],
        ]
    )
