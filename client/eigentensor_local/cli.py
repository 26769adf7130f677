"""`eigentensor devnet`, a local network until Ctrl-C, and `eigentensor demo`, what the protocol does on one."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from eigentensor_client.screen import Screen, table
from eigentensor_client.verbs.options import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentensor.chain import Network
    from eigentensor.schemas.network import Deployment
    from eigentensor_client.schemas import networks as schemas

app = typer.Typer(rich_markup_mode=None)
demonstrating = typer.Typer(rich_markup_mode=None)

NEXT = """
ready; in other terminals:
  eigentensor run MODEL.onnx -i NAME=@FILE.npy
  eigentensor ps
{calls}Ctrl-C ends everything."""
CALLS = "  eigentensor channel open {url} --deposit 0.1\n"
LIE = """
{liar} lies about whatever it executes, for everybody; a task that only it may accept, and its conviction:
  eigentensor program capture {matmul}
  python -c "import numpy; numpy.save('one.npy', numpy.ones((256, 256), 'float32'))"
  eigentensor run matmul.program -i matrix_a=@one.npy -i matrix_b=@one.npy --check 100% --operator {address}
  eigentensor challenge list
  eigentensor challenge show 1"""


@app.command("devnet")
def run(
    operators: Annotated[int, typer.Option("--operators", min=0, max=20, help="Operators to start.")] = 3,
    cheat: Annotated[int, typer.Option("--cheat", min=0, help="How many of them lie about what they compute.")] = 0,
    block_time: Annotated[float, typer.Option("--block-time", min=0.1, help="Seconds between blocks.")] = 1.0,
    port: Annotated[int, typer.Option("--port", help="Port of the chain; 0 chooses a free one.")] = 8545,
    gateway_port: Annotated[int, typer.Option("--gateway-port", help="Port of the gateway; 0 chooses one.")] = 8600,
    json: Json = False,
) -> None:
    """Start a local network: chain, contracts, aggregator and operators. Ctrl-C ends all of it."""
    from eigentensor_client.accounts import choose_account
    from eigentensor_local.devnet import devnet
    from eigentensor_local.processes import ended_by_signals

    if cheat and cheat >= operators:
        raise typer.BadParameter("an honest operator is needed, which finds the lie", param_hint="--cheat")
    screen = Screen(as_json=json)
    with ended_by_signals(), ExitStack() as stack:
        with screen.work() as bar:
            bar(f"starting the chain with its contracts, an aggregator and {operators} operators")
            net = stack.enter_context(
                devnet(
                    operators,
                    liars=cheat,
                    block_time=block_time,
                    rpc_port=port,
                    gateway_port=gateway_port,
                    called=_matrices() if operators else None,
                )
            )
        client = choose_account(net.network).address
        screen.head(net.network.name, client)
        parties = [(party.name, party.address) for party in net.operators]
        logs, calls = net.folder / "logs", net.calls_url
        fields, *lines = shown(net.network, net.path, logs, client, parties, block_time, cheat, calls)
        screen.result(fields["schema"], fields, *lines)
        net.processes.wait(chain=net.anvil.process)


@demonstrating.command("demo")
def demo(
    web: Annotated[
        bool, typer.Option("--web", help="Show its pages instead, and on them how a lie is found; until Ctrl-C.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="With --web: open a browser on the dispute.")] = False,
) -> None:
    """Show what the protocol does, on a local network of its own: paid and checked tasks, a lie and its conviction, an
    operator that is silent, paid calls. Takes some four minutes, spends nothing, leaves nothing."""
    from eigentensor_local.demo import main
    from eigentensor_local.exhibit import exhibit

    if open_ and not web:
        raise typer.BadParameter("only pages can be opened: add --web", param_hint="--open")
    main(partial(exhibit, opens=open_) if web else None)


def shown(
    network: "Network",
    path: Path,
    logs: Path,
    client: str,
    parties: "Sequence[tuple[str, str]]",
    block_time: float,
    liars: int = 0,
    calls: str = "",
) -> tuple[Any, ...]:
    """`eigentensor.devnet/1`, and its lines; the last of the parties are `liars`, the first one takes `calls` there."""
    from eigentensor.chain import from_wei
    from eigentensor_client.accounts import CLIENT
    from eigentensor_local.devnet import CALL_PRICE, CLIENT_TOKENS

    symbol = network.deployment.token_symbol
    fields: schemas.Devnet = {
        "schema": "eigentensor.devnet/1",
        "rpc_url": network.rpc_url,
        "gateway_url": network.gateway_url,
        "network": str(path),
        "client": client,
        "operators": [address for _, address in parties],
        "liars": [address for _, address in parties[len(parties) - liars :]],
        "calls": calls or None,
        "logs": str(logs),
        "deployment": cast("Deployment", network.deployment.to_json()),
    }
    tokens = f"{from_wei(CLIENT_TOKENS)} {symbol}"
    paid = (
        [["calls", f"{calls}, by {parties[0][0]}: products of two matrices, {CALL_PRICE} {symbol} each"]]
        if calls
        else []
    )
    following = NEXT.format(calls=CALLS.format(url=calls) if calls else "")
    rows = [
        ["chain", f"{network.rpc_url}, a block every {block_time:g} s"],
        ["market", network.deployment.task_market],
        ["gateway", network.gateway_url],
        *map(list, parties),
        *paid,
        ["client", f"{client} with {tokens} (anvil's published key {CLIENT}: worth nothing)"],
        ["logs", str(logs)],
    ]
    if not liars:
        return fields, table(("", ""), rows), following
    liar, address = parties[-1]
    return fields, table(("", ""), rows), following, LIE.format(liar=liar, address=address, matmul=matmul())


def _matrices() -> bytes:
    """The program of `matmul`, encoded: what paid calls are of."""
    from eigentensor import TensorContext

    context = TensorContext()
    a, b = (context.add_graph_input(name, (256, 256)) for name in ("matrix_a", "matrix_b"))
    return context.compile_to_graph(a @ b).to_bytes()


def matmul() -> Path:
    """A program to begin with: as it is named in a clone, else the package's."""
    from eigentensor_client.examples import FOLDER
    from eigentensor_local.foundry import in_clone

    return Path("client", "examples", "matmul.py") if in_clone() else FOLDER / "matmul.py"
