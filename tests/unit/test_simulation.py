"""Simulated tasks: what they pay, that nothing gets lost, and that they agree with the closed form."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from eigentensor.economics.agents import (
    AGENTS,
    BRIBING,
    CHEATS,
    COLLUDING,
    FREE_OPTION,
    GRIEFING,
    HONEST,
    LAZY,
    SELF_CONVICTING,
    SELLING,
    WITHHOLDING,
    Agent,
    SelfConviction,
)
from eigentensor.economics.expected import Expectation, baseline, expected
from eigentensor.economics.situation import BURNED, Amounts, Situation
from eigentensor.economics.terms import GAS_ACCEPT, GAS_ANSWER, GAS_CHALLENGE, GAS_COMMIT, GAS_DEFEND
from eigentensor_economics.simulation import PARTIES, estimate, play
from eigentensor_local.foundry import CONTRACTS
from support.stories.situations import ORDINARY, random_situations

MIXTURE = replace(
    BRIBING, name="mixture", buys=True, convicts=SelfConviction.CORNERED, walks=True, does="everything at once"
)


def deviations(agent: Agent) -> list[float]:
    """How many standard errors the closed form lies from the mean, in random situations."""
    scores = []
    for seed, x in enumerate(random_situations(12, seed=7)):
        shown = estimate(x, agent, tasks=20_000, seed=seed).payoff
        off = shown.value - expected(x, agent)
        scores.append(off / shown.error if shown.error > 1e-12 else (0.0 if abs(off) < 1e-9 else float("inf")))
    return scores


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_the_closed_form_lies_within_the_interval(agent: Agent) -> None:
    off = np.abs(deviations(agent))
    assert off.max() < 4.5
    assert (off < 2.58).mean() > 0.8


@pytest.mark.parametrize("agent", [*AGENTS.values(), MIXTURE], ids=[*AGENTS, "mixture"])
def test_what_one_loses_another_gets_in_every_task(agent: Agent) -> None:
    for x in random_situations(4, seed=11):
        outcome = play(x, agent, 2_000, np.random.default_rng(3))
        assert np.allclose(sum(outcome.ledger.paid.values()), 0)
        assert (outcome.ledger.paid["burned"] >= 0).all()
        ends = outcome.final.astype(int) + outcome.failed + outcome.convicted
        assert (ends == 1).all(), "every task reaches exactly one end"


def test_a_client_never_pays_more_than_its_escrow_and_nothing_where_it_gets_nothing() -> None:
    for agent in (*CHEATS, MIXTURE, WITHHOLDING, FREE_OPTION, HONEST):
        for x in random_situations(4, seed=5):
            outcome = play(x, agent, 2_000, np.random.default_rng(4))
            paid, m = -outcome.ledger.paid["client"], x.amounts
            assert (paid <= m.P + x.verifiers * m.v + 1e-9).all()
            assert (paid[~outcome.final] == 0).all()
            assert np.allclose(paid[outcome.final & ~outcome.drawn], m.P)


def test_a_convicted_liar_loses_stake_and_collateral_and_of_both_at_least_what_is_burned() -> None:
    x = replace(ORDINARY, rate=0.5, verifiers=3, share=0.4, watch=0.3)
    m = x.amounts
    for agent in CHEATS:
        outcome = play(x, agent, 4_000, np.random.default_rng(1))
        lost = -outcome.ledger.paid["executor"][outcome.convicted]
        assert lost.size
        assert (lost >= BURNED * m.s + m.K - m.W - x.verifiers * m.v - 1e-9).all()
        assert (outcome.ledger.paid["burned"][outcome.convicted] >= BURNED * m.s + m.W - 1e-9).all()


def test_a_right_result_is_never_convicted_if_it_is_revealed() -> None:
    for agent in AGENTS.values():
        if agent.works and agent is not WITHHOLDING:
            assert estimate(ORDINARY, agent, tasks=5_000).rates["convicted"] == 0


def test_the_same_seed_shows_the_same_and_another_does_not() -> None:
    first, again, other = (estimate(ORDINARY, COLLUDING, tasks=1_000, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.payoff != other.payoff


def test_ninety_nine_of_a_hundred_intervals_hold_the_expectation() -> None:
    x, held = ORDINARY, 0
    value = expected(x, COLLUDING)
    for seed in range(400):
        shown = estimate(x, COLLUDING, tasks=1_000, seed=seed).payoff
        held += shown.low <= value <= shown.high
    assert 388 <= held < 400


def test_lying_loses_on_average_by_the_margin_as_the_stake_formula_says() -> None:
    """The formula leaves out what conviction takes beside b·s, and what else a lie earns: fees of own seats."""
    for x in random_situations(200, seed=2):
        x = replace(x, share=1 / 3, diligence=1.0, gain=x.value_at_risk, gas_price=0.0, shortcut=0.0, watch=0.0)
        a = Expectation(x, x.share).a
        bound = -0.25 * (1 - a) * (x.price + x.value_at_risk)
        for agent in CHEATS:
            if not agent.bribes:
                assert expected(x, agent) <= bound + 1e-9


def test_the_parties_of_a_quiet_task_earn_what_the_design_says() -> None:
    x = replace(ORDINARY, gas_price=0.0, rate=1.0, verifiers=2)
    m, payoffs = x.amounts, estimate(x, HONEST, tasks=100).payoffs
    earnings = {"client": x.benefit - m.P - 2 * m.v, "executor": m.P - x.cost, "verifiers": 2 * (m.v - x.cost)}
    assert {party: payoffs[party].value for party in PARTIES} == pytest.approx(earnings | {"challengers": 0})
    assert payoffs["burned"].value == 0


TWO = replace(ORDINARY, verifiers=2)

#: Each end with certainty: who gets what, in the letters of contracts/README.md.
ENDS: dict[str, tuple[Agent, Situation, Callable[[Amounts], dict[str, float]]]] = {
    "final, checked by two": (HONEST, replace(TWO, rate=1.0), lambda m: {
        "client": -m.P - 2 * m.v, "executor": m.P, "verifiers": 2 * m.v}),
    "final, not drawn": (HONEST, replace(TWO, rate=0.0, stake=1.0), lambda m: {"client": -m.P, "executor": m.P}),
    "failed": (WITHHOLDING, replace(TWO, rate=0.0, stake=1.0), lambda m: {"executor": -m.h, "burned": m.h}),
    "convicted by two verifiers": (LAZY, replace(TWO, rate=1.0), lambda m: {
        "executor": -m.K - m.s, "verifiers": m.W + 2 * m.v + m.s / 2, "burned": m.K - m.W - 2 * m.v + m.s / 2}),
    "convicted by a watcher": (LAZY, replace(TWO, rate=0.0, stake=9.0, watch=1.0), lambda m: {
        "executor": -m.K - m.s, "challengers": m.W + m.s / 2, "burned": m.K - m.W + m.s / 2}),
    "convicted by itself": (SELF_CONVICTING, replace(TWO, rate=0.0, stake=9.0), lambda m: {
        "executor": -m.K + m.W - m.s / 2, "burned": m.K - m.W + m.s / 2}),
    "drawn and not revealed": (WITHHOLDING, replace(TWO, rate=1.0), lambda m: {
        "executor": -m.K - m.s, "verifiers": m.W + 2 * m.v + m.s / 2, "burned": m.K - m.W - 2 * m.v + m.s / 2}),
    "not revealed, nobody answered": (WITHHOLDING, replace(TWO, rate=1.0, diligence=0.0), lambda m: {
        "executor": -m.K + m.W - m.s, "burned": m.K - m.W + m.s}),
    "final after a lost challenge": (GRIEFING, replace(TWO, rate=0.0, stake=1.0), lambda m: {
        "client": -m.P, "executor": m.P + m.W, "challengers": -m.B, "burned": m.B - m.W}),
    "one opening exposed": (SELLING, replace(TWO, rate=1.0, cost=0.0), lambda m: {
        "client": -m.P - 2 * m.v, "executor": m.P - m.W, "verifiers": 2 * m.v + m.W / 2, "burned": m.W / 2}),
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_every_end_pays_as_the_table_of_the_contracts_says(end: str) -> None:
    agent, x, shares = ENDS[end]
    paid = play(x, agent, 3, np.random.default_rng(0)).ledger.paid
    wanted = dict.fromkeys(paid, 0.0) | shares(x.amounts)
    for account, amount in wanted.items():
        assert paid[account] == pytest.approx(amount), account


def test_only_the_opening_of_a_right_result_is_sold() -> None:
    with pytest.raises(ValueError, match="worth buying"):
        replace(SELLING, works=False)


def test_a_mixture_has_no_closed_form() -> None:
    with pytest.raises(KeyError):
        expected(ORDINARY, MIXTURE)
    assert baseline(ORDINARY, MIXTURE) == baseline(ORDINARY, LAZY)


def test_nobody_awake_means_final_and_unchecked() -> None:
    asleep = replace(ORDINARY, diligence=0.0, gain=1.0)
    shown = estimate(asleep, LAZY, tasks=1_000)
    assert shown.rates["wrong"] == 1
    assert shown.payoff.value == pytest.approx(expected(asleep, LAZY))


def test_gas_is_what_the_snapshots_say() -> None:
    def gas(name: str) -> dict[str, int]:
        values = json.loads((CONTRACTS / "snapshots" / f"{name}.json").read_text())
        return {key: int(value) for key, value in values.items()}

    task, check, game = gas("task"), gas("check"), gas("dispute-deep")
    assert task["accept"] == GAS_ACCEPT
    assert task["commit"] + task["reveal"] == GAS_COMMIT
    assert check["answer"] + check["reveal of an equal root"] + check["settle"] == GAS_ANSWER
    executor = game["publish, 17"] + 2 * (game["descend to 32"] + game["descend to 64"] + game["claimBorders, 63"])
    assert executor + game["showLeaf, a reduction"] == GAS_DEFEND
    both = game["all"] - game["open"] + gas("conviction")["challenge"]
    assert both - GAS_DEFEND == GAS_CHALLENGE
    stated = (CONTRACTS.parent / "operator/README.md").read_text()
    assert all(f"{figure:,}" in stated for figure in (GAS_ACCEPT + GAS_COMMIT, GAS_ANSWER, GAS_DEFEND))
