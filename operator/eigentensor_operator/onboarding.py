"""Becoming an operator and leaving: what is looked at before anything is spent, and plans as people and programs read
them."""

import fcntl
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigentensor import economics
from eigentensor.chain import Call, Findings, Goal, Reader, Status, Step, from_wei, message_of, sendable
from eigentensor.errors import ChainError, ConfigError, InsufficientFunds
from eigentensor_operator.config import Settings, read_file, write_file

if TYPE_CHECKING:
    from eigentensor_operator import schemas

_GAS = 2_000_000  # of all steps together, and more
_WORDS = {Status.DONE: "done", Status.TODO: "to do", Status.WAITING: "waits", Status.BLOCKED: "blocked"}


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps at the head `block`, whose successors come every `block_seconds`; `now` is when that was asked. An operator
    that is away for `outage` blocks may be convicted."""

    owner: str
    signer: str
    block: int
    block_seconds: float
    now: datetime
    steps: tuple[Step, ...]
    outage: int

    @property
    def complete(self) -> bool:
        """Whether every step is done."""
        return all(step.status is Status.DONE for step in self.steps)

    @property
    def until(self) -> int:
        """The first block that a step waits for; 0: none is known."""
        return min((s.until for s in self.steps if s.status is Status.WAITING and s.until), default=0)

    @property
    def exit_code(self) -> int:
        """0: complete, 9: not there yet, 11: something must be done elsewhere first."""
        if any(step.status is Status.BLOCKED for step in self.steps):
            return 11
        return 0 if self.complete else 9

    def date(self, block: int) -> datetime:
        """About when a block will be there."""
        seconds = max(0, block - self.block) * self.block_seconds
        return (self.now + timedelta(seconds=math.ceil(seconds))).replace(microsecond=0)

    def lines(self) -> Iterator[str]:
        """The plan to people."""
        for step in self.steps:
            until = f"until block {step.until}, about {self.date(step.until):%Y-%m-%d %H:%M} UTC" if step.until else ""
            more = "; ".join(part for part in (until, step.why) if part and step.status is not Status.DONE)
            yield f"{_WORDS[step.status]:<8}{step.name}: {step.what}{f' ({more})' if more else ''}"
        if self.signer:  # who leaves has nothing before it
            seconds = math.floor(self.outage * self.block_seconds)
            yield f"away    an operator that is away for {self.outage} blocks, about {seconds} s, may be convicted"

    def to_json(self, chain: Reader) -> "schemas.OperatorPlan":
        """`eigentensor.operator-plan/2`."""
        return {
            "schema": "eigentensor.operator-plan/2",
            "operator": self.owner,
            "signer": self.signer,
            "block": self.block,
            "complete": self.complete,
            "outage": self.outage,
            "steps": [self._step(chain, step) for step in self.steps],
        }

    def _step(self, chain: Reader, step: Step) -> "schemas.PlanStep":
        return {
            "step": step.name,
            "what": step.what,
            "status": step.status.value,
            "why": step.why,
            "until_block": step.until or None,
            "until": self.date(step.until).isoformat() if step.until else None,
            "calls": [written(chain, call) for call in step.calls],
        }


def plan_of(chain: Reader, findings: Findings, signer: str, steps: Sequence[Step]) -> Plan:
    """The plan of these steps, at the block of the findings."""
    outage = economics.outage(chain.deployment.parameters)
    return Plan(
        findings.owner, signer, findings.block, chain.node.block_seconds(), datetime.now(UTC), tuple(steps), outage
    )


def written(chain: Reader, call: Call) -> "schemas.OwnerCall":
    """A message for whoever has the owner's key."""
    message = message_of(chain.node, call)
    return {"function": message.name, "to": message.to, "value": "0", "data": "0x" + message.data.hex()}


def batch(chain: Reader, plan: Plan) -> dict[str, Any]:
    """What is to be sent now as a file for Safe's transaction builder."""
    calls = [written(chain, call) for step in sendable(plan.steps) for call in step.calls]
    empty = {"contractMethod": None, "contractInputsValues": None}
    return {
        "version": "1.0",
        "chainId": str(chain.deployment.chain_id),
        "createdAt": int(plan.now.timestamp() * 1000),
        "meta": {"name": "EigenTensor operator", "createdFromSafeAddress": plan.owner},
        "transactions": [{"to": c["to"], "value": c["value"], "data": c["data"], **empty} for c in calls],
    }


def write_batch(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a `batch` at once, or not at all."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=2) + "\n")
    temporary.replace(path)


# ---- Before anything is spent ----


def check_market(chain: Reader) -> None:
    """Raises ChainError if the market takes no tasks on EigenLayer's core as it is now."""
    p = chain.deployment.parameters
    longest, delay = economics.lifetime(p, p.max_exec), chain.stake.stake_delay()
    if economics.lifetime(p, 1) > delay:
        raise ChainError(
            f"EigenLayer lets stake go after {delay} blocks now, the market's shortest task lives longer",
            fix=f"The longest takes {longest} blocks. Nothing is accepted here any more: wait for another market.",
        )


def check_funds(chain: Reader, findings: Findings, goal: Goal) -> None:
    """Raises InsufficientFunds, which names what is missing where: gas of both keys, tokens for all steps together."""
    symbol, decimals, owner = chain.deployment.token_symbol, chain.deployment.token_decimals, findings.owner
    for who, account, gas in (("owner", owner, _GAS), ("signer", goal.signer, 1)):
        if chain.node.ether_of(account) < (needed := gas * chain.node.gas_price()):
            raise InsufficientFunds(
                f"the {who} {account} has no gas",
                fix=f"Send {from_wei(needed)} of the chain's coin there, then run this again.",
                topic=chain.network.funding,
            )
    held = findings.balance + findings.collateral
    missing = max(0, goal.stake - findings.stake) + max(0, goal.collateral - held)
    if findings.tokens < missing:
        raise InsufficientFunds(
            f"the owner {owner} has {from_wei(findings.tokens, decimals)} {symbol}; "
            f"stake and collateral need {from_wei(missing, decimals)}",
            fix="Send the rest there, or ask for less with --stake and --collateral, then run this again.",
            topic=chain.network.funding,
        )


# ---- On this machine ----


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Only one of these at a time sends the owner's messages. Raises ConfigError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "owner.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"somebody else is at it in {folder}", fix="Wait for the other `operator up` or `operator leave`."
            ) from None
        yield


def prices(folder: Path, wanted: Mapping[str, str | None], *, write: bool) -> Step:
    """Keeps the prices with which the daemon of this data folder is to start; without any there is nothing to do."""
    named = {name: text for name, text in wanted.items() if text is not None}
    kept = read_file(folder)
    if write and any(kept.get(name) != text for name, text in named.items()):
        write_file(folder, named)
        kept = read_file(folder)
    done = all(kept.get(name) == text for name, text in named.items())
    usual = {name: kept.get(name, Settings.model_fields[name].default) for name in wanted}
    shown = ", ".join(f"{name} {(usual | named)[name]}" for name in (named or wanted))
    return Step("prices", f"ask for {shown}", Status.DONE if done else Status.TODO)


def wait_for(chain: Reader, block: int, poll: float) -> None:
    """Returns when a block is there; where 0, after the next one."""
    target = block or chain.node.block_number() + 1
    while chain.node.block_number() < target:
        time.sleep(poll)
