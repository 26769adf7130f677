"""`eigentensor channel`: paid calls without a task each; their channels."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor_client.screen import Screen, facts, short, table
from eigentensor_client.verbs import options
from eigentensor_client.verbs.meeting import paying
from eigentensor_client.verbs.timeout import within

if TYPE_CHECKING:
    from eigentensor_client.amounts import Amount
    from eigentensor_client.channels.channel import Channel
    from eigentensor_client.channels.ledger import Account, Ledger
    from eigentensor_client.channels.watch import Seen
    from eigentensor_client.client import Client
    from eigentensor_client.schemas import channels as schemas
    from eigentensor_client.tables import Table

app = typer.Typer(
    help="Paid calls in milliseconds: open, list, show, fund, leave, close, watch, receipt.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_AGREED = 15.0  # seconds in which an operator signs a last voucher

Name = Annotated[str, typer.Argument(metavar="CHANNEL", help="A channel's name, or the beginning of it.")]


@app.command("open")
def open_(
    operator: Annotated[
        str, typer.Argument(metavar="OPERATOR", help="Where it takes calls, a URL; or its address, if it says where.")
    ],
    deposit: Annotated[str, typer.Option("--deposit", help="What is paid in, in tokens; the rest comes back.")],
    program: Annotated[
        list[str] | None, typer.Option("--program", help="A program's uuid that is to be called: it must be offered.")
    ] = None,
    max_price: Annotated[str | None, typer.Option("--max-price", help="The most that a call may cost.")] = None,
    value_at_risk: Annotated[
        str, typer.Option("--value-at-risk", help="What wrong results could gain the operator in one batch.")
    ] = "0",
    by_wallet: Annotated[
        bool, typer.Option("--by-wallet", help="Let the wallet's key sign calls, not one of the channel's own.")
    ] = False,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Open a channel at an operator: a deposit on chain, and a key of the channel's own that pays for calls from it."""
    from eigentensor.chain import to_wei
    from eigentensor.store import parse_name
    from eigentensor_client.channels.channel import Channel, Policy
    from eigentensor_client.channels.opening import Wish

    with paying(network, json=json) as (screen, client, _):
        decimals = client.network.deployment.token_decimals
        wish = Wish(
            to_wei(deposit, decimals),
            None if max_price is None else to_wei(max_price, decimals),
            tuple(bytes.fromhex(parse_name(name)) for name in program or ()),
            value_at_risk=to_wei(value_at_risk, decimals),
        )
        with screen.work() as bar:
            made = Channel.open(
                client, _url(client, operator), wish, policy=Policy(looks=0), by_wallet=by_wallet, report=bar
            )
        with made:
            _shown(screen, client, made.ledger, made.account)


@app.command("list")
def list_(network: options.NetworkName = None, json: options.Json = False) -> None:
    """List the channels of this user, as far as they were looked at."""
    with _ledger(network, json=json) as (screen, client, ledger):
        accounts = ledger.accounts(client.network.deployment.channels_domain)
        show_channels(screen, [describe(ledger, account) for account in accounts], client.amount)


