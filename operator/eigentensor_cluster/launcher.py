"""Workers that Ray starts: actors, each of which owns what it computes with and joins the door as any worker does.

Ray says where they are, and starts anew those that die. It carries their settings, the worker's token among them, over
its own control plane: whoever can speak to that can execute anything, so it has to demand a token of its own. Tensors,
programs and boxes never go by Ray.
"""

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from eigentensor.cluster.address import Address, parse
from eigentensor.cluster.frames import Failed, error_of, failure
from eigentensor.errors import ConfigError, ConnectionLost, EigenTensorError, WorkerLost
from eigentensor.extras import require
from eigentensor.talk import QUIET, say
from eigentensor_cluster.engine.executing import Programs
from eigentensor_cluster.worker import work

LOCAL, HERE = "local", "auto"  #: a Ray of one's own; the one that is up on this machine
MODE, TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"  #: of Ray's environment
OBJECTS = 80 << 20  #: bytes of a Ray of one's own for objects: there are none
TRIES, PAUSE = 3, 1.0  #: to come in, or in again; seconds between two
LOOK, ROOM, LAST = 1.0, 5.0, 5.0  #: seconds between looks; until Ray has room, or it is said; that the end may take
SECURITY = "https://docs.ray.io/en/latest/ray-security/token-auth.html"


@dataclass(frozen=True, slots=True)
class Launch:
    """Which workers Ray starts. `ray` is `local`, `auto`, or HOST:PORT of one that is up; each worker owns so many
    `cpus` and `gpus`, in parts too, and is packed onto few nodes or spread over many; 0 bytes of `memory` for each
    slot: a worker's share of its node. Raises ConfigError for what Ray cannot give."""

    ray: str
    workers: int = 1
    cpus: float = 1.0
    gpus: float = 0.0
    is_spread: bool = False
    slots: int = 1
    trusts: bool = False
    device: str | None = None
    memory: int = 0

    def __post_init__(self) -> None:
        if self.ray not in (LOCAL, HERE) and (":" not in self.ray or "/" in self.ray or not self._place[1].isdigit()):
            fix = f"Give {LOCAL}, {HERE}, or HOST:PORT of its head, such as 10.0.0.1:6379, on a node of it."
            raise ConfigError(f"{self.ray!r} is no address of Ray", fix=fix)
        if self.cpus > 1 and self.cpus % 1:
            raise ConfigError(f"no worker can own {self.cpus:g} CPUs", fix="Give a whole number, or a part of one.")
        if self.gpus and (self.device or "CPU").partition(":")[0] not in ("CL", "CUDA"):
            fix = "Name it, such as `--device CUDA --trust`, or leave out --gpus."
            raise ConfigError(f"a worker that owns a GPU has to compute on it, not on {self.device or 'CPU'}", fix=fix)

    @property
    def _place(self) -> tuple[str, str]:
        host, _, port = self.ray.rpartition(":")
        return host.strip("[]"), port

    @property
    def owned(self) -> dict[str, float]:
        """What a worker owns, by Ray's words."""
        return {"CPU": self.cpus} | ({"GPU": self.gpus} if self.gpus else {})

    @property
    def wanted(self) -> str:
        """The same of all workers, for people."""
        return f"{self.workers} × {' and '.join(f'{number:g} {name}' for name, number in self.owned.items())}"

    def check_answers(self) -> None:
        """Raises ConnectionLost if nobody is at the address."""
        if self.ray not in (LOCAL, HERE):
            try:
                socket.create_connection((self._place[0], int(self._place[1])), timeout=ROOM).close()
            except (OSError, OverflowError) as error:
                fix = "Check its address, and whether it is up: `ray status`."
                raise ConnectionLost(f"no Ray answers at {self.ray}", fix=fix) from error


class Orders(NamedTuple):
    """What an actor is told, as plain values."""

    address: str
    token: bytes
    slots: int
    cores: int
    trusts: bool
    device: str | None
    memory: int


