"""`eigentensor network`: which networks there are, and where the values come from that a verb uses."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import typer

from eigentensor.errors import ChainError, ConfigError, StoreError
from eigentensor_client.screen import Screen, facts, table
from eigentensor_client.verbs import options

if TYPE_CHECKING:
    from eigentensor.chain import Network
    from eigentensor.schemas.network import Deployment
    from eigentensor.schemas.network import Network as NetworkFields
    from eigentensor_client.schemas import networks as schemas
    from eigentensor_client.tables import Table

app = typer.Typer(help="Networks: list, show.", no_args_is_help=True, rich_markup_mode=None)
SOURCES = {"COMMANDLINE": "--network", "ENVIRONMENT": "$EIGENTENSOR_NETWORK"}


@app.command("list")
def list_networks(json: options.Json = False) -> None:
    """List the networks that can be named, and whether their chains answer."""
    from eigentensor.chain import Network
    from eigentensor.chain.network import network_path
    from eigentensor_client.accounts import running

    screen, listed = Screen(as_json=json), list["schemas.ListedNetwork"]()
    for path in sorted(network_path("any").parent.glob("*.json")):
        try:
            network = Network.load(path)
        except ConfigError as error:
            listed.append({"name": path.stem, "file": str(path), "wrong": error.what})
        else:
            listed.append(
                {
                    "name": path.stem,
                    "file": str(path),
                    "rpc_url": network.rpc_url,
                    "chain_id": network.deployment.chain_id,
                    "answers": running(path) is not None,
                }
            )
    shown = networks_table(listed) if listed else "none: `eigentensor devnet` starts the network `local`"
    fields: schemas.Networks = {"schema": "eigentensor.networks/1", "networks": listed}
    screen.result(fields["schema"], fields, shown)


@app.command()
def show(context: typer.Context, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Show a network as the other verbs see it: every value, and where it comes from."""
    from eigentensor.chain import Network

    screen, chosen = Screen(as_json=json), Network.load(network)
    source = context.get_parameter_source("network")
    fields = _fields(chosen, SOURCES.get(source.name if source else "", "the default"), network)
    screen.result(fields["schema"], fields, network_facts(fields))


def _fields(chosen: "Network", source: str, option: str | None) -> "NetworkFields":
    """`eigentensor.network/1`; `block` and `operators` are null where nobody answers."""
    from pathlib import Path

    from eigentensor.chain import Reader
    from eigentensor.chain.network import network_path
    from eigentensor.store import Queries
    from eigentensor_client.accounts import origin

    reader, block, operators = Reader(chosen), None, None
    try:
        reader.node.check()
        block = reader.node.block_number()
    except ChainError:
        pass
    try:
        with Queries(chosen.gateway_url, attempts=1) as gateway:
            operators = sum(operator["member"] for operator in gateway.operators()["operators"])
    except StoreError:
        pass
    own_file = option if option is not None and Path(option).suffix == ".json" else None
    return {
        "schema": "eigentensor.network/1",
        "name": chosen.name,
        "chosen_by": source,
        "file": own_file or str(network_path(chosen.name)),
        "rpc_url": chosen.rpc_url,
        "gateway_url": chosen.gateway_url,
        "block": block,
        "operators": operators,
        "key": origin(chosen),
        "deployment": cast("Deployment", chosen.deployment.to_json()),
    }


def networks_table(listed: Iterable[Mapping[str, Any]]) -> "Table":
    """The networks, a line each."""

    def says(one: Mapping[str, Any]) -> str:
        return one.get("wrong") or ("answers" if one["answers"] else "nobody answers")

    rows = [[one["name"], str(one.get("chain_id", "")), one.get("rpc_url", ""), says(one)] for one in listed]
    return table(("network", "chain", "node", "now"), rows)


def network_facts(fields: Mapping[str, Any]) -> "Table":
    """`eigentensor.network/1` for people."""
    deployment = fields["deployment"]
    here = "nobody answers" if fields["block"] is None else f"at block {fields['block']}"
    many = "does not answer" if fields["operators"] is None else f"{fields['operators']} operators"
    token = deployment["token"]
    return facts(
        [
            ["network", f"{fields['name']}, by {fields['chosen_by']}"],
            ["file", fields["file"]],
            ["chain", f"{deployment['chainId']} at {fields['rpc_url']}: {here}"],
            ["gateway", f"{fields['gateway_url']}: {many}"],
            ["market", deployment["taskMarket"]],
            ["token", f"{token['symbol']} {token['address']}"],
            ["key", fields["key"]],
        ]
    )
