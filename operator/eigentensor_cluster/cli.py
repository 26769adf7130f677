"""`eigentensor cluster`: its verbs, from up to down. Nothing heavy is imported before one runs."""

import atexit
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from eigentensor.errors import ConfigError
from eigentensor.talk import say

app = typer.Typer(
    help="One program on many devices: a door for clients, and workers behind it.", no_args_is_help=True,
    add_completion=False, rich_markup_mode=None,
)  # fmt: skip

Cluster = Annotated[
    str | None,
    typer.Option("--cluster", help="Address that `up` showed; by default EIGENTENSOR_CLUSTER, or one's own."),
]
Token = Annotated[
    str | None, typer.Option("--token", help="File with your token; by default EIGENTENSOR_CLUSTER_TOKEN.")
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Execute without a sandbox: for clients who may do anything here.")
]
Device = Annotated[str | None, typer.Option("--device", help="CPU (the default), CPU:LLVM, CL or CUDA.")]
Memory = Annotated[
    int, typer.Option("--memory", min=0, help="MiB that each slot has for a program; 0: its share of this machine's.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One versioned object on stdout.")]

DOWN = 30.0  # seconds
CORES = len(os.sched_getaffinity(0))  # that this process may run on


@app.command()
def up(
    workers: Annotated[int, typer.Option("--workers", min=0, max=4096, help="Slots of this process.")] = CORES,
    bind: Annotated[
        str | None, typer.Option("--bind", help="HOST:PORT where others come, over TLS, with a token.")
    ] = None,
    token: Annotated[
        Path | None, typer.Option("--token", help="File with all tokens; made if it is not there.")
    ] = None,
    trust: Trust = False,
    device: Device = None,
    memory: Memory = 0,
    allowance: Annotated[
        float | None,
        typer.Option(
            "--allowance", min=1e-3, max=1e6, help="Seconds of slots in a minute of each member whose token names none."
        ),
    ] = None,
    latency: Annotated[
        int,
        typer.Option(
            "--latency", min=0, max=1 << 40, help="Bytes that workers could move until the first comes of a message."
        ),
    ] = 0,
    config: Annotated[Path | None, typer.Option("--config", help="Signals of sessions that have none, YAML.")] = None,
    log_file: Annotated[
        str | None, typer.Option("--log", envvar="EIGENTENSOR_INSTRUCTION_LOG", help="File that the log goes on in.")
    ] = None,
) -> None:
    """Be a cluster until Ctrl-C or SIGTERM: for this user's processes, and with --bind for others that have a token."""
    from eigentensor.cluster.address import own_folder
    from eigentensor.sharding.signals import Signals, load
    from eigentensor_cluster.settings import Settings, parse_bind

    place = parse_bind(bind) if bind is not None else None
    signals = load(config) if config is not None else Signals()
    settings = Settings(
        own_folder(), workers, place, token, trust, device, log_file, signals, memory << 20, allowance, latency
    )
    from eigentensor_cluster.serving import serve

    serve(settings, say)
    _leave(0)