@app.command()
def show(name: Name, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Show a channel as the chain has it: its money, its calls, its batches."""
    with _ledger(network, json=json) as (screen, client, ledger):
        account = _account(client, ledger, name)
        account = _stands(client, ledger, account)
        _shown(screen, client, ledger, account)


@app.command()
def fund(
    name: Name,
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="How many tokens.")],
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Add to the deposit of a channel."""
    from eigentensor.chain import to_wei

    with _ledger(network, json=json) as (screen, client, ledger):
        account = _account(client, ledger, name)
        wei = to_wei(amount, client.network.deployment.token_decimals)
        with screen.work() as bar:
            bar(f"paying in {client.amount(wei)}")
            client.chain.channels.fund(account.agreement.channel, wei)
        _shown(screen, client, ledger, _stands(client, ledger, account))


@app.command()
def leave(name: Name, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Make the newest batch a channel's last one: no more calls. `close` gets back what is left."""
    with _taken(network, name, json=json) as (screen, client, channel):
        channel.leave()
        channel.look()
        _shown(screen, client, channel.ledger, channel.account)


@app.command()
def close(
    name: Name,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its last batch: what a conviction gives back stays yours.")
    ] = False,
    timeout: options.Timeout = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """End a channel, and get back what is left of the deposit: at once, if its operator signs a last voucher, else when
    its last batch is committed or has lapsed."""
    from eigentensor.errors import NotYet

    with within(timeout) as clock, _taken(network, name, json=json) as (screen, client, channel):
        if not wait and _concluded(screen, client, channel):
            return
        channel.leave()
        with screen.work() as bar, screen.goes_on(f"`eigentensor channel close {name}` goes on with it"):
            while True:
                try:
                    channel.end()
                    break
                except NotYet as error:
                    left = clock.left()
                    if left is not None and left <= client.poll:
                        raise
                    bar(error.what)
                    channel.look()
                    time.sleep(client.poll)
        _shown(screen, client, channel.ledger, channel.account)


def _concluded(screen: Screen, client: "Client", channel: "Channel") -> bool:
    """Whether the operator signed a last voucher, and the channel is over."""
    from eigentensor.errors import ChannelError, TaskError

    try:
        with screen.work() as bar:
            bar("the operator is asked for its signature of a last voucher")
            channel.conclude(_AGREED)
    except (ChannelError, TaskError) as error:
        screen.say(f"the operator concludes nothing, its last batch is waited for: {error.what}")
        return False
    _shown(screen, client, channel.ledger, channel.account)
    return True


@app.command()
def watch(
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two looks.")] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Hold what operators commit to what they signed, convict who lied, and fetch what comes back, until Ctrl-C."""
    from eigentensor.errors import ChainError
    from eigentensor_client.channels.ledger import Stage
    from eigentensor_client.channels.repeating import Repeater
    from eigentensor_client.channels.watch import Watch

    with (
        _ledger(network, json=json) as (screen, client, ledger),
        closing(Repeater(client.chain, client.gateway, ledger)) as repeater,
    ):
        watching, domain = Watch(client.chain, ledger, repeater), client.network.deployment.channels_domain
        while True:
            for account in ledger.accounts(domain):
                if account.stage is not Stage.ENDED:
                    try:
                        _, seen = watching.look(account)
                    except ChainError as error:
                        if once:
                            raise
                        screen.say(f"the chain is away, to be asked again: {error.what}")
                        continue
                    for one in seen:
                        say_seen(screen, account.agreement.channel.hex(), one)
            if once:
                return
            time.sleep(every)


@app.command()
def receipt(
    name: Name,
    index: Annotated[int, typer.Argument(metavar="CALL", min=0, help="Which call of the channel, from zero.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the receipt.")],
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Write the receipt of one call; `receipt check` says what it proves."""
    from eigentensor_client import receipts

    with _ledger(network, json=json) as (screen, client, ledger):
        account = _stands(client, ledger, _account(client, ledger, name))
        signed = ledger.receipt(account, index)
        receipts.write_call(output, signed)
        fields: schemas.CallReceiptFile = {
            "schema": "eigentensor.call-receipt-file/1",
            **receipts.call_facts(signed),
            "state": ledger.state_of(account.agreement.channel, index),
            "file": str(output),
        }
        rows = [["call", f"{index} of channel {fields['channel']}"], ["state", fields["state"]]]
        screen.result(fields["schema"], fields, facts([*rows, ["written", str(output)]]))


# ---- How ----


@contextmanager
def _ledger(network: str | None, *, json: bool) -> "Iterator[tuple[Screen, Client, Ledger]]":
    from eigentensor_client.channels.ledger import Ledger

    with paying(network, json=json) as (screen, client, _), Ledger() as ledger:
        yield screen, client, ledger


@contextmanager
def _taken(network: str | None, name: str, *, json: bool) -> "Iterator[tuple[Screen, Client, Channel]]":
    from eigentensor_client.channels.channel import Channel, Policy

    with (
        _ledger(network, json=json) as (screen, client, ledger),
        Channel.take_up(client, name, policy=Policy(looks=0), ledger=ledger) as channel,
    ):
        yield screen, client, channel


def _url(client: "Client", operator: str) -> str:
    """Where an operator takes calls. Raises CallRefused for an address that says nowhere that it does."""
    from eigentensor.addresses import is_address
    from eigentensor.errors import CallRefused
    from eigentensor_client.channels.operators import announced

    if not is_address(operator):
        return operator
    if not (urls := announced(client.gateway, operator)):
        raise CallRefused(f"operator {operator} does not say where it takes calls", fix="Name its URL.")
    return urls[0]


def _account(client: "Client", ledger: "Ledger", name: str) -> "Account":
    return ledger.account(name, client.network.deployment.channels_domain)


def _stands(client: "Client", ledger: "Ledger", account: "Account") -> "Account":
    """As the chain has it now; what is due is left to `watch`, and to whoever has the channel."""
    from eigentensor_client.channels.watch import Watch

    return Watch(client.chain, ledger).look(account)[0]


def describe(ledger: "Ledger", account: "Account") -> "schemas.ChannelFacts":
    """A channel as JSON."""
    agreed, payer = account.agreement, ledger.payer(account)
    lines: list[schemas.ChannelLine] = [
        {
            "number": one.number,
            "first": one.line.first,
            "count": one.line.count,
            "amount": str(one.line.amount),
            "block": one.block,
            "state": one.state,
            "checked": sum(bool(check.confirmed) for check in one.checks),
        }
        for one in ledger.lines(agreed.channel)
    ]
    return {
        "channel": agreed.channel.hex(),
        "url": agreed.url,
        "operator": agreed.offer.operator,
        "pool": agreed.deal.pool.hex(),
        "stage": account.stage.value,
        "deposit": str(account.deposit),
        "paid": str(account.paid),
        "owed": str(payer.owed),
        "left": str(max(0, payer.left)),
        "calls": payer.count,
        "under_way": len(payer.sent),
        "lines": lines,
    }


def _shown(screen: Screen, client: "Client", ledger: "Ledger", account: "Account") -> None:
    show_channel(screen, describe(ledger, account), client.amount)


def show_channel(screen: Screen, fields: "schemas.ChannelFacts", amount: "Amount") -> None:
    """`eigentensor.channel-account/1`."""
    rows = [
        ["channel", fields["channel"]],
        ["operator", f"{fields['operator']}, {fields['url']}"],
        ["stage", fields["stage"]],
        ["deposit", f"{amount(int(fields['deposit']))}, {amount(int(fields['left']))} of it for calls until a commit"],
        ["owed", f"{amount(int(fields['owed']))}, {amount(int(fields['paid']))} of it committed"],
        ["calls", f"{fields['calls']}{f', {under} under way' if (under := fields['under_way']) else ''}"],
    ]
    columns = ("batch", "calls", "amount", "block", "checked", "is")
    lines = [
        [str(one["number"]), f"{one['first']} to {one['first'] + one['count'] - 1}", amount(int(one["amount"])),
         str(one["block"]), str(one["checked"]), one["state"]]
        for one in fields["lines"]
    ]  # fmt: skip
    shown: list[str | Table] = [facts(rows)]
    if lines:
        shown += ["", table(columns, lines)]
    screen.result("eigentensor.channel-account/1", fields, *shown)


def show_channels(screen: Screen, channels: "list[schemas.ChannelFacts]", amount: "Amount") -> None:
    """`eigentensor.channels/1`."""
    rows = [
        [short(one["channel"]), short(one["operator"]), one["url"], one["stage"], amount(int(one["deposit"])),
         str(one["calls"])]
        for one in channels
    ]  # fmt: skip
    columns = ("channel", "operator", "at", "stage", "deposit", "calls")
    shown = table(columns, rows) if rows else "no channels: `eigentensor channel open` opens one"
    screen.result("eigentensor.channels/1", {"channels": channels}, shown)


def say_seen(screen: Screen, channel: str, seen: "Seen") -> None:
    """`eigentensor.channel-look/1`."""
    fields: schemas.ChannelLook = {
        "schema": "eigentensor.channel-look/1",
        "channel": channel,
        "number": seen.number,
        "state": seen.state,
        "what": seen.what,
    }
    screen.result(fields["schema"], fields, f"{short(channel)}  batch {seen.number}, {seen.state}: {seen.what}")
