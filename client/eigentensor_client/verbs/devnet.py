"""`eigentensor devnet`: a local network until Ctrl-C."""

from contextlib import ExitStack
from typing import Annotated, Any

import typer

from eigentensor.chain import from_wei
from eigentensor_client.accounts import CLIENT, choose_account
from eigentensor_client.devnet import CLIENT_TOKENS, Devnet, Party, devnet, start_operators
from eigentensor_client.processes import ended_by_signals
from eigentensor_client.screen import Screen, table
from eigentensor_client.verbs.options import Json

app = typer.Typer(rich_markup_mode=None)

NEXT = """
ready; in other terminals:
  eigentensor program capture client/examples/digits.py
  eigentensor ps
Ctrl-C ends everything."""


@app.command("devnet")
def run(
    operators: Annotated[int, typer.Option("--operators", min=0, max=20, help="Operators to start.")] = 3,
    block_time: Annotated[float, typer.Option("--block-time", min=0.1, help="Seconds between blocks.")] = 1.0,
    port: Annotated[int, typer.Option("--port", help="Port of the chain; 0 chooses a free one.")] = 8545,
    gateway_port: Annotated[int, typer.Option("--gateway-port", help="Port of the gateway; 0 chooses one.")] = 8600,
    json: Json = False,
) -> None:
    """Start a local network: chain, contracts, aggregator and operators. Ctrl-C ends all of it."""
    screen = Screen(as_json=json)
    with ended_by_signals(), ExitStack() as stack:
        with screen.work() as bar:
            bar("starting the chain, deploying the contracts, starting the aggregator")
            net = stack.enter_context(devnet(block_time=block_time, rpc_port=port, gateway_port=gateway_port))
            bar(f"starting {operators} operators")
            parties = start_operators(net, operators)
        screen.head(net.network.name, choose_account(net.network).address)
        screen.result("eigentensor.devnet/1", *_shown(net, parties, block_time))
        net.processes.wait(chain=net.anvil.process)


def _shown(net: Devnet, parties: list[Party], block_time: float) -> tuple[Any, ...]:
    deployment, client = net.network.deployment, choose_account(net.network).address
    fields = {
        "rpc_url": net.network.rpc_url,
        "gateway_url": net.network.gateway_url,
        "network": str(net.path),
        "client": client,
        "operators": [party.address for party in parties],
        "logs": str(net.folder / "logs"),
        "deployment": deployment.to_json(),
    }
    tokens = f"{from_wei(CLIENT_TOKENS)} {deployment.token_symbol}"
    rows = [
        ["chain", f"{net.network.rpc_url}, a block every {block_time:g} s"],
        ["market", deployment.task_market],
        ["gateway", net.network.gateway_url],
        *([party.name, party.address] for party in parties),
        ["client", f"{client} with {tokens} (anvil's published key {CLIENT}: worth nothing)"],
        ["logs", str(net.folder / "logs")],
    ]
    return fields, table(("", ""), rows), NEXT