def _leave(code: int) -> None:
    """Ends this process when what is registered for its end is done: kernels on threads are not waited for."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@app.command()
def worker(
    join: Annotated[str | None, typer.Option("--join", help="Address that `up` showed; by default one's own.")] = None,
    slots: Annotated[int, typer.Option("--slots", min=1, max=4096, help="Programs executed at a time.")] = 1,
    token: Token = None,
    trust: Trust = False,
    device: Device = None,
    memory: Memory = 0,
    ray: Annotated[
        str | None,
        typer.Option("--ray", help="Let Ray start it: HOST:PORT of one, auto for this machine's, local for its own."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=4096, help="So many of them, with --ray; by default 1.")
    ] = None,
    cpus: Annotated[
        float | None, typer.Option("--cpus", min=0.001, help="CPUs that each owns, with --ray; by default 1.")
    ] = None,
    gpus: Annotated[
        float | None, typer.Option("--gpus", min=0, max=1, help="GPUs, likewise; by default 1 for CUDA, else none.")
    ] = None,
    spread: Annotated[
        bool | None, typer.Option("--spread/--pack", help="On many nodes of Ray, or on few, the default.")
    ] = None,
) -> None:
    """Lend slots to a cluster, until it is down or Ctrl-C. The device is held to the reference first."""
    from eigentensor.cluster.address import named, read_token

    address, secret = named(join), read_token(token)
    if ray is not None:
        from eigentensor_cluster.launcher import Launch, launch

        owned = (1.0 if (device or "").startswith("CUDA") else 0.0) if gpus is None else gpus
        of = Launch(ray, workers or 1, cpus or 1.0, owned, bool(spread), slots, trust, device, memory << 20)
        launch(of, address, secret)
        return
    for option, value in {"workers": workers, "cpus": cpus, "gpus": gpus, "spread": spread}.items():
        if value is not None:
            raise ConfigError(f"--{option} says what Ray is to start", fix="Name a Ray: `--ray local`.")
    from eigentensor_cluster.serving import checked, running
    from eigentensor_cluster.worker import work

    if number := running(work(address, secret, checked(trust, device, slots, memory << 20, say), slots, say)):
        say(f"left {address}: what it executed is executed elsewhere")
        _leave(128 + number)


@app.command()
def status(cluster: Cluster = None, token: Token = None, as_json: AsJson = False) -> None:
    """Who works, and for whom."""
    from eigentensor.cluster.address import named, read_token
    from eigentensor_cluster.keeper import Keeper, lines

    stands = Keeper(named(cluster), read_token(token)).status()
    if as_json:
        typer.echo(json.dumps(stands.to_json()))
        return
    for line in lines(stands):
        typer.echo(line)


@app.command()
def top(cluster: Cluster = None, token: Token = None) -> None:
    """The same, again and again, until Ctrl-C."""
    from eigentensor.cluster.address import named, read_token
    from eigentensor_cluster.keeper import Keeper, screen

    keeper = Keeper(named(cluster), read_token(token))
    before = keeper.status()
    if not sys.stdout.isatty():
        typer.echo("\n".join(screen(before, before)))
        return
    from rich.live import Live
    from rich.text import Text

    from eigentensor_cluster.running import ended_by_signals

    first = Text("\n".join(screen(before, before)))
    with ended_by_signals(), Live(first, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(1)
            now = keeper.status()
            live.update(Text("\n".join(screen(before, now)), no_wrap=True), refresh=True)
            before = now


@app.command()
def log(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    seconds: Annotated[float | None, typer.Option("--seconds", "-s", help="Of the last so many seconds alone.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=0, help="The last so many lines alone.")] = None,
    cluster: Cluster = None,
    token: Token = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object a line on stdout.")] = False,
) -> None:
    """What comes, goes, is moved and fails: a line each."""
    from eigentensor.cluster.address import named, read_token
    from eigentensor.cluster.log import format_entry, trace
    from eigentensor_cluster.keeper import Keeper

    entries = Keeper(named(cluster), read_token(token)).log(follow=follow)
    for entry in entries if follow else trace(list(entries), seconds=seconds, count=count):
        typer.echo(json.dumps(entry.to_json()) if as_json else format_entry(entry))


@app.command()
def trace(
    number: Annotated[
        int | None, typer.Argument(metavar="[INSTRUCTION]", help="One alone, with what the log has about it.")
    ] = None,
    session: Annotated[int | None, typer.Option("--session", min=0, help="Whose; by default the newest's.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="The last so many alone.")] = None,
    file: Annotated[Path | None, typer.Option("--log", help="A log, as `up --log` writes it.")] = None,
    cluster: Cluster = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """What became of a session's instructions: when each came, was begun and ended, and where."""
    from eigentensor.cluster.address import named, read_token
    from eigentensor.cluster.log import format_entry, load_log
    from eigentensor_cluster.keeper import Keeper
    from eigentensor_cluster.trace import lines, traced

    entries = load_log(file) if file is not None else list(Keeper(named(cluster), read_token(token)).log())
    found, about = traced(entries, session, number, count)
    if as_json:
        typer.echo(json.dumps(found.to_json()))
        return
    for line in [*lines(found), *(["", *map(format_entry, about)] if about else [])]:
        typer.echo(line)


@app.command()
def timeline(
    file: Annotated[Path, typer.Argument(metavar="LOG", help="A log, as `up --log` writes it.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the picture goes, as .svg.")],
) -> None:
    """Draw what each worker did when."""
    from eigentensor.cluster.log import load_log
    from eigentensor_cluster.timeline import timeline as drawn

    output.write_text(drawn(load_log(file)))
    say(f"wrote {output}")


@app.command()
def run(
    program: Annotated[Path, typer.Argument(help="A program file, with inputs alone.")],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="NAME=@FILE.npy, or @FILE.safetensors.")
    ] = None,
    variables: Annotated[list[str] | None, typer.Option("--variable", "-v", help="NAME=NUMBER.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the results go, as .safetensors.")
    ] = None,
    cluster: Cluster = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Execute a program at a cluster."""
    from eigentensor.cluster.remote import RemoteSession
    from eigentensor_cluster.running import ended_by_signals, execute, lines, written

    with ended_by_signals("the run is given up: nothing was written"), RemoteSession(cluster, token) as session:
        executed, results = execute(session, program, inputs or [], variables or [])
    made = written(executed, results, output)
    if as_json:
        typer.echo(json.dumps(made.to_json()))
        return
    for line in lines(results):
        typer.echo(line)


@app.command()
def down() -> None:
    """Stop this user's cluster, with all sessions."""
    from eigentensor.cluster.address import own_folder
    from eigentensor_cluster.settings import process_of

    folder = own_folder()
    process = process_of(folder)
    if process is None:
        raise ConfigError(f"no cluster of this user is up in {folder}", fix="Start one with `eigentensor cluster up`.")
    os.kill(process, signal.SIGTERM)
    until = time.monotonic() + DOWN
    while process_of(folder) == process:
        if time.monotonic() > until:
            raise ConfigError(
                f"process {process} does not end", fix=f"It may be computing: wait, or `kill -9 {process}`."
            )
        time.sleep(0.05)
    say("the cluster is down")
