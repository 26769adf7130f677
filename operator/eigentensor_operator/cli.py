"""`eigentensor operator`: bench, up, run, status, drain, leave. Nothing heavy is imported before a verb runs."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor_operator import owner
from eigentensor_operator.options import (
    AsJson,
    ClusterToken,
    DataDir,
    Device,
    Keystore,
    MinPrice,
    Network,
    PasswordFile,
    PricePerHour,
    head,
    note,
    show,
)

if TYPE_CHECKING:
    from eigentensor_operator import schemas

app = typer.Typer(
    help="Execute strangers' programs for money.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
app.command()(owner.up)


@app.command()
def bench(
    network: Network = None,
    data_dir: DataDir = None,
    device: Device = None,
    cluster_token: ClusterToken = None,
    price_per_hour: PricePerHour = None,
    margin: Annotated[str | None, typer.Option("--margin", help="Asked beyond the costs: 0.1 for a tenth.")] = None,
    interest: Annotated[str | None, typer.Option("--interest", help="What locked tokens cost a year: 0.03.")] = None,
    disputed: Annotated[
        str | None, typer.Option("--disputed", help="Part of right results that somebody challenges: 0.01.")
    ] = None,
    min_price: MinPrice = None,
    write: Annotated[
        bool, typer.Option("--write", help="Keep speed and prices where `run` and `up` read them.")
    ] = False,
    unsafe_no_sandbox: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Measure without the sandbox.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure this machine, and say what tasks must pay for it: computing, gas, games, what they lock, and a margin."""
    asked = {
        "device": device, "cluster_token": None if cluster_token is None else str(cluster_token.absolute()),
        "price_per_hour": price_per_hour, "margin": margin, "interest": interest,
        "disputed": disputed, "min_price": min_price,
    }  # fmt: skip
    from eigentensor.chain import Network as NetworkFile
    from eigentensor.chain import Reader
    from eigentensor_operator.bench import measure
    from eigentensor_operator.config import Settings, write_file
    from eigentensor_operator.device import device_of
    from eigentensor_operator.quoting import prices, speed

    settings = Settings.load(network=network, data_dir=data_dir, unsafe_no_sandbox=unsafe_no_sandbox or None, **asked)
    network_file = NetworkFile.load(settings.network)
    chain = Reader(network_file)
    chain.node.check()
    head(network_file.name, "none")
    unsafe, token = settings.unsafe_no_sandbox, settings.cluster_token
    machine = device_of(settings.device, settings.max_memory, unsafe=unsafe, token=token)
    note("holds the device to the reference")
    machine.check()
    measured = measure(machine, network_file.gateway_url, note)
    made = prices(measured, network_file.deployment, settings, chain.node.gas_price())
    kept = speed(measured) | {name: text for name, text in asked.items() if text is not None}
    if write:
        write_file(settings.data_dir, kept)
    show(made.to_json(kept, written=write), made.lines(), as_json=as_json)
    note(f"kept in {settings.data_dir / 'operator.toml'}" if write else "--write keeps this for `run` and `up`")


@app.command()
def run(
    network: Network = None,
    keystore: Keystore = None,
    password_file: PasswordFile = None,
    address: Annotated[str | None, typer.Option("--address", help="The operator; by default the signer.")] = None,
    data_dir: DataDir = None,
    device: Device = None,
    cluster_token: ClusterToken = None,
    min_price: MinPrice = None,
    price_per_hour: PricePerHour = None,
    max_memory: Annotated[int | None, typer.Option("--max-memory", help="Bytes that a task may need.")] = None,
    capacity: Annotated[int | None, typer.Option("--capacity", help="Tasks accepted and not yet committed.")] = None,
    verify: Annotated[
        bool | None, typer.Option("--verify/--no-verify", help="Answer for the seats that are drawn, the default.")
    ] = None,
    calls: Annotated[
        str | None, typer.Option("--calls", help="HOST:PORT where paid calls are served; without it none are.")
    ] = None,
    block_seconds: Annotated[float | None, typer.Option("--block-seconds", help="Time between blocks.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="Of the node API and metrics; 0 takes a free one.")] = None,
    log_format: Annotated[str | None, typer.Option("--log-format", help="console or json.")] = None,
    unsafe_no_sandbox: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Run strangers' programs unconfined. Do not.")
    ] = False,
) -> None:
    """Accept, execute, check others, defend and be paid, until SIGTERM or Ctrl-C. Goes on where it stopped."""
    flags = dict(locals()) | {"unsafe_no_sandbox": unsafe_no_sandbox or None}
    from eigentensor_operator.config import Settings
    from eigentensor_operator.serve import serve

    serve(Settings.load(**flags))


@app.command()
def status(
    network: Network = None,
    data_dir: DataDir = None,
    address: Annotated[str | None, typer.Option("--address", help="The operator.")] = None,
    as_json: AsJson = False,
) -> None:
    """What the operator has in the market, and its tasks. Works whether the daemon runs or not."""
    from eigentensor.chain import Network as NetworkFile
    from eigentensor_operator.config import Settings
    from eigentensor_operator.report import report_of

    settings = Settings.load(network=network, data_dir=data_dir, address=address)
    report = report_of(settings, NetworkFile.load(settings.network))
    head(report.network, report.operator)
    show(report.to_json(), report.lines(), as_json=as_json)


@app.command()
def drain(
    data_dir: DataDir = None,
    undo: Annotated[bool, typer.Option("--undo", help="Accept again, after the next start.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when nothing at stake is unfinished.")] = False,
    as_json: AsJson = False,
) -> None:
    """Accept nothing more, and finish what was accepted: before an upgrade, or to leave."""
    from eigentensor_operator.config import Settings
    from eigentensor_operator.report import unfinished

    settings = Settings.load(data_dir=data_dir)
    if undo:
        settings.drain_file.unlink(missing_ok=True)
        note("accepts tasks again, after the next start")
    else:
        settings.drain_file.parent.mkdir(parents=True, exist_ok=True)
        settings.drain_file.touch()
        note("accepts nothing more")
    while (left := unfinished(settings)) and wait:
        note(f"{len(left)} tasks unfinished")
        time.sleep(settings.poll)
    names = [uuid.hex() for uuid in left]
    fields: schemas.OperatorDrain = {
        "schema": "eigentensor.operator-drain/1",
        "draining": not undo,
        "unfinished": names,
    }
    show(fields, (f"unfinished  {name}" for name in names), as_json=as_json)


app.command()(owner.leave)
