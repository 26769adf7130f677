"""An owner at work: with its key here, or with a key that is elsewhere and gets messages to send."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from eigentensor.chain import (
    Call,
    Chain,
    Findings,
    Network,
    Reader,
    Step,
    carry_out,
    message_of,
    rehearse,
    sendable,
)
from eigentensor.chain import settle as settle_chain
from eigentensor.chain.keys import checked_address
from eigentensor.chain.survey import survey
from eigentensor.errors import ConfigError
from eigentensor_operator.config import Settings
from eigentensor_operator.onboarding import Plan, alone, batch, plan_of, wait_for, write_batch, written
from eigentensor_operator.options import head, note, show

Planned = Callable[[Findings], Sequence[Step]]


class OwnerAccount:
    """`chain` is a `Chain` where the owner's key is here."""

    def __init__(self, chain: Reader, owner: str, poll: float) -> None:
        self.chain = chain
        self.owner = owner
        self._poll = poll

    @property
    def is_cold(self) -> bool:
        """Whether the owner's key is elsewhere."""
        return not isinstance(self.chain, Chain)

    def settle(self) -> None:
        """Waits for what an interrupted run had sent."""
        if isinstance(self.chain, Chain):
            settle_chain(self.chain)

    def follow(self, planned: Planned, signer: str, more: Sequence[Step], *, dry_run: bool, wait: bool) -> Plan:
        """Does what can be done now, with `wait` everything. Dry, or without the key, it is only simulated.

        `more` are steps of this machine. Raises what sending raises.
        """
        chain = self.chain
        while True:
            if dry_run or not isinstance(chain, Chain):
                steps = planned(survey(chain, self.owner))
                self._rehearse(steps)
            else:
                steps = carry_out(chain, planned, _announce)
            findings = survey(chain, self.owner)
            plan = plan_of(chain, findings, signer, (*steps, *more))
            if dry_run or self.is_cold or not wait or plan.exit_code != 9:
                return plan
            for line in plan.lines():
                note(line)
            wait_for(chain, plan.until, self._poll)

    def show(self, plan: Plan, safe: Path | None, *, as_json: bool) -> None:
        """The plan to people or to programs; to people whose key is elsewhere, what its owner is to send."""
        if safe is not None:
            write_batch(safe, batch(self.chain, plan))
        lines = plan.lines()
        if self.is_cold and not as_json:
            for line in lines:
                note(line)
            lines = self._messages(plan)
        show(plan.to_json(self.chain), lines, as_json=as_json)
        if self.is_cold and not as_json:
            note(f"send these from {self.owner}, in this order, then run this again")

    def _messages(self, plan: Plan) -> Iterator[str]:
        for step in sendable(plan.steps):
            for call in step.calls:
                message = written(self.chain, call)
                yield f"{message['function']}\n  to    {message['to']}\n  value 0\n  data  {message['data']}"

    def _rehearse(self, steps: Sequence[Step]) -> None:
        messages = [message_of(self.chain.node, call) for step in sendable(steps) for call in step.calls]
        if messages and not rehearse(self.chain.node, self.owner, messages):
            note("the node simulates one message at a time: only the first was tried")


def _announce(step: Step, call: Call) -> None:
    note(f"sends   {call.function} for {step.name}")


@contextmanager
def _resumable() -> Iterator[None]:
    """Says how an interrupted plan goes on."""
    try:
        yield
    except KeyboardInterrupt:
        note("interrupted: run the same again. What was sent is waited for, and nothing is sent twice")
        raise typer.Exit(130) from None


@contextmanager
def opened(settings: Settings, owner: str | None) -> Iterator[OwnerAccount]:
    """The owner of the settings' keystore, or one whose key is elsewhere. Raises ConfigError, ChainError."""
    network = Network.load(settings.network)
    if owner is not None:
        if settings.keystore is not None:
            raise ConfigError("--owner is for a key that is elsewhere", fix="Leave out --owner, or the keystore.")
        reader = Reader(network)
        reader.node.check()
        address = checked_address(owner, "--owner")
        head(network.name, address)
        yield OwnerAccount(reader, address, settings.poll)
        return
    account = settings.account()
    head(network.name, account.address)
    sent = settings.data_dir / "owner-transactions.sqlite"
    with _resumable(), alone(settings.data_dir), Chain(network, account, sent) as chain:
        yield OwnerAccount(chain, account.address, settings.poll)
