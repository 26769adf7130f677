"""What `status` shows: money from the chain, tasks from the journal."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Self

from eigentensor.chain import Network, Reader, from_wei
from eigentensor.errors import ConfigError
from eigentensor.wire import Address, Name, Object, Wei, word
from eigentensor_operator.alarms import FIXES, Alarm, alarms_of
from eigentensor_operator.batches.store import BatchLine, BatchStore
from eigentensor_operator.case import Role
from eigentensor_operator.config import Settings
from eigentensor_operator.earnings import Earned
from eigentensor_operator.policy import Reason
from eigentensor_operator.reading import standing_of
from eigentensor_operator.store import Line, Store

_AMOUNTS = ("balance", "collateral", "cap", "bonds", "stake", "free", "locked", "stake_cap")
_NAMES = {"cap": "collateral cap", "free": "stake free", "locked": "stake locked", "stake_cap": "stake cap"}


@dataclass(frozen=True, slots=True)
class RaisedAlarm(Object):
    """Something that the operator's owner should look at."""

    alarm: Annotated[Alarm, word()]
    """Its name, which labels metrics too."""
    what: str
    """What is the matter, in words."""
    fix: str
    """What to do about it."""


@dataclass(frozen=True, slots=True)
class OperatorTask(Object):
    """A task in which the operator has a part."""

    task: Name
    """The task's uuid."""
    role: Annotated[Role, word("executor", "verifier")]
    """Its part."""
    state: str
    """How the task stood when it was last seen."""
    bond: Wei
    """Wei that it put down."""
    games: tuple[int, ...]
    """The open games that it plays, by number."""
    uploaded: bool
    """Whether the gateway has its result."""
    dropped: Reason | None
    """Why it does nothing more; null while it does."""

    @classmethod
    def of(cls, line: Line) -> Self:
        """The line of a journal, as owners see it."""
        state = line.state.name.lower()
        return cls(line.task.hex(), line.role, state, line.bond, line.games, line.uploaded, line.dropped)


@dataclass(frozen=True, slots=True)
class OperatorBatch(Object):
    """A batch of paid calls in which the operator has a part."""

    pool: Name
    """The offer whose calls it has."""
    number: int
    """Which batch of the pool."""
    role: Annotated[Role, word("executor", "verifier")]
    """Its part."""
    state: str
    """How the batch stood when it was last seen."""
    calls: int
    """How many calls were committed."""
    amount: Wei
    """Wei that they cost."""
    at_stake: bool
    """Whether something of the operator's may still come of it."""

    @classmethod
    def of(cls, line: BatchLine) -> Self:
        """The line of a journal, as owners see it."""
        role = Role.EXECUTOR if line.mine else Role.VERIFIER
        return cls(line.pool.hex(), line.number, role, line.state, line.calls, line.amount, line.at_stake)


@dataclass(frozen=True, slots=True)
class Report(Object, schema="eigentensor.operator/1"):
    """`eigentensor.operator/1`: what an operator has in a market, and its tasks."""

    network: str
    """The network's name."""
    operator: Address
    """Its account in EigenLayer."""
    symbol: str
    """What people call the market's token."""
    signer: Address
    """The hot key that signs for it."""
    device: str
    """What executes for it, as its daemon was started last; empty before it was."""
    member: bool
    """Whether it is in the market's operator set."""
    draining: bool
    """Whether it accepts nothing more."""
    seats: int
    """How often it stands in the list that verifiers are drawn from."""
    other_seats: int
    """How often others do."""
    balance: Wei
    """Wei of its tokens that are free in the market."""
    collateral: Wei
    """Wei of its tokens that the market holds for tasks."""
    cap: Wei
    """Wei of collateral and bonds that the signer may have put down at a time, for all tasks together."""
    bonds: Wei
    """Wei that it put down in its tasks."""
    stake: Wei
    """Wei of its slashable stake."""
    free: Wei
    """Wei of stake that no task locks."""
    locked: Wei
    """Wei of stake that tasks lock."""
    stake_cap: Wei
    """Wei of stake that the signer may have locked at a time, for all tasks together."""
    today: Earned | None
    """What it earned since midnight (UTC), as its journal says; null where there is none."""
    week: Earned | None
    """What it earned in the last seven days, as its journal says; null where there is none."""
    alarms: tuple[RaisedAlarm, ...]
    """What its owner should look at."""
    tasks: tuple[OperatorTask, ...]
    """Those that are not forgotten, oldest first."""
    call_balance: Wei
    """Wei of its tokens that are free in the market for paid calls."""
    call_collateral: Wei
    """Wei of its tokens that this market holds for batches, answers and challenges."""
    batches: tuple[OperatorBatch, ...]
    """Batches of paid calls, pool by pool in the order of their numbers."""

    def lines(self) -> Iterator[str]:
        """The same to people."""
        yield f"{'member':<16}{'yes' if self.member else 'no'}{', draining' if self.draining else ''}"
        yield f"{'signer':<16}{self.signer}"
        if self.device:
            yield f"{'device':<16}{self.device}"
        for name in _AMOUNTS:
            yield f"{_NAMES.get(name, name):<16}{from_wei(getattr(self, name))} {self.symbol}"
        yield f"{'seats':<16}{self.seats} of {self.seats + self.other_seats}"
        for when, earned in (("earned today", self.today), ("in 7 days", self.week)):
            if earned is not None:
                yield f"{when:<16}{self._earned(earned)}"
        for alarm in self.alarms:
            yield f"{'alarm':<16}{alarm.alarm}: {alarm.what}"
            yield f"{'':<16}{alarm.fix}"
        for task in self.tasks:
            why = f"  {task.dropped.code}: {task.dropped.offered}" if task.dropped else ""
            games = f"  plays game {', '.join(map(str, task.games))}" if task.games else ""
            yield f"{task.role:<16}{task.task}  {task.state}{games}{why}"
        if self.batches:
            held = f"{from_wei(self.call_balance)} {self.symbol}, {from_wei(self.call_collateral)} held"
            yield f"{'for calls':<16}{held}"
        for batch in self.batches:
            calls = f"{batch.calls} calls, {from_wei(batch.amount)} {self.symbol}"
            stake = "" if batch.at_stake else ", over"
            yield f"{batch.role:<16}pool {batch.pool[:8]} batch {batch.number}  {batch.state}  {calls}{stake}"

    def _earned(self, earned: Earned) -> str:
        net = f"{'-' if earned.net < 0 else ''}{from_wei(abs(earned.net))} {self.symbol}"
        executed = f"{from_wei(earned.tasks)} for {earned.executed} executed"
        checked = f"{from_wei(earned.checks)} for {earned.checked} checked"
        bonds = f"bonds won {from_wei(earned.bonds)}, penalties {from_wei(earned.penalties)}"
        return f"{net} ({executed}, {checked}, {bonds})"


