"""Becoming an operator and leaving, on the stand-in core: whatever interrupts it, nothing is sent twice."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from eigentensor.chain import (
    Chain,
    Findings,
    Goal,
    Network,
    Reader,
    Status,
    Step,
    anvil_account,
    carry_out,
    joining,
    leaving,
    message_of,
    rehearse,
    sendable,
    to_wei,
)
from eigentensor.chain.keys import new_account
from eigentensor.chain.survey import survey
from eigentensor.economics import WAD
from eigentensor.errors import ChainError, Reverted
from eigentensor.task.signatures import Key
from eigentensor_local.anvil import Anvil
from eigentensor_local.contracts import DEPLOYER
from support.stories.core import core

STAKE = to_wei("3")
NOBODY = "0x" + "00" * 20
MESSAGES = 9  # of a plan: two of them approvals


Offer = Callable[[bytes], object]


class Crash(BaseException):
    pass


@dataclass
class Newcomer:
    """An account with coins and tokens, whose every process has the same journal."""

    network: Network
    account: Key
    journal: Path

    @property
    def goal(self) -> Goal:
        return Goal(anvil_account(8).address, STAKE, WAD, WAD, STAKE, 2)

    def plan(self, findings: Findings) -> Sequence[Step]:
        return joining(findings, self.goal, self.network.deployment)

    def exit(self, findings: Findings) -> Sequence[Step]:
        return leaving(findings, self.network.deployment, withdraw=True)

    def chain(self) -> Chain:
        return Chain(self.network, self.account, self.journal, deadline=20)

    def join(self) -> Sequence[Step]:
        with self.chain() as chain:
            return carry_out(chain, self.plan)

    def leave(self) -> dict[str, Step]:
        with self.chain() as chain:
            return {step.name: step for step in carry_out(chain, self.exit)}


@pytest.fixture
def newcomer(anvil: Anvil, network: Network, tmp_path: Path) -> Iterator[Newcomer]:
    account = new_account()
    anvil.fund(account.address)
    with Chain(network, anvil_account(DEPLOYER), tmp_path / "deployer.sqlite") as chain:
        chain.token.mint(account.address, STAKE + WAD)
    yield Newcomer(network, account, tmp_path / "owner.sqlite")


def statuses(steps: Sequence[Step]) -> dict[str, Status]:
    return {step.name: step.status for step in steps}


# ---- Joining ----


def test_a_newcomer_joins_by_one_message_for_each_missing_thing(newcomer: Newcomer) -> None:
    assert set(statuses(newcomer.join()).values()) == {Status.DONE}
    with newcomer.chain() as chain:
        assert chain.node.transaction_count(chain.address) == MESSAGES
        s = survey(chain, chain.address)
        assert (s.stake, s.balance, s.seats, s.magnitude, s.is_member) == (STAKE, WAD - s.collateral, 2, WAD, True)
        assert s.collateral == 2 * s.seat_deposit > 0
        assert (s.signer, s.caps) == (newcomer.goal.signer, (WAD, STAKE))
        carry_out(chain, newcomer.plan)
        assert chain.node.transaction_count(chain.address) == MESSAGES


@pytest.mark.parametrize(
    "left", [pytest.param(False, id="before it leaves", marks=pytest.mark.slow), pytest.param(True, id="after it left")]
)
def test_whoever_dies_at_any_message_goes_on_and_sends_nothing_twice(
    newcomer: Newcomer, left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process dies at its first message, with the message in its journal."""
    for sent in range(MESSAGES):
        with newcomer.chain() as dying:
            offer = dying.node.send
            seen: list[bytes] = []

            def die(raw: bytes, offer: Offer = offer, seen: list[bytes] = seen, sent: int = sent) -> object:
                if not seen:  # what the one before left behind
                    seen.append(raw)
                    if sent and not left:
                        return offer(raw)
                if left:
                    offer(raw)
                raise Crash

            monkeypatch.setattr(dying.node, "send", die)
            with pytest.raises(Crash):
                carry_out(dying, newcomer.plan)
    assert set(statuses(newcomer.join()).values()) == {Status.DONE}
    with newcomer.chain() as chain:
        assert chain.node.transaction_count(chain.address) == MESSAGES
        s = survey(chain, chain.address)
        assert (s.stake, s.balance, s.seats) == (STAKE, WAD - 2 * s.seat_deposit, 2)


def test_a_plan_for_a_key_that_is_elsewhere_is_simulated_as_a_whole(newcomer: Newcomer, anvil: Anvil) -> None:
    reader, owner = Reader(newcomer.network), newcomer.account.address
    calls = [call for step in sendable(newcomer.plan(survey(reader, owner))) for call in step.calls]
    messages = [message_of(reader.node, call) for call in calls]
    assert len(messages) == MESSAGES - 1  # seats need the allocation
    assert rehearse(reader.node, owner, messages)
    with pytest.raises(Reverted, match="UninitializedAllocationDelay"):
        rehearse(reader.node, owner, [m for m in messages if m.name == "modifyAllocations"])
    anvil.rpc("anvil_impersonateAccount", owner)
    for message in messages:
        anvil.rpc("eth_sendTransaction", {"from": owner, "to": message.to, "data": "0x" + message.data.hex()})
    steps = newcomer.plan(survey(reader, owner))
    assert [step.name for step in steps if step.status is not Status.DONE] == ["seats"]
    assert rehearse(reader.node, owner, [message_of(reader.node, call) for call in steps[-1].calls])


def test_an_account_delegated_to_another_sends_nothing(newcomer: Newcomer, operator: Chain) -> None:
    with newcomer.chain() as chain:
        core(chain, "delegation_manager", "delegateTo", operator.address, (b"", 0), bytes(32))
        count = chain.node.transaction_count(chain.address)
        steps = carry_out(chain, newcomer.plan)
        assert steps[0].status is Status.BLOCKED and operator.address in steps[0].why
        assert chain.node.transaction_count(chain.address) == count


