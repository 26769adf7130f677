"""What `status` shows: money from the chain, tasks from the journal."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from eigentensor.chain import Network, Reader, State, from_wei
from eigentensor.errors import ConfigError
from eigentensor_operator.case import Case
from eigentensor_operator.config import Settings
from eigentensor_operator.store import Store

Line = tuple[bytes, State, Case]
_WORDS = ("network", "operator", "symbol", "signer", "member", "draining")
_AMOUNTS = ("balance", "collateral", "stake", "cap")


@dataclass(frozen=True, slots=True)
class Report:
    """Amounts in wei. `tasks` are those of this operator that are not forgotten, oldest first."""

    network: str
    operator: str
    symbol: str
    balance: int
    collateral: int
    stake: int
    cap: int
    signer: str
    member: bool
    draining: bool
    tasks: tuple[Line, ...]

    def to_json(self) -> dict[str, Any]:
        amounts = {name: str(getattr(self, name)) for name in _AMOUNTS}
        words = {name: getattr(self, name) for name in _WORDS}
        return words | amounts | {"tasks": [_task(*line) for line in self.tasks]}

    def lines(self) -> Iterator[str]:
        yield f"member      {'yes' if self.member else 'no'}{', draining' if self.draining else ''}"
        yield f"signer      {self.signer}"
        for name in _AMOUNTS:
            yield f"{name:<12}{from_wei(getattr(self, name))} {self.symbol}"
        for uuid, state, case in self.tasks:
            why = f"  {case.dropped.code}: {case.dropped.offered}" if case.dropped else ""
            yield f"task        {uuid.hex()}  {_word(state)}{why}"


def report_of(settings: Settings, network: Network) -> Report:
    """Raises ConfigError if no operator is named, Unreachable."""
    operator = settings.address or (settings.account().address if settings.keystore else "")
    if not operator:
        raise ConfigError("which operator?", fix="Set --address or EIGENTENSOR_OPERATOR_ADDRESS.")
    chain = Reader(network)
    chain.check()
    account = chain.balance_of(operator)
    signer, cap = chain.signer_of(operator)
    return Report(
        network.name,
        operator,
        network.deployment.token_symbol,
        account.balance,
        account.collateral,
        chain.stake_of(operator),
        cap,
        signer,
        chain.is_member(operator),
        settings.drain_file.exists(),
        tuple(_mine(settings)),
    )


def unfinished(settings: Settings) -> list[bytes]:
    """Tasks that this operator accepted and that still wait for something only it can do."""
    return [
        uuid
        for uuid, state, case in _mine(settings)
        if not case.dropped and (state < State.REVEALED or (case.seal and not case.uploaded))
    ]


def _mine(settings: Settings) -> list[Line]:
    if not settings.journal.exists():
        return []
    store = Store(settings.journal)
    try:
        return [(uuid, state, case) for uuid, state, mine, case in store.summary() if mine]
    finally:
        store.close()


def _word(state: State) -> str:
    return "final (unchecked)" if state is State.FINAL else state.name.lower()


def _task(uuid: bytes, state: State, case: Case) -> dict[str, Any]:
    dropped = asdict(case.dropped) if case.dropped else None
    return {"task": uuid.hex(), "state": state.name.lower(), "uploaded": case.uploaded, "dropped": dropped}