def raised(alarms: Mapping[Alarm, str]) -> tuple[RaisedAlarm, ...]:
    """Alarms with what can be done about each."""
    return tuple(RaisedAlarm(alarm, what, FIXES[alarm]) for alarm, what in alarms.items())


def report_of(settings: Settings, network: Network) -> Report:
    """Of the operator that is named, else of the data folder's. Raises ConfigError if there is none, Unreachable."""
    operator = settings.address or (settings.account().address if settings.keystore else _operator(settings))
    if not operator:
        raise ConfigError("which operator?", fix="Set --address or EIGENTENSOR_OPERATOR_ADDRESS.")
    chain = Reader(network)
    chain.node.check()
    signer, *_ = chain.stake.signer_of(operator)
    policy, head = settings.policy(operator, network), chain.node.block_number()
    standing = standing_of(chain, policy, head, signer)
    today, week = _earned(settings, head, cache(chain.node.time_of))
    tasks = [line for line in _lines(settings) if line.role]
    account = chain.channels.balance_of(operator)
    return Report(
        network=network.name,
        operator=operator,
        symbol=network.deployment.token_symbol,
        balance=standing.balance,
        collateral=standing.collateral,
        cap=standing.cap,
        bonds=sum(line.bond for line in tasks),
        stake=chain.stake.of(operator),
        free=standing.stake,
        locked=standing.locked,
        stake_cap=standing.stake_cap,
        seats=standing.seats,
        other_seats=standing.other_seats,
        signer=signer,
        device=_device(settings),
        member=standing.member,
        draining=settings.drain_file.exists(),
        today=today,
        week=week,
        alarms=raised(alarms_of(policy, standing)),
        tasks=tuple(map(OperatorTask.of, tasks)),
        call_balance=account.balance,
        call_collateral=account.collateral,
        batches=tuple(map(OperatorBatch.of, batches_in(settings))),
    )


def unfinished(settings: Settings) -> list[bytes]:
    """Tasks, and batches of paid calls, in which this operator has, or is about to have, something at stake of which
    something may still come."""
    tasks = [line.task for line in _lines(settings) if not line.finished]
    return tasks + [line.batch for line in batches_in(settings) if line.at_stake]


def batches_in(settings: Settings) -> list[BatchLine]:
    """The journal of batches, if there is one."""
    if not settings.batches.exists():
        return []
    with closing(BatchStore(settings.batches)) as store:
        return store.summary()


def _earned(settings: Settings, head: int, time_of: Callable[[int], int]) -> tuple[Earned, Earned] | tuple[None, None]:
    """Since midnight, and in the last seven days; nothing without a journal."""
    if not settings.journal.exists():
        return None, None
    now = datetime.fromtimestamp(time_of(head), UTC)
    midnight = now.replace(hour=0, minute=0, second=0)
    with _journal(settings) as store:
        earnings = store.earnings(head)
    return Earned.of(earnings, midnight, time_of), Earned.of(earnings, now - timedelta(days=7), time_of)


def _operator(settings: Settings) -> str:
    """Whose the journal is; empty where there is none."""
    if not settings.journal.exists():
        return ""
    with _journal(settings) as store:
        return store.operator


def _device(settings: Settings) -> str:
    """What the daemon that was started last has; empty where none was."""
    if not settings.journal.exists():
        return ""
    with _journal(settings) as store:
        return store.device


def _lines(settings: Settings) -> list[Line]:
    """The journal, if there is one."""
    if not settings.journal.exists():
        return []
    with _journal(settings) as store:
        return store.summary()


def _journal(settings: Settings) -> closing[Store]:
    return closing(Store(settings.journal))