def test_too_few_tokens_block_before_anything_is_put_at_risk(newcomer: Newcomer) -> None:
    with newcomer.chain() as chain:
        goal = replace(newcomer.goal, stake=to_wei("100"))
        steps = carry_out(chain, lambda s: joining(s, goal, chain.deployment))
        by_name = {step.name: step for step in steps}
        assert by_name["stake"].status is Status.BLOCKED and "needs 100" in by_name["stake"].why
        assert by_name["operator set"].status is not Status.DONE


def test_seats_take_their_deposits_of_the_balance_and_say_so(newcomer: Newcomer) -> None:
    poor = replace(newcomer.goal, collateral=1)
    with newcomer.chain() as chain:
        steps = {step.name: step for step in carry_out(chain, lambda s: joining(s, poor, chain.deployment))}
    assert steps["seats"].status is Status.BLOCKED and "deposits take" in steps["seats"].why
    assert set(statuses(newcomer.join()).values()) == {Status.DONE}


def test_an_operator_with_an_allocation_delay_waits_for_its_block(newcomer: Newcomer, anvil: Anvil) -> None:
    with newcomer.chain() as chain:
        core(chain, "delegation_manager", "registerAsOperator", NOBODY, 50, "")
        steps = {step.name: step for step in carry_out(chain, newcomer.plan)}
        until = survey(chain, chain.address).effect_block
        assert [(name, step.until) for name, step in steps.items() if step.status is Status.WAITING] == [
            ("allocation", until), ("seats", until),
        ]  # fmt: skip
        anvil.mine_past(until - 2)
        assert carry_out(chain, newcomer.plan)[-1].status is Status.WAITING
        anvil.mine_past(until - 1)
        assert set(statuses(carry_out(chain, newcomer.plan)).values()) == {Status.DONE}


@pytest.mark.slow
def test_a_part_of_the_stake_is_allocated_if_that_is_wanted(newcomer: Newcomer) -> None:
    half = replace(newcomer.goal, magnitude=WAD // 2, seats=1)
    with newcomer.chain() as chain:
        steps = carry_out(chain, lambda s: joining(s, half, chain.deployment))
        assert set(statuses(steps).values()) == {Status.DONE}
        assert chain.stake.allocation_of(chain.address) == WAD // 2


@pytest.mark.slow
def test_a_paused_core_says_so_and_the_next_run_goes_on(newcomer: Newcomer, chain_of: Callable[[int], Chain]) -> None:
    pauser = chain_of(DEPLOYER)
    core(pauser, "allocation_manager", "pause", 4)  # registrations
    with newcomer.chain() as chain, pytest.raises(Reverted, match="CurrentlyPaused") as refused:
        carry_out(chain, newcomer.plan)
    assert "again" in refused.value.fix
    core(pauser, "allocation_manager", "unpause", 0)
    assert set(statuses(newcomer.join()).values()) == {Status.DONE}


@pytest.mark.slow
def test_a_message_that_changes_nothing_is_not_repeated_for_ever(newcomer: Newcomer) -> None:
    with newcomer.chain() as chain:
        first = newcomer.plan(survey(chain, chain.address))
        with pytest.raises(ChainError, match="nothing has changed"):
            carry_out(chain, lambda _: first[1:2])


# ---- Leaving ----


def test_an_operator_leaves_with_everything_when_the_delays_are_over(newcomer: Newcomer, anvil: Anvil) -> None:
    newcomer.join()
    steps = newcomer.leave()
    waiting = {name: step.until for name, step in steps.items() if step.status is Status.WAITING}
    assert waiting.keys() == {"allocation", "withdrawal"}
    assert {name for name, step in steps.items() if step.status is Status.DONE} == steps.keys() - waiting.keys()
    assert newcomer.leave() == steps
    with newcomer.chain() as chain:
        count = chain.node.transaction_count(chain.address)
        assert (chain.stake.is_member(chain.address), chain.stake.seats_of(chain.address)) == (False, 0)
        assert chain.token.balance_of(chain.address) == WAD
        anvil.mine_past(max(waiting.values()))
        assert {step.status for step in newcomer.leave().values()} == {Status.DONE}
        assert chain.token.balance_of(chain.address) == STAKE + WAD
        assert chain.node.transaction_count(chain.address) == count + 1
        assert chain.stake.signer_of(chain.address)[0] == NOBODY


@pytest.mark.slow
def test_whoever_left_comes_back_when_its_membership_answers_no_more(newcomer: Newcomer, anvil: Anvil) -> None:
    newcomer.join()
    with newcomer.chain() as chain:
        carry_out(chain, lambda s: leaving(s, chain.deployment, withdraw=False))
        left = chain.node.block_number()
        again = {step.name: step for step in newcomer.plan(survey(chain, chain.address))}
        back = again["operator set"]
        assert back.status is Status.WAITING and left < back.until <= left + 1001
        anvil.mine_past(max(step.until for step in again.values()))
    assert set(statuses(newcomer.join()).values()) == {Status.DONE}


def test_tasks_keep_the_signer_and_the_balance(newcomer: Newcomer) -> None:
    newcomer.join()
    reader = Reader(newcomer.network)
    s = replace(survey(reader, newcomer.account.address), locked=5, locked_until=9_000, collateral=7)
    steps = {step.name: step for step in newcomer.exit(s)}
    assert [(steps[name].status, steps[name].until) for name in ("tasks", "balance", "signer")] == [
        (Status.WAITING, 9_000)
    ] * 3
    assert steps["operator set"].status is steps["allocation"].status is Status.TODO
