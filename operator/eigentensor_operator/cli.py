"""`eigentensor operator`: join, run, status, drain. Nothing heavy is imported before a verb runs."""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Execute strangers' programs for money.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)

Network = Annotated[str | None, typer.Option("--network", help="A network's name, or a .json file.")]
Keystore = Annotated[
    Path | None, typer.Option("--keystore", help="V3 keystore: to join the owner's, to run the signer's.")
]
PasswordFile = Annotated[Path | None, typer.Option("--password-file", help="File with the keystore's password.")]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Journals, blobs and results of this operator.")]
AsJson = Annotated[bool, typer.Option("--json", help="One versioned object on stdout.")]


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _print(schema: str, fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"schema": schema, **fields}) + "\n")


def _head(network: str, account: str) -> None:
    _say(f"eigentensor {version('eigentensor')} · network {network} · account {account}")


@app.command()
def join(
    network: Network = None,
    keystore: Keystore = None,
    password_file: PasswordFile = None,
    data_dir: DataDir = None,
    signer: Annotated[str | None, typer.Option("--signer", help="Address of the hot key; else the owner.")] = None,
    stake: Annotated[str, typer.Option("--stake", help="Tokens at stake.")] = "1",
    collateral: Annotated[str, typer.Option("--collateral", help="Tokens in the market, to hold for tasks.")] = "1",
    cap: Annotated[
        str | None, typer.Option("--cap", help="Tokens that the signer may hold for tasks; by default the collateral.")
    ] = None,
    stake_cap: Annotated[
        str | None, typer.Option("--stake-cap", help="Tokens of stake that it may lock for them; by default the stake.")
    ] = None,
    seats: Annotated[
        int | None, typer.Option("--seats", min=0, help="To be drawn from as a verifier; by default all it can have.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; send nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Become an operator, step by step. Run it again at any time: what is done is not done twice."""
    from eth_utils.address import is_address, to_checksum_address

    from eigentensor.chain import Chain, joining, to_wei
    from eigentensor.chain import Network as NetworkFile
    from eigentensor.errors import ConfigError
    from eigentensor_operator.config import Settings
    from eigentensor_operator.onboarding import check_funds, settle

    settings = Settings.load(network=network, keystore=keystore, password_file=password_file, data_dir=data_dir)
    chosen, owner = NetworkFile.load(settings.network), settings.account()
    if signer is not None and not is_address(signer):
        raise ConfigError(f"--signer: {signer!r} is not an address")
    hot = to_checksum_address(signer or owner.address)
    decimals = chosen.deployment.token_decimals
    staked, deposited = to_wei(stake, decimals), to_wei(collateral, decimals)
    held, locked = to_wei(cap or collateral, decimals), to_wei(stake_cap or stake, decimals)
    _head(chosen.name, owner.address)
    shown = []
    with Chain(chosen, owner, settings.data_dir / "owner-transactions.sqlite") as chain:
        if not dry_run:
            settle(chain)
            check_funds(chain, hot, staked, deposited)
        steps = joining(
            chain,
            signer=hot,
            collateral_cap=held,
            stake_cap=chain.shares_of(locked),
            stake=staked,
            collateral=deposited,
            seats=staked // chain.seat_stake() if seats is None else seats,
        )
        for step in steps:
            done = step.is_done()
            if not done and not dry_run:
                step.do()
                done = step.is_done()
            _say(f"{'done ' if done else 'to do'}  {step.name}: {step.what}")
            shown.append({"step": step.name, "what": step.what, "done": done})
    if as_json:
        _print("eigentensor.operator-plan/1", {"operator": owner.address, "signer": hot, "steps": shown})
    elif all(step["done"] for step in shown):
        _say(f"next   eigentensor operator run --address {owner.address} --keystore KEYSTORE_OF_THE_SIGNER")


@app.command()
def run(
    network: Network = None,
    keystore: Keystore = None,
    password_file: PasswordFile = None,
    address: Annotated[str | None, typer.Option("--address", help="The operator; by default the signer.")] = None,
    data_dir: DataDir = None,
    device: Annotated[
        str | None, typer.Option("--device", help="Executes programs: CPU (the default), CPU:LLVM, CL or CUDA.")
    ] = None,
    min_price: Annotated[str | None, typer.Option("--min-price", help="Tokens that a task must pay.")] = None,
    price_per_giga: Annotated[
        str | None, typer.Option("--price-per-giga", help="Tokens for 10^9 instruction evaluations.")
    ] = None,
    max_memory: Annotated[int | None, typer.Option("--max-memory", help="Bytes that a task may need.")] = None,
    capacity: Annotated[int | None, typer.Option("--capacity", help="Tasks accepted and not yet committed.")] = None,
    verify: Annotated[
        bool | None, typer.Option("--verify/--no-verify", help="Answer for the seats that are drawn, the default.")
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
    _head(report.network, report.operator)
    if as_json:
        _print("eigentensor.operator/1", report.to_json())
    else:
        for line in report.lines():
            typer.echo(line)


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
        _say("accepts tasks again, after the next start")
    else:
        settings.drain_file.parent.mkdir(parents=True, exist_ok=True)
        settings.drain_file.touch()
        _say("accepts nothing more")
    while (left := unfinished(settings)) and wait:
        _say(f"{len(left)} tasks unfinished")
        time.sleep(settings.poll_seconds)
    if as_json:
        _print("eigentensor.operator-drain/1", {"draining": not undo, "unfinished": [uuid.hex() for uuid in left]})
