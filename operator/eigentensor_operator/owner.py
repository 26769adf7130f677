"""What the owner of an operator does with its own key, seldom: `operator up` and `operator leave`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor_operator.options import (
    AsJson,
    ClusterToken,
    DataDir,
    Keystore,
    MinPrice,
    Network,
    PasswordFile,
    PricePerHour,
    note,
)

if TYPE_CHECKING:
    from eigentensor.chain import Findings, Step

Owner = Annotated[
    str | None, typer.Option("--owner", help="The owner, if its key is elsewhere: prints what it is to send.")
]
Safe = Annotated[
    Path | None, typer.Option("--safe", help="With --owner: a file for the transaction builder of a Safe.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan; send nothing.")]
Wait = Annotated[bool, typer.Option("--wait", help="Stay until everything is done, however long that takes.")]


def up(
    network: Network = None,
    keystore: Keystore = None,
    password_file: PasswordFile = None,
    data_dir: DataDir = None,
    signer: Annotated[
        str | None, typer.Option("--signer", help="The hot key: its address, or its keystore; else the owner.")
    ] = None,
    stake: Annotated[str, typer.Option("--stake", help="Tokens at stake.")] = "1",
    collateral: Annotated[str, typer.Option("--collateral", help="Tokens in the market, to hold for tasks.")] = "1",
    cap: Annotated[
        str | None, typer.Option("--cap", help="Tokens that the signer may hold for tasks; by default the collateral.")
    ] = None,
    stake_cap: Annotated[
        str | None, typer.Option("--stake-cap", help="Tokens of stake that it may lock for them; by default the stake.")
    ] = None,
    allocation: Annotated[
        str | None, typer.Option("--allocation", help="Part of all its stake at risk here; by default what is free.")
    ] = None,
    seats: Annotated[
        int | None, typer.Option("--seats", min=0, help="To be drawn from as a verifier; by default all it can have.")
    ] = None,
    min_price: MinPrice = None,
    price_per_hour: PricePerHour = None,
    metadata: Annotated[str, typer.Option("--metadata", help="URI of what EigenLayer shows about the operator.")] = "",
    device: Annotated[
        str | None, typer.Option("--device", help="Hold this device, or cluster:ADDRESS, to the reference first.")
    ] = None,
    cluster_token: ClusterToken = None,
    owner: Owner = None,
    safe: Safe = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Become an operator, step by step. Run it again at any time: what is done is not done twice.

    Exit code 9: it waits for a block; 11: a step is blocked, the plan says by what.
    """
    from eigentensor.chain import Goal, joining, to_wei
    from eigentensor.chain.survey import survey
    from eigentensor.economics import WAD
    from eigentensor.errors import ConfigError
    from eigentensor_operator import onboarding
    from eigentensor_operator.config import Settings, read_file
    from eigentensor_operator.device import device_of
    from eigentensor_operator.owner_account import opened
    from eigentensor_operator.starting import bench_command, run_command, signer_of

    settings = Settings.load(network=network, keystore=keystore, password_file=password_file, data_dir=data_dir)
    hot, hot_keystore = signer_of(signer) if signer else ("", None)
    wanted = {"min_price": min_price, "price_per_hour": price_per_hour}
    Settings.load(data_dir=data_dir, **wanted)  # amounts that are none are refused before anything is sent
    if device is not None:
        token = cluster_token or settings.cluster_token
        device_of(device, settings.max_memory, unsafe=settings.unsafe_no_sandbox, token=token).check()
        note(f"the device {device} computes as the reference does")
    with opened(settings, owner) as account:
        chain, decimals = account.chain, account.chain.deployment.token_decimals
        staked, part = to_wei(stake, decimals), None if allocation is None else to_wei(allocation)
        if part is not None and not 0 < part <= WAD:
            raise ConfigError(f"--allocation: {allocation} is not a part of the stake", fix="Write 0.5 for half of it.")
        goal = Goal(
            signer=hot or account.owner,
            stake=staked,
            collateral=to_wei(collateral, decimals),
            collateral_cap=to_wei(cap or collateral, decimals),
            stake_cap=chain.stake.shares_of(to_wei(stake_cap or stake, decimals)),
            seats=staked // chain.stake.seat_stake() if seats is None else seats,
            magnitude=part,
            metadata=metadata,
        )
        settings.reserve_in(chain.deployment.parameters)
        onboarding.check_market(chain)
        if not dry_run and not account.is_cold:
            account.settle()
            onboarding.check_funds(chain, survey(chain, account.owner), goal)
        kept = onboarding.prices(settings.data_dir, wanted, write=not dry_run and not account.is_cold)

        def planned(findings: "Findings") -> "Sequence[Step]":
            return joining(findings, goal, chain.deployment)

        plan = account.follow(planned, goal.signer, [kept], dry_run=dry_run, wait=wait)
        account.show(plan, safe, as_json=as_json)
        if plan.complete and not as_json:
            if "operations_per_second" not in read_file(settings.data_dir):
                note(f"before  {bench_command(settings)}, so that it knows its speed")
            note(f"next    {run_command(settings, plan, hot_keystore)}")
    raise typer.Exit(plan.exit_code if not dry_run and not account.is_cold else 0)


def leave(
    network: Network = None,
    keystore: Keystore = None,
    password_file: PasswordFile = None,
    data_dir: DataDir = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take the stake out of EigenLayer too, after its delay.")
    ] = False,
    owner: Owner = None,
    safe: Safe = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Stop being an operator of this market. Run it again until nothing is left to do; keep the daemon running until
    its tasks are over.

    Exit code 9: it waits for a block or for tasks; 11: a step is blocked.
    """
    from eigentensor.chain import leaving
    from eigentensor_operator.config import Settings
    from eigentensor_operator.owner_account import opened
    from eigentensor_operator.report import unfinished

    settings = Settings.load(network=network, keystore=keystore, password_file=password_file, data_dir=data_dir)
    if settings.journal.exists() and not dry_run:
        settings.drain_file.touch()
        note("the daemon of this data folder accepts nothing more")
    with opened(settings, owner) as account:

        def planned(findings: "Findings") -> "Sequence[Step]":
            left = len(unfinished(settings))
            return leaving(findings, account.chain.deployment, withdraw=withdraw, unfinished=left)

        plan = account.follow(planned, "", [], dry_run=dry_run, wait=wait)
        account.show(plan, safe, as_json=as_json)
    raise typer.Exit(plan.exit_code if not dry_run and not account.is_cold else 0)
