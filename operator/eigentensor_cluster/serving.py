"""A cluster that is up: its door, its dispatcher and the slots of this process, until it is told to stop."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from eigentensor.cluster.address import Address
from eigentensor.cluster.log import Log
from eigentensor.errors import ConfigError
from eigentensor.sharding.cluster import Link
from eigentensor_cluster import tokens
from eigentensor_cluster.certificate import prepared
from eigentensor_cluster.dispatcher import Dispatcher
from eigentensor_cluster.door import Door
from eigentensor_cluster.engine.executing import Programs
from eigentensor_cluster.engine.inprocess import InProcess
from eigentensor_cluster.schemas import ClusterStatus, SessionStatus, WorkerStatus
from eigentensor_cluster.settings import Settings

Say = Callable[[str], None]


def serve(settings: Settings, say: Say) -> None:
    """Is up until SIGTERM or Ctrl-C, which end it at once, whatever it executes. Raises ConfigError for settings that
    do not do, ExecutionError for a device that does not compute as it must."""
    with _alone(settings.folder):
        members = tokens.Tokens({})
        if settings.tokens is not None:
            if not settings.tokens.exists():
                tokens.write_new(settings.tokens)
                say(f"wrote new tokens into {settings.tokens}: give each who may come a file with one of them")
            members = tokens.read(settings.tokens)
        programs = None
        if settings.slots:
            programs = checked(settings.trusts, settings.device, settings.slots, settings.memory, say)
        if running(_serve(settings, members, programs, say)):
            say("the cluster is down")


def checked(trusts: bool, device: str | None, slots: int, memory: int, say: Say) -> Programs:
    """What executes programs here, held to the reference. `memory` are the bytes that each slot has, as of `Programs`.
    Raises ExecutionError."""
    programs = Programs(is_trusting=trusts, device=device, slots=slots, memory=memory)
    say(f"holds {programs.device} to the reference")
    programs.check()
    return programs


def running(main: Coroutine[Any, Any, None]) -> int:
    """Runs a coroutine in an event loop of its own, the fastest that is installed, until it is done, or a signal ends
    it: SIGTERM or SIGINT, whose number is given back then; else 0."""
    factory = None
    if find_spec("uvloop") is not None:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_interruptible(main))


async def _interruptible(main: Coroutine[Any, Any, None]) -> int:
    task, came = asyncio.ensure_future(main), list[int]()

    def stop(number: int) -> None:
        came.append(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not came:
            raise
    return came[0] if came else 0


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While the block runs this process is the one cluster of a folder. Raises ConfigError if there is one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "process").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fix = "Stop it with `eigentensor cluster down`, or use it."
            raise ConfigError(f"a cluster is up already in {folder}", fix=fix) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


async def _serve(settings: Settings, members: tokens.Tokens, programs: Programs | None, say: Say) -> None:
    began, dispatcher = (
        time.monotonic(),
        Dispatcher(
            log=Log(settings.log), signals=settings.signals, allowance=settings.allowance,
            link=Link(latency=settings.latency),
        ),
    )  # fmt: skip
    address = Address(settings.folder / "door")

    def status() -> str:
        seconds = time.monotonic() - began
        return json.dumps(status_of(dispatcher, str(address), seconds, settings.trusts).to_json())

    door = Door(dispatcher, members, status)
    engine = None
    if programs is not None:
        engine = InProcess(programs, settings.slots, "here", socket.gethostname())
        engine.exchange.secret = dispatcher.secret
    try:
        await door.listen_here(settings.folder / "door")
        if settings.bind is not None:
            context, fingerprint = _certificate(settings.kept)
            port = await door.listen(*settings.bind, context)
            address = Address(None, reachable(settings.bind[0]), port, fingerprint)
            if engine is not None and engine.programs.is_sharing:
                await engine.exchange.listen(settings.bind[0], context, fingerprint, address.host)
        if engine is not None:
            if engine.programs.is_sharing:
                await engine.exchange.listen_here(settings.folder / "exchange")
            dispatcher.join(engine)
        say(f"the cluster is up, with {settings.slots} slots of its own: {address}")
        await asyncio.Event().wait()
    finally:
        if engine is not None:
            engine.close()
        await asyncio.gather(door.close(), *([] if engine is None else [engine.exchange.close()]))
        dispatcher.log.close()
        (settings.folder / "door").unlink(missing_ok=True)
        (settings.folder / "exchange").unlink(missing_ok=True)


def _certificate(folder: Path) -> tuple[ssl.SSLContext, bytes]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return prepared(folder)


def reachable(host: str) -> str:
    """The name by which others reach a host where something listens: this machine's, where it listens everywhere."""
    with suppress(ValueError):
        return socket.gethostname() if ip_address(host).is_unspecified else host
    return host


def status_of(dispatcher: Dispatcher, address: str, seconds: float, trusts: bool) -> ClusterStatus:
    """How a cluster stands."""
    workers = [
        WorkerStatus(
            worker.name,
            worker.host,
            worker.device,
            worker.slots,
            worker.slots - place.free,
            place.runs,
            place.seconds,
            worker.node or None,
        )
        for worker, place in dispatcher.places.items()
    ]
    sessions = [
        SessionStatus(
            number, session.member, len(session.tensors), session.held, len(session.queue) + len(session.again),
            session.under_way, session.runs, sum(share.seconds for share in session.shares.values()),
            dispatcher.balance(session), session.allowance, dispatcher.left(session),
        )
        for number, session in dispatcher.sessions.items()
    ]  # fmt: skip
    return ClusterStatus(
        address, os.getpid(), seconds, trusts, dispatcher.replays, tuple(workers), tuple(sessions),
        dispatcher.segments.hottest,
    )  # fmt: skip
