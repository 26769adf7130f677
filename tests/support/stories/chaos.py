"""A running network with bad lines between its parties, on systems that fail them, and what must be true of it after
whatever happened."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from eigentensor.addresses import is_address, to_checksum_address
from eigentensor.chain import Network, anvil_account, load_account
from eigentensor.economics import WAD
from eigentensor.errors import EigenTensorError
from eigentensor.merkle import operators_root
from eigentensor.store import LocalStore
from eigentensor.task import Order, State, order_uuid
from eigentensor_client.client import Client
from eigentensor_local.devnet import Devnet, Party
from eigentensor_local.processes import Running
from support.hostile.proxy import Kind, Proxy
from support.hostile.system import Fault, System, compiled
from support.stories.daemons import TERMS, network_of, start, start_watcher, work_of
from support.stories.game_table import brought

#: Seconds in which lines are bad and systems fail, after which every task has ended, and in which the rest of it is
#: settled then.
BAD, PATIENCE, SETTLED = 20.0, 600.0, 60.0
AGAIN = 2.0  # seconds after which a daemon that has ended is started again, as operators' systems do
T = TypeVar("T")
_HONEST, _LIAR = ("honest-1", "honest-2"), "liar"
_DAEMONS = (*_HONEST, _LIAR, "aggregator", "watcher")
_GRAPH = "long sum"  # lies about it go through all phases of a game


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
    ended: int = 0
    missed: float = 0.0

    def keep(self) -> None:
        """Starts it again if it has ended, but for one that is killed just now."""
        if self.running.running or (self.blow is not None and self.blow.fault is Fault.KILLED):
            self.missed = time.monotonic()
        elif time.monotonic() > self.missed + AGAIN:
            self.running, self.ended = self.start(), self.ended + 1


@dataclass
class Place:
    """A network whose parties reach chain and gateway by lines of their own."""

    net: Devnet
    path: Path
    stack: ExitStack
    lines: list[Proxy] = field(default_factory=list)
    parties: dict[str, Party] = field(default_factory=dict)
    daemons: dict[str, Daemon] = field(default_factory=dict)
    planted: Counter[str] = field(default_factory=Counter)

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

    def operator(self, name: str) -> None:
        """Another operator, which lies if that is its name."""
        party = self.parties[name] = self.net.party(name)
        self.net.join(party)
        self.by_lines(name)
        module = "eigentensor_local.actors" if name.startswith(_LIAR) else "eigentensor_client"
        network = str(self.path / f"{name}.json")
        self.run(name, lambda more: start(self.net, party, module=module, network=network, **more)).wait_ready()

    def open(self) -> None:
        """The parties that are there in every schedule."""
        self.library = compiled(self.path)
        self.by_lines("aggregator")
        self.net.processes["aggregator"].stop()
        network = {"EIGENTENSOR_NETWORK": str(self.path / "aggregator.json")}
        self.run("aggregator", lambda more: self.net.start_aggregator({**network, **more})).wait_ready()
        for name in _HONEST:
            self.operator(name)
        watcher = self.parties["watcher"] = self.net.party("watcher")
        self.by_lines("watcher")
        self.run("watcher", lambda more: start_watcher(self.net, watcher, self.path / "watcher.json", **more))
        store = LocalStore(self.path / "store")
        self.client = self.stack.enter_context(Client(self.by_lines("client"), anvil_account(2), store))
        self.client.chain.token.mint(self.client.address, 100 * WAD)

    def played(self, schedule: Schedule) -> dict[str, int]:
        """One schedule to its end; what was planted, how tasks ended, and how often a daemon was started again. Raises
        AssertionError where an invariant does not hold."""
        liar = f"{_LIAR}-{schedule.number}"  # one that is convicted accepts nothing more
        self.operator(liar)
        before = self._counted()
        for line in self.lines:
            line.kinds, line.share = schedule.kinds, schedule.share
        try:
            orders = self._posted(schedule)
            self._fail(schedule, orders)
        finally:
            for line in self.lines:
                line.kinds = ()
            for daemon in self.daemons.values():
                daemon.system.end()
                daemon.blow = None
        self._ends(orders, schedule)
        ends = self.holds(orders, schedule)
        planted = self._counted() - before + ends
        self.daemons.pop(liar).running.stop()
        return dict(planted)

    def _fail(self, schedule: Schedule, orders: Sequence[Order]) -> None:
        """The seconds in which things go wrong."""
        begun, random, waiting = time.monotonic(), Random(f"blows {schedule.number}"), list(schedule.blows)
        while (now := time.monotonic() - begun) < BAD:
            for daemon in self.daemons.values():
                if daemon.blow is not None and daemon.blow.ends < now:
                    daemon.system.end()
                    daemon.blow = None
            for blow in [blow for blow in waiting if blow.begins < now]:
                waiting.remove(blow)
                daemon = self.daemons[f"{_LIAR}-{schedule.number}" if blow.daemon == _LIAR else blow.daemon]
                daemon.blow = blow
                daemon.system.begin(blow.fault, daemon.running, random)
                self.planted[blow.fault] += 1
            self._keep()
            with suppress(EigenTensorError):
                self._hurry(orders)
            time.sleep(0.2)

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
            name = f"{_LIAR}-{schedule.number}" if lies else _HONEST[len(orders) % len(_HONEST)]
            admitted = operators_root([bytes.fromhex(self.parties[name].address[2:])])
            terms = replace(TERMS, exec=60, operators=admitted)
            orders += self._tried(partial(self.client.prepare, [work_of(brought(_GRAPH))], terms))
        self._tried(partial(self.client.send, orders))
        return orders

    def _tried(self, do: Callable[[], T]) -> T:
        """What comes of it, tried until it comes."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return do()
            except EigenTensorError:
                assert time.monotonic() < end
                time.sleep(0.5)

    def _hurry(self, orders: Sequence[Order]) -> None:
        """Makes the blocks for which nobody has anything to do: those before a seed."""
        chain = self.client.chain
        for order in orders:
            seed = chain.market.seed_block_of(self.uuid(order))
            if seed and seed + chain.deployment.parameters.confirmations > chain.node.block_number():
                self.net.anvil.mine(1)

    def _ends(self, orders: Sequence[Order], schedule: Schedule) -> None:
        """Until every task has ended; blocks come faster where all that is waited for is a window."""
        end = time.monotonic() + PATIENCE
        chain, places = self.client.chain, list(zip(orders, schedule.lies, strict=True))
        while True:
            states = [(order, lies, chain.market.task_at(self.uuid(order)).state) for order, lies in places]
            if all(state.is_terminal for *_, state in states):
                return
            assert time.monotonic() < end, f"stuck: {[state.name for *_, state in states]}"
            self._keep()
            self._hurry(orders)
            waiting = [lies for _, lies, state in states if not state.is_terminal]
            if not any(waiting) and all(state is State.REVEALED for _, _, state in states if not state.is_terminal):
                self.net.anvil.mine(5)
            time.sleep(0.3)

    def uuid(self, order: Order) -> bytes:
        """The task of an order."""
        return order_uuid(order, self.net.network.deployment.domain)

    def holds(self, orders: Sequence[Order], schedule: Schedule) -> Counter[str]:
        """How tasks ended, if all is true that must be. Raises AssertionError."""
        chain, ends = self.client.chain, Counter[str]()
        for order, lies in zip(orders, schedule.lies, strict=True):
            state = chain.market.task_at(self.uuid(order)).state
            # A task that nobody accepted in time, or that its executor gave up, is no lie and no slash.
            ended = {State.CONVICTED} if lies else {State.FINAL}
            assert state in ended | {State.EXPIRED, State.FAILED}, f"lies {lies}: {state.name}"
            ends[f"{'lies' if lies else 'truths'} {state.name.lower()}"] += 1
            if state is State.CONVICTED:
                assert chain.market.conviction_of(self.uuid(order)).winner in self._challengers()
        for name in _HONEST:
            assert chain.stake.magnitude_of(self.parties[name].address) == WAD, f"{name} was slashed"
        end = time.monotonic() + SETTLED
        while (missing := self.missing()) and time.monotonic() < end:
            self._keep()
            self.net.anvil.mine(1)
            time.sleep(0.5)
        assert missing == 0, f"the market has {missing} wei more than it owes"
        return ends

    def _challengers(self) -> set[str]:
        """Who may have convicted a lie: the watcher, or who was drawn to check it."""
        honest = (self.parties[name] for name in (*_HONEST, "watcher"))
        return {str(account.address) for party in honest for account in (party.owner, party.signer)}

    def missing(self) -> int:
        """Wei that the market has beyond what it says that accounts have in it."""
        chain = self.client.chain
        kept = [chain.market.balance_of(account) for account in self.accounts()]
        return chain.token.balance_of(chain.deployment.task_market) - sum(one.balance + one.collateral for one in kept)

    def logs(self) -> str:
        """The ends of what all processes said."""
        return "\n".join(f"--- {name}\n{self.net.processes[name].tail()}" for name in (*self.parties, "aggregator"))

    def accounts(self) -> set[str]:
        """Everybody who may have something in the market: who is named in any event, and who sends messages."""
        chain = self.client.chain
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
    and daemons with bad systems; all are good until a schedule is played, which has a liar of its own."""
    with network_of(path / "chaos.json") as net, ExitStack() as stack:
        there = Place(net, path, stack)
        there.open()
        yield there