class Worker:
    """A worker in a process that Ray starts, and starts anew if it dies."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    async def work(self) -> Failed:
        """Works until nobody is at the door any more, or it may not: why. A connection that was lost is made anew."""
        import ray

        orders, left = self._orders, TRIES
        node = ray.get_runtime_context().get_node_id()

        def joined(line: str) -> None:
            nonlocal left
            left = TRIES
            say(line)

        try:
            programs = Programs(
                is_trusting=orders.trusts, device=orders.device, slots=orders.slots, cores=orders.cores,
                memory=orders.memory,
            )  # fmt: skip
            await asyncio.to_thread(programs.check)
            while True:
                try:
                    await work(parse(orders.address), orders.token, programs, orders.slots, joined, node)
                except ConnectionLost:
                    left -= 1
                    if not left:
                        raise
                    await asyncio.sleep(PAUSE)
        except EigenTensorError as error:
            return failure(0, 0, error)


def launch(of: Launch, address: Address, token: bytes) -> None:
    """Lets Ray start workers for the door at an address, until that is away or Ctrl-C; then they end, and so does a Ray
    that was started for them. Raises ConfigError where Ray is missing or demands no token, and the error of the last
    worker that ended: ConnectionLost for a door that is away, NotAdmitted, ExecutionError."""
    require("ray")
    of.check_answers()
    ray = _connected(of)
    try:
        if of.ray != LOCAL:
            _check_demanding(ray, of)
        with _placed(ray, of) as (group, nodes):
            _check_near(ray, address, nodes)
            _until_over(ray, dict(_started(ray, of, address, token, group, nodes)))
    except ray.exceptions.RayError as error:
        raise _unusable(of, error) from error
    finally:
        ray.shutdown()


def _connected(of: Launch) -> Any:
    """The module of Ray, connected, with a token whatever Ray demands. Raises ConfigError, ConnectionLost."""
    os.environ[MODE] = "token"
    os.environ.setdefault("RAY_COLOR_PREFIX", str(int(sys.stderr.isatty())))
    own: dict[str, Any] = {}
    if of.ray == LOCAL:
        os.environ[TOKEN] = secrets.token_hex(32)  # known to its processes alone
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        own = {"include_dashboard": False, "object_store_memory": OBJECTS}
        say("starts a Ray of its own: it listens on every interface, and demands a token that nobody else has")
    import ray

    try:
        ray.init(address=of.ray, logging_level="error", log_to_driver=not QUIET.get(), **own)
    except ray.exceptions.AuthenticationError as error:
        raise ConfigError(
            f"Ray at {of.ray} demands its token", fix=f"Name its file: {TOKEN}_PATH. {SECURITY}"
        ) from error
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _unusable(of, error) from error
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return ray


def _unusable(of: Launch, error: Exception) -> ConnectionLost:
    fix = f"Run this on a node of that Ray, with the same Ray and Python, and its token: {SECURITY}"
    return ConnectionLost(f"Ray at {of.ray} cannot be used: {_last(error)}", fix=fix)


def _check_demanding(ray: Any, of: Launch) -> None:
    """Raises ConfigError for a Ray that executes what anybody sends."""
    if ray.get(ray.remote(_mode).options(num_cpus=0).remote()) != "token":
        fix = f"Start it with {MODE}=token on every node, in a network of your own: {SECURITY}"
        raise ConfigError(f"Ray at {of.ray} demands no token: whoever reaches it executes anything there", fix=fix)


def _mode() -> str:
    """What Ray demands where this is executed."""
    return os.environ.get(MODE, "")


@contextmanager
def _placed(ray: Any, of: Launch) -> Iterator[tuple[Any, list[str]]]:
    """What the workers own, while the block runs, and each one's node. Raises ConfigError where there never is room."""
    from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

    group = placement_group([of.owned] * of.workers, strategy="SPREAD" if of.is_spread else "PACK")
    try:
        if not group.wait(ROOM):
            there = " and ".join(f"{ray.cluster_resources().get(name, 0):g} {name}" for name in of.owned)
            if of.ray == LOCAL:
                fix = "Start fewer workers, or let each own a part: `--cpus 0.5`."
                raise ConfigError(f"there is no room for {of.wanted}: this machine has {there}", fix=fix)
            say(f"waits until Ray has room for {of.wanted}: it has {there} in all")
            while not group.wait(LOOK):
                pass
        places = placement_group_table(group)["bundles_to_node_id"]
        yield group, [places[number] for number in range(of.workers)]
    finally:
        remove_placement_group(group)


def _check_near(ray: Any, address: Address, nodes: Sequence[str]) -> None:
    """Raises ConfigError if a worker is on a machine from which nobody reaches the door."""
    machines = {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes()}
    away = sorted({machines[node] for node in nodes} - {socket.gethostname()})
    if address.path is not None and away:
        fix = "Start the cluster with --bind HOST:PORT, and give what it shows to --join."
        raise ConfigError(f"{away[0]} cannot reach the cluster at {address}", fix=fix)


def _started(
    ray: Any, of: Launch, address: Address, token: bytes, group: Any, nodes: Sequence[str]
) -> Iterator[tuple[Any, Any]]:
    """Actors that work, each by what it answers when it does not any more. Few processes begin at a time."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    memory = {node["NodeID"]: int(node["Resources"].get("memory", 0)) for node in ray.nodes()}
    most, beginning = 2 * max(1, int(ray.cluster_resources().get("CPU", 0))), list[Any]()
    shares = {node: memory[node] // (number * of.slots) for node, number in Counter(nodes).items()}
    for number, node in enumerate(nodes):
        while len(beginning) >= most:
            beginning = ray.wait(beginning, timeout=LOOK)[1]
        actor = ray.remote(Worker).options(
            num_cpus=of.cpus, num_gpus=of.gpus, max_restarts=-1, max_task_retries=-1, max_concurrency=2,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number),
        )  # fmt: skip
        share = of.memory or (shares[node] if of.trusts else 0)
        orders = Orders(str(address), token, of.slots, max(1, int(of.cpus)), of.trusts, of.device, share)
        made = actor.remote(orders)
        beginning.append(made.__ray_ready__.remote())
        yield made.work.remote(), made


def _until_over(ray: Any, waiting: dict[Any, Any]) -> NoReturn:
    """Returns never: raises the error of the last actor that ends; those before are shown. None works any more then."""
    shown = set[str]()
    try:
        while True:
            for future in ray.wait(list(waiting), timeout=LOOK)[0]:
                error = _why(ray, future)
                ray.kill(waiting.pop(future))
                if not waiting:
                    raise error
                if error.what not in shown:
                    shown.add(error.what)
                    say(f"a worker ended: {error.what}")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # whoever is not there answers late: a second one ends at once
        for future in waiting:
            ray.cancel(future)
        if waiting:
            ray.wait(list(waiting), num_returns=len(waiting), timeout=LAST)


def _why(ray: Any, future: Any) -> EigenTensorError:
    try:
        failed: Failed = ray.get(future)
    except ray.exceptions.RayError as error:
        return WorkerLost(f"Ray gave a worker up: {_last(error)}")
    if failed.error == ConnectionLost.__name__:
        return ConnectionLost(failed.what, fix=failed.fix)
    return error_of(failed)


def _last(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
