"""A running network with bad lines between its parties, on systems that fail them, and what must be true of it after
whatever happened."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from eigentensor import spending
from eigentensor.addresses import is_address, to_checksum_address
from eigentensor.chain import Network, Reader, anvil_account, load_account, to_wei
from eigentensor.economics import WAD
from eigentensor.errors import ChainError, EigenTensorError
from eigentensor.merkle import operators_root
from eigentensor.store import LocalStore
from eigentensor.task import Order, State, order_uuid
from eigentensor_client.client import Client
from eigentensor_local.anvil import Anvil
from eigentensor_local.devnet import Devnet, Party, devnet
from eigentensor_local.processes import Running
from support.hostile.proxy import Kind, Proxy
from support.hostile.system import Fault, System, compiled
from support.steadily import steadily
from support.stories.daemons import TERMS, start, start_watcher, work_of
from support.stories.game_table import brought

#: Seconds in which systems fail once the tasks of a schedule are posted, after which all tasks have ended that were
#: posted together, and in which the rest of it is settled then.
BAD, PATIENCE, SETTLED = 20.0, 600.0, 60.0
AGAIN = 2.0  # seconds after which a daemon that has ended is started again, as operators' systems do
#: Seconds between two blocks where a message waits, and of such pauses until there is one without any. A block for each
#: message would use up the clocks of some games with the moves of others.
PACE, IDLE = 1.0, 3
POLL = "0.5"  # seconds between two looks of a daemon
HURRIED = 5  # blocks that pass at a time where all that is waited for is a window
T = TypeVar("T")
_HONEST, _LIAR = ("honest-1", "honest-2"), "liar"
_DAEMONS = (*_HONEST, _LIAR, "aggregator", "watcher")
_GRAPH = "long sum"  # lies about it go through all phases of a game
#: So cheap that a liar's stake is enough for all that it is to lie about.
_PRICE = to_wei("0.02")
#: How tasks end, in words. One that nobody accepted in time, or whose executor did not reveal in time, told no lie.
_ENDS = {
    State.FINAL: "final", State.CONVICTED: "convicted", State.EXPIRED: "never accepted", State.FAILED: "given up"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Blow:
    """What the system does to whom, and in which seconds."""

    fault: Fault
    daemon: str
    begins: float
    ends: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """What happens in one run: the kinds of faults of lines, the share of chunks that suffer one, who lies, and what
    systems do meanwhile."""

    number: int
    kinds: tuple[Kind, ...]
    share: float
    lies: tuple[bool, ...]
    blows: tuple[Blow, ...]

    @classmethod
    def of(cls, number: int) -> "Schedule":
        """The same for ever."""
        random = Random(f"chaos {number}")
        kinds = tuple(random.sample(sorted(Kind), random.randint(1, len(Kind))))
        lies = (True, *(random.random() < 0.5 for _ in range(random.randint(0, 2))))
        share, order = random.choice((0.02, 0.05, 0.1)), tuple(random.sample(lies, len(lies)))
        daemons = random.sample(_DAEMONS, random.randint(1, len(_DAEMONS)))
        return cls(number, kinds, share, order, tuple(_blow(random, daemon) for daemon in daemons))


def _blow(random: Random, daemon: str) -> Blow:
    begins = random.uniform(0, 0.7 * BAD)
    return Blow(random.choice(list(Fault)), daemon, begins, min(BAD, begins + random.uniform(0.1, 0.5) * BAD))


@dataclass
class Daemon:
    """One that is there as long as nothing ends it."""

    start: Callable[[], Running]
    system: System
    running: Running
    blow: Blow | None = None
    until: float = 0.0
    ended: int = 0
    missed: float = 0.0

    def suffer(self, blow: Blow, random: Random) -> None:
        """What the blow does, from now on for as long as it says."""
        self.blow, self.until = blow, time.monotonic() + blow.ends - blow.begins
        self.system.begin(blow.fault, self.running, random)

    def recover(self) -> None:
        """Nothing is wrong any more."""
        self.system.end()
        self.blow = None

    def keep(self) -> None:
        """Starts it again if it has ended, but for one that is killed just now."""
        if self.running.running or (self.blow is not None and self.blow.fault is Fault.KILLED):
            self.missed = time.monotonic()
        elif time.monotonic() > self.missed + AGAIN:
            self.running, self.ended = self.start(), self.ended + 1


@dataclass
class Played:
    """A schedule that is under way: its tasks, once they are posted, and since when they are; the blows that are yet to
    come; what had been planted when it began, and how its tasks ended."""

    schedule: Schedule
    before: Counter[str]
    posting: "Future[list[Order]]"
    begun: float | None = None
    blows: list[Blow] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)

    @property
    def orders(self) -> list[Order]:
        """Its tasks, as far as they are posted. Raises what posting them did."""
        return self.posting.result() if self.posting.done() else []

    @property
    def liar(self) -> str:
        """The operator that lies in it."""
        return liar_of(self.schedule)

    def goes_on(self, now: float) -> bool:
        """Whether its faults are not over; from when its tasks are posted on its blows come."""
        if self.begun is None and self.posting.done():
            self.begun, self.blows = now, list(self.schedule.blows)
        return self.begun is None or now < self.begun + BAD or bool(self.blows)


def liar_of(schedule: Schedule) -> str:
    """One of its own: who is convicted accepts nothing more."""
    return f"{_LIAR}-{schedule.number}"


@dataclass
class Place:
    """A network whose parties reach chain and gateway by lines of their own; `chain` is read by a good one."""

    net: Devnet
    path: Path
    stack: ExitStack
    lines: list[Proxy] = field(default_factory=list)
    parties: dict[str, Party] = field(default_factory=dict)
    daemons: dict[str, Daemon] = field(default_factory=dict)
    planted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chain = Reader(self.net.network)

    def by_lines(self, name: str) -> Network:
        """The network as this party reaches it, also as a file."""
        urls = self.net.network.rpc_url, self.net.network.gateway_url
        ends = [self.stack.enter_context(Proxy(url, Random(f"{name} {end}"))) for end, url in enumerate(urls)]
        self.lines += ends
        network = replace(self.net.network, name=name, rpc_url=ends[0].url, gateway_url=ends[1].url)
        network.save(self.path / f"{name}.json")
        return network

    def run(self, name: str, start: Callable[[Mapping[str, Any]], Running]) -> Running:
        """Starts a daemon on a system of its own."""
        system = System(self.path / f"{name}.system", self.library)
        running = start(system.environment)
        self.daemons[name] = Daemon(partial(start, system.environment), system, running)
        return running

    def operators(self, names: Sequence[str]) -> None:
        """More operators; those that are named liars lie."""
        for name in names:
            self.parties[name] = self.net.party(name)
            self.by_lines(name)
        with ThreadPoolExecutor() as pool:
            list(pool.map(spending.carried(self.net.join), [self.parties[name] for name in names]))
        for name in names:
            self.run(name, partial(self._start, name))
        for name in names:
            self.daemons[name].running.wait_ready()

    def _start(self, name: str, more: Mapping[str, Any]) -> Running:
        module = "eigentensor_local.actors" if name.startswith(_LIAR) else "eigentensor_client"
        network = str(self.path / f"{name}.json")
        return start(self.net, self.parties[name], module=module, network=network, poll_seconds=POLL, **more)

    def _watch(self, party: Party, more: Mapping[str, Any]) -> Running:
        return start_watcher(self.net, party, self.path / "watcher.json", poll=POLL, **more)

    def open(self) -> None:
        """The parties that are there in every schedule."""
        self.library = compiled(self.path)
        self.by_lines("aggregator")
        self.net.processes["aggregator"].stop()
        network = {"EIGENTENSOR_NETWORK": str(self.path / "aggregator.json")}
        self.run("aggregator", lambda more: self.net.start_aggregator({**network, **more})).wait_ready()
        self.operators(_HONEST)
        watcher = self.parties["watcher"] = self.net.party("watcher")
        self.by_lines("watcher")
        self.run("watcher", partial(self._watch, watcher))
        store = LocalStore(self.path / "store")
        self.client = self.stack.enter_context(Client(self.by_lines("client"), anvil_account(2), store))
        self.client.chain.token.mint(self.client.address, 100 * WAD)

    def played(self, schedules: Sequence[Schedule]) -> list[dict[str, int]]:
        """Schedules to their end, each of which begins when the tasks of the one before are posted: what comes of one
        meets the faults of the next. For each what was planted from its begin to that of the next, how its tasks ended,
        and how often a daemon was started again. Raises AssertionError where an invariant does not hold."""
        liars = [liar_of(schedule) for schedule in schedules]
        self.operators(liars)
        try:
            runs = self._fail(schedules)
        finally:
            for line in self.lines:
                line.kinds = ()
            for daemon in self.daemons.values():
                daemon.recover()
        self._ends(runs)
        self.holds(runs)
        counted = [run.before for run in runs[1:]] + [self._counted()]
        gone = [self.daemons.pop(liar).running for liar in liars]
        for running in gone:
            running.terminate()
        for running in gone:
            running.stop()
        return [dict(after - run.before + run.ends) for run, after in zip(runs, counted, strict=True)]

    def _fail(self, schedules: Sequence[Schedule]) -> list[Played]:
        """The time in which things go wrong."""
        waiting, runs = deque(schedules), list[Played]()
        with ThreadPoolExecutor(1) as client:
            while True:
                now = time.monotonic()
                present = [run for run in runs if run.goes_on(now)]
                if waiting and (not runs or runs[-1].begun is not None):
                    schedule = waiting.popleft()
                    runs.append(Played(schedule, self._counted(), client.submit(self._posted, schedule)))
                    present.append(runs[-1])
                if not present:
                    return runs
                self._spoil(present)
                self._strike(present, now)
                self._keep()
                with suppress(EigenTensorError):
                    self._hurry([order for run in runs for order in run.orders])
                time.sleep(0.2)

    def _spoil(self, present: Sequence[Played]) -> None:
        """Lines are as bad as any schedule that is under way wants them."""
        kinds = {kind for run in present for kind in run.schedule.kinds}
        for line in self.lines:
            line.kinds, line.share = kinds, max(run.schedule.share for run in present)

    def _strike(self, present: Sequence[Played], now: float) -> None:
        """Systems fail that are to by now, but for those that have not yet recovered from something else."""
        for daemon in self.daemons.values():
            if daemon.blow is not None and daemon.until < now:
                daemon.recover()
        for run in present:
            random = Random(f"blows {run.schedule.number}")
            for blow in list(run.blows):
                daemon = self.daemons[run.liar if blow.daemon == _LIAR else blow.daemon]
                if run.begun is not None and run.begun + blow.begins < now and daemon.blow is None:
                    run.blows.remove(blow)
                    daemon.suffer(blow, random)
                    self.planted[blow.fault] += 1

    def _keep(self) -> None:
        for daemon in self.daemons.values():
            daemon.keep()

    def _counted(self) -> Counter[str]:
        """What has happened up to now."""
        again = Counter({"started again": sum(daemon.ended for daemon in self.daemons.values())})
        lines = Counter(str(kind) for line in self.lines for kind in line.planted.elements())
        return Counter({str(fault): count for fault, count in self.planted.items()}) + lines + again

    def _posted(self, schedule: Schedule) -> list[Order]:
        """A task for each word of the schedule, for the liar or for the honest. A post that fails is sent again."""
        orders: list[Order] = []
        for lies in schedule.lies:
            name = liar_of(schedule) if lies else _HONEST[len(orders) % len(_HONEST)]
            admitted = operators_root([bytes.fromhex(self.parties[name].address[2:])])
            terms = replace(TERMS, max_price=_PRICE, exec=60, operators=admitted)
            orders += self._tried(partial(self.client.prepare, [work_of(brought(_GRAPH))], terms))
        self._tried(partial(self._send, orders))
        return orders

    def _send(self, orders: Sequence[Order]) -> None:
        with suppress(EigenTensorError):
            self.client.send(orders)
        if any(self.chain.market.task_at(self.uuid(order)).state is State.NONE for order in orders):
            raise ChainError("they are not posted")

    def _tried(self, do: Callable[[], T]) -> T:
        """What comes of it, tried until it comes."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return do()
            except EigenTensorError:
                assert time.monotonic() < end
                time.sleep(0.1)

    def _hurry(self, orders: Sequence[Order]) -> None:
        """Makes the blocks for which nobody has anything to do: those before a seed."""
        confirmations = self.chain.deployment.parameters.confirmations
        seeds = [self.chain.market.seed_block_of(self.uuid(order)) for order in orders]
        if any(seed and seed + confirmations > self.chain.node.block_number() for seed in seeds):
            self.net.anvil.mine(1)

    def _ends(self, runs: Sequence[Played]) -> None:
        """Until every task has ended; blocks come faster where all that is waited for is a window."""
        end = time.monotonic() + PATIENCE
        going = [(order, lies) for run in runs for order, lies in zip(run.orders, run.schedule.lies, strict=True)]
        while True:
            states = [(order, lies, self.chain.market.task_at(self.uuid(order)).state) for order, lies in going]
            going = [(order, lies) for order, lies, state in states if not state.is_terminal]
            if not going:
                return
            assert time.monotonic() < end, f"stuck: {[state.name for *_, state in states]}"
            self._keep()
            self._hurry([order for order, _ in going])
            if all(state.is_terminal or (state is State.REVEALED and not lies) for _, lies, state in states):
                self.net.anvil.mine(HURRIED)
            time.sleep(0.3)

    def uuid(self, order: Order) -> bytes:
        """The task of an order."""
        return order_uuid(order, self.net.network.deployment.domain)

    def holds(self, runs: Sequence[Played]) -> None:
        """Counts how tasks ended, if all is true that must be. Raises AssertionError."""
        for run in runs:
            for order, lies in zip(run.orders, run.schedule.lies, strict=True):
                run.ends[self._ended(order, lies)] += 1
        for name in _HONEST:
            assert self.chain.stake.magnitude_of(self.parties[name].address) == WAD, f"{name} was slashed"
        end = time.monotonic() + SETTLED
        while (missing := self.missing()) and time.monotonic() < end:
            self._keep()
            self.net.anvil.mine(1)
            time.sleep(0.5)
        assert missing == 0, f"the market has {missing} wei more than it owes"

    def _ended(self, order: Order, lies: bool) -> str:
        """How a task ended, in words."""
        state = self.chain.market.task_at(self.uuid(order)).state
        assert state in _ENDS and state is not (State.FINAL if lies else State.CONVICTED), f"lies {lies}: {state.name}"
        if state is State.CONVICTED:
            assert self.chain.market.conviction_of(self.uuid(order)).winner in self._challengers()
        return f"{'lies' if lies else 'truths'} {_ENDS[state]}"

    def _challengers(self) -> set[str]:
        """Who may have convicted a lie: the watcher, or who was drawn to check it."""
        honest = (self.parties[name] for name in (*_HONEST, "watcher"))
        return {str(account.address) for party in honest for account in (party.owner, party.signer)}

    def missing(self) -> int:
        """Wei that the market has beyond what it says that accounts have in it."""
        chain = self.chain
        kept = [chain.market.balance_of(account) for account in self.accounts()]
        return chain.token.balance_of(chain.deployment.task_market) - sum(one.balance + one.collateral for one in kept)

    def logs(self) -> str:
        """The ends of what all processes said."""
        return "\n".join(f"--- {name}\n{self.net.processes[name].tail()}" for name in (*self.parties, "aggregator"))

    def accounts(self) -> set[str]:
        """Everybody who may have something in the market: who is named in any event, and who sends messages."""
        chain = self.chain
        named = {
            value
            for event in chain.history.events(chain.deployment.block)
            for value in event.arguments().values()
            if isinstance(value, str) and is_address(value)
        }
        senders = {account.address for party in self.parties.values() for account in (party.owner, party.signer)}
        folder = self.net.folder / "aggregator"
        relay = load_account(folder / "relay.json", folder / "password")
        everybody = {*named, *senders, relay.address, self.client.address, chain.deployment.burn}
        return {to_checksum_address(account) for account in everybody}


@contextmanager
def place(path: Path) -> Iterator[Place]:
    """Two honest operators, a watcher, an aggregator and a client, each with bad lines to the chain and to the gateway,
    and daemons with bad systems; all are good until schedules are played, each of which has a liar of its own."""
    with (
        devnet(block_time=None, path=path / "chaos.json") as net,
        _blocks(net.anvil),
        ExitStack() as stack,
    ):
        there = Place(net, path, stack)
        there.open()
        yield there


@contextmanager
def _blocks(anvil: Anvil) -> Iterator[None]:
    """Until the block ends time makes blocks, and messages do not."""
    pauses = count(1)

    def tick() -> None:
        if int(anvil.rpc("txpool_status")["pending"], 16) or next(pauses) % IDLE == 0:
            anvil.mine()

    anvil.rpc("evm_setAutomine", False)
    with steadily(tick, PACE):
        yield
