"""What `status` shows: money from the chain, tasks from the journal."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from eigentensor.chain import Network, Reader, from_wei
from eigentensor.errors import ConfigError
from eigentensor_operator.alarms import FIXES, Alarm, alarms_of
from eigentensor_operator.config import Settings
from eigentensor_operator.reading import standing_of
from eigentensor_operator.store import Line, Store

if TYPE_CHECKING:
    from eigentensor_operator import schemas

_WORDS = ("network", "operator", "symbol", "signer", "member", "draining", "seats", "other_seats")
_AMOUNTS = ("balance", "collateral", "cap", "bonds", "stake", "free", "locked", "stake_cap")
_NAMES = {"cap": "collateral cap", "free": "stake free", "locked": "stake locked", "stake_cap": "stake cap"}


@dataclass(frozen=True, slots=True)
class Report:
    """Amounts in wei. `tasks` are those in which the operator has a part and that are not forgotten, oldest first."""

    network: str
    operator: str
    symbol: str
    balance: int
    collateral: int
    cap: int
    bonds: int
    stake: int
    free: int
    locked: int
    stake_cap: int
    seats: int
    other_seats: int
    signer: str
    member: bool
    draining: bool
    alarms: Mapping[Alarm, str]
    tasks: tuple[Line, ...]

    def to_json(self) -> "schemas.OperatorStatus":
        """`eigentensor.operator/1`."""
        amounts = {name: str(getattr(self, name)) for name in _AMOUNTS}
        words = {name: getattr(self, name) for name in _WORDS}
        alarms = [{"alarm": a.value, "what": what, "fix": FIXES[a]} for a, what in self.alarms.items()]
        lists = {"alarms": alarms, "tasks": [_task(line) for line in self.tasks]}
        return cast("schemas.OperatorStatus", {"schema": "eigentensor.operator/1", **words, **amounts, **lists})

    def lines(self) -> Iterator[str]:
        """The same to people."""
        yield f"{'member':<16}{'yes' if self.member else 'no'}{', draining' if self.draining else ''}"
        yield f"{'signer':<16}{self.signer}"
        for name in _AMOUNTS:
            yield f"{_NAMES.get(name, name):<16}{from_wei(getattr(self, name))} {self.symbol}"
        yield f"{'seats':<16}{self.seats} of {self.seats + self.other_seats}"
        for alarm, what in self.alarms.items():
            yield f"{'alarm':<16}{alarm}: {what}"
            yield f"{'':<16}{FIXES[alarm]}"
        for line in self.tasks:
            why = f"  {line.dropped.code}: {line.dropped.offered}" if line.dropped else ""
            games = f"  plays game {', '.join(map(str, line.games))}" if line.games else ""
            yield f"{line.role:<16}{line.task.hex()}  {line.state.name.lower()}{games}{why}"


def report_of(settings: Settings, network: Network) -> Report:
    """Raises ConfigError if no operator is named, Unreachable."""
    operator = settings.address or (settings.account().address if settings.keystore else "")
    if not operator:
        raise ConfigError("which operator?", fix="Set --address or EIGENTENSOR_OPERATOR_ADDRESS.")
    chain = Reader(network)
    chain.node.check()
    signer, *_ = chain.stake.signer_of(operator)
    policy = settings.policy(operator, network)
    standing = standing_of(chain, policy, chain.node.block_number(), signer)
    tasks = [line for line in _lines(settings) if line.role]
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
        member=standing.member,
        draining=settings.drain_file.exists(),
        alarms=alarms_of(policy, standing),
        tasks=tuple(tasks),
    )


def unfinished(settings: Settings) -> list[bytes]:
    """Tasks in which this operator has, or is about to have, something at stake of which something may still come."""
    return [line.task for line in _lines(settings) if not line.finished]


def _lines(settings: Settings) -> list[Line]:
    """The journal, if there is one."""
    if not settings.journal.exists():
        return []
    store = Store(settings.journal)
    try:
        return store.summary()
    finally:
        store.close()


def _task(line: Line) -> "schemas.OperatorTask":
    return {
        "task": line.task.hex(),
        "role": cast("schemas.Role", line.role.value),
        "state": line.state.name.lower(),
        "bond": str(line.bond),
        "games": list(line.games),
        "uploaded": line.uploaded,
        "dropped": cast("schemas.Dropped", asdict(line.dropped)) if line.dropped else None,
    }
