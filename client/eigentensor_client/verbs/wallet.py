"""`eigentensor wallet`: the account that pays, and its money."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor.errors import ConfigError, InsufficientFunds
from eigentensor_client.screen import Screen, facts
from eigentensor_client.verbs import options
from eigentensor_client.verbs.meeting import paying

if TYPE_CHECKING:
    from eigentensor_client.amounts import Amount
    from eigentensor_client.client import Client
    from eigentensor_client.schemas import networks as schemas
    from eigentensor_client.tables import Table

app = typer.Typer(
    help="The account that pays: show, deposit, withdraw, new.", no_args_is_help=True, rich_markup_mode=None
)

Tokens = Annotated[str, typer.Argument(metavar="AMOUNT", help="How many tokens.")]
TokensOrAll = Annotated[str, typer.Argument(metavar="AMOUNT|all", help="How many tokens, or all.")]
SHORTEST = 12  # characters of a password


@app.command()
def show(network: options.NetworkName = None, json: options.Json = False) -> None:
    """Show the account: its address, where its key comes from, and what it has in the wallet and in the market."""
    with paying(network, json=json) as (screen, client, _):
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
            raise InsufficientFunds(f"the wallet has {client.amount(there)}", fix="Deposit less, or get tokens.")
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
def new(
    keystore: Annotated[Path, typer.Argument(metavar="FILE", help="The keystore to write.")],
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", envvar="EIGENTENSOR_PASSWORD_FILE", help="Its password [asked for]."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Make a key and write it as a V3 keystore that only you can read. The key itself is never shown."""
    from eth_account import Account

    from eigentensor.chain import save_account

    screen, password = Screen(as_json=json), _password(password_file)
    account = Account.create()
    save_account(account, keystore, password)
    fields: schemas.Keystore = {
        "schema": "eigentensor.keystore/1",
        "address": account.address,
        "keystore": str(keystore),
    }
    rows = [["address", account.address], ["keystore", str(keystore)]]
    screen.result(fields["schema"], fields, facts(rows))
    screen.say(f"to pay with it: export EIGENTENSOR_KEYSTORE={keystore} EIGENTENSOR_PASSWORD_FILE=…")


def _password(file: Path | None) -> str:
    """From the file, or asked for twice in a terminal. Raises ConfigError."""
    if file is not None:
        try:
            password = file.read_text().rstrip("\r\n")
        except OSError as error:
            raise ConfigError(f"cannot read {file}: {error.strerror}", fix="Name a file with the password.") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{file} is not text", fix="Name a file that has nothing but the password.") from None
    elif sys.stdin.isatty() and sys.stderr.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise ConfigError("there is no terminal to ask for a password", fix="Name a --password-file.")
    if len(password) < SHORTEST:
        raise ConfigError(f"the password has fewer than {SHORTEST} characters", fix="Choose a longer one.")
    return password


@contextmanager
def _sending(screen: Screen, text: str) -> Iterator[None]:
    """While a transaction is sent and mined."""
    unsure = "the transaction may be on its way: `eigentensor wallet show` tells what has arrived"
    with screen.goes_on(unsure), screen.work() as bar:
        bar(text)
        yield


def _show(screen: Screen, client: "Client") -> None:
    from eigentensor_client.accounts import origin

    chain = client.chain
    account, coins = chain.market.balance_of(client.address), chain.node.ether_of(client.address)
    fields: schemas.Wallet = {
        "schema": "eigentensor.wallet/1",
        "address": client.address,
        "key": origin(client.network),
        "coins": str(coins),
        "tokens": str(chain.token.balance_of(client.address)),
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
