"""Wrong results of paid calls: how often the real draw shows them, that they pay in no profile, and what remains."""

import json
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from eigentensor.economics import WAD, shares
from eigentensor.economics.situation import LOCAL, mainnet, wei
from eigentensor.economics.tuning import Lock
from eigentensor_client.cli import main
from eigentensor_economics.batch_tuning import Times, tune_offer
from eigentensor_economics.batches import BatchSituation, profiles, spread
from eigentensor_economics.draws import Draws, chances, share_of, simulate
from eigentensor_economics.lies import BRIBING, UNBRIBED, WAYS, Expectation, Way, brings, estimate, pays_from

X = BatchSituation(parameters=LOCAL)


def in_shares(x: BatchSituation, mix: bytes, batch: bytes) -> dict[int, int]:
    """The share of each checked call of a batch, by the contract's formula."""
    terms = (x.calls, wei(x.rate), x.verifiers)
    numbers = [shares.numbers(mix, batch, *terms, share) for share in range(shares.shares(x.calls, x.verifiers))]
    return {number: share for share, those in enumerate(numbers) for number in those}


SHAPES = [(1_000, 0.05, 4), (1_000, 0.033, 3), (7, 0.6, 2), (3, 0.05, 4), (1, 1.0, 1), (64, 1.0, 4), (97, 0.31, 3)]


@pytest.mark.parametrize(("calls", "rate", "n"), SHAPES)
def test_the_share_of_one_call_is_what_the_draw_of_all_says(calls: int, rate: float, n: int) -> None:
    x, rng = replace(X, calls=calls, rate=rate, verifiers=n), np.random.default_rng(calls)
    m = x.amounts
    for _ in range(5):
        mix, batch = rng.bytes(32), rng.bytes(32)
        known = in_shares(x, mix, batch)
        assert len(known) == m.k
        assert [share_of(mix, batch, calls, m.k, m.count, number) for number in range(calls)] == [
            known.get(number) for number in range(calls)
        ]


@pytest.mark.parametrize(("calls", "rate", "n"), SHAPES)
def test_a_simulated_batch_sees_what_all_its_shares_show(calls: int, rate: float, n: int) -> None:
    """Without a coalition each share is a stranger's: as many have a wrong call as the slow formula says."""
    x = replace(X, calls=calls, rate=rate, verifiers=n, share=0.0)
    wrong = profiles(calls)
    drawn, rng = simulate(x, wrong, batches=30, seed=5), np.random.default_rng(5)
    for place in range(30):
        known = in_shares(x, rng.bytes(32), rng.bytes(32))
        for number in wrong:
            hit = {known[call] for call in spread(calls, number) if call in known}
            assert drawn[number].hit[place] == len(hit) and drawn[number].own[place] == 0


def seen_in(batches: int) -> dict[int, float]:
    return {wrong: those.seen for wrong, those in simulate(X, [1, 10, 1_000], batches=batches, seed=1).items()}


def test_what_is_wrong_is_seen_as_often_as_was_promised() -> None:
    seen = seen_in(3_000)
    assert seen[1] == pytest.approx(0.033, abs=0.01)
    assert seen[10] == pytest.approx(0.28, abs=0.03)
    assert seen[1_000] == pytest.approx(0.988, abs=0.008)


@pytest.mark.slow
def test_in_twenty_thousand_batches_one_wrong_call_of_a_thousand_is_seen_in_a_thirtieth() -> None:
    """At a check rate of 5 % among four verifiers, where a third of the seats agree with everything."""
    seen = seen_in(20_000)
    assert seen[1] == pytest.approx(0.033, abs=0.005)
    assert seen[10] == pytest.approx(0.30, abs=0.03)
    assert 0.98 < seen[1_000] < 0.995


def random_batches(count: int, seed: int) -> list[BatchSituation]:
    rng = np.random.default_rng(seed)
    return [
        BatchSituation(
            parameters=LOCAL, price=rng.uniform(0.5, 2), check_price=rng.uniform(0, 0.5), calls=400,
            channels=int(rng.integers(1, 50)), rate=float(rng.choice([0.05, 0.1, 0.2, 0.5])),
            verifiers=int(rng.choice([1, 2, 4])), value_at_risk=rng.uniform(0, 2), gain=rng.uniform(0, 3),
            cost=rng.uniform(0.1, 1), shortcut=rng.uniform(0, 0.2), share=rng.uniform(0.1, 0.6),
            diligence=rng.uniform(0.1, 1), watch=rng.uniform(0, 0.5),
        )
        for _ in range(count)
    ]  # fmt: skip


def test_the_closed_form_agrees_with_the_draw() -> None:
    """As long as wrong calls are no more than rows of the draw; beyond, they are seen a little more often."""
    off = []
    for seed, x in enumerate(random_batches(8, seed=3)):
        for lie in estimate(x, WAYS, batches=400, seed=seed):
            apart = lie.wrong <= x.amounts.k // x.amounts.count or lie.wrong == x.calls
            for shown, expected in ((lie.brings, lie.expected), (lie.seen, lie.expected_seen)):
                if apart and shown.error > 1e-12:
                    off.append(abs(shown.value - expected) / shown.error)
            assert lie.seen.value > lie.expected_seen - 4.5 * max(lie.seen.error, 0.003)
    assert len(off) > 100 and max(off) < 4.5 and np.mean(np.array(off) < 2.58) > 0.9


@pytest.mark.parametrize("x", random_batches(6, seed=9), ids=range(6))
def test_the_chances_of_all_draws_add_up_to_one(x: BatchSituation) -> None:
    for wrong in profiles(x.calls):
        draws = chances(x, wrong)
        assert draws.weight.sum() == pytest.approx(1) and (draws.weight >= 0).all()
        assert (draws.own + draws.hit <= x.amounts.count).all()
        shared = (draws.own * draws.weight).sum() / x.amounts.count
        awake = x.share + (1 - x.share) * x.diligence
        assert shared == pytest.approx(x.share / awake * (1 - (1 - awake) ** 16))


def test_one_wrong_call_is_seen_with_the_rate_of_the_stake_formula() -> None:
    for rate, n in ((0.05, 4), (0.2, 1), (1.0, 3)):
        x = replace(X, calls=768, rate=rate, verifiers=n)
        assert chances(x, 1).seen == pytest.approx(x.amounts.k / 768 * (1 - x.share))
        assert chances(x, 768).seen == pytest.approx(1 - x.share**n)


RATES, GAINS, CHANNELS = (0.01, 0.05, 0.3, 1.0), (0.0, 1.0, 100.0), (1, 10, 1_000)


def offers(gain: float, check_price: float) -> list[BatchSituation]:
    """Every call costs what it is paid, so that a wrong one gains P; deals name the gain that is beyond."""
    return [
        replace(X, calls=calls, rate=rate, verifiers=n, channels=min(channels, calls), gain=gain, value_at_risk=gain,
                cost=1.0, shortcut=0.0, check_price=check_price)
        for rate, n, channels, calls in product(RATES, (1, 2, 4), CHANNELS, (1, 3, 250, 1_000))
        if calls <= shares.capacity(wei(rate), n)
    ]  # fmt: skip


@pytest.mark.parametrize("check_price", [0.0, 1.0])
@pytest.mark.parametrize("gain", GAINS)
def test_at_a_third_of_the_seats_no_number_of_wrong_calls_pays(gain: float, check_price: float) -> None:
    for x in offers(gain, check_price):
        e = Expectation(x)
        for way, wrong in product(UNBRIBED, profiles(x.calls)):
            assert e.of(way, wrong) < 0, (x, way.name, wrong)


@pytest.mark.parametrize("way", UNBRIBED, ids=lambda way: way.name)
def test_a_lie_pays_from_the_share_of_seats_that_is_said(way: Way) -> None:
    for wrong in profiles(X.calls):
        least = pays_from(X, way, wrong)
        assert least is not None and least > 1 / 3
        below, above = (Expectation(replace(X, share=least + off)).of(way, wrong) for off in (-0.001, 0.001))
        assert below < 0 < above


def test_nothing_pays_a_coalition_whose_calls_are_all_watched_and_everything_one_that_has_all_seats() -> None:
    assert all(pays_from(replace(X, watch=1.0), way, 1_000) is None for way in WAYS)
    assert all(Expectation(replace(X, share=1.0)).of(way, 1_000) > 0 for way in WAYS)


def test_what_remains_is_that_all_calls_of_a_batch_are_worth_a_bribe() -> None:
    """The stake is sized for what a lie gains on average. Who can make drawn strangers keep a promise buys them all for
    half of it each, and has the work of the whole batch saved: until deals put more at risk, or somebody watches."""
    assert Expectation(X).of(BRIBING, 1_000) > 0 > Expectation(X).of(BRIBING, 10)
    assert Expectation(replace(X, watch=0.5)).of(BRIBING, 1_000) < 0
    dear = replace(X, risk_all=200.0)
    assert max(Expectation(dear).of(way, wrong) for way in WAYS for wrong in profiles(1_000)) < 0


def end(way: Way, *, hit: int, own: int, wrong: int = 10, watched: bool = False, x: BatchSituation = X) -> float:
    draws = Draws(np.array([own]), np.array([hit]), np.ones(1))
    (value,) = brings(x, way, wrong, draws, np.array([watched]))
    return float(value)


def test_every_end_pays_as_the_table_of_the_contracts_says() -> None:
    """Against the same batch with right results: P of each call less v of each share, the coalition's own come back."""
    x = replace(X, gain=3.0, channels=4, shortcut=0.0)
    m = x.amounts
    lying, laundering, filling, bribing = WAYS
    amounts, saved, gained = 1_000 - 4 * m.v, 10 * 0.6, 4 * 3.0
    assert end(lying, hit=0, own=1, x=x) == pytest.approx(gained + saved)
    convicted = gained + saved - (amounts + m.v) - m.K - m.s
    assert end(lying, hit=2, own=1, x=x) == pytest.approx(convicted)
    assert end(laundering, hit=2, own=1, x=x) == pytest.approx(convicted + m.W + m.s / 2)
    assert end(filling, hit=2, own=1, x=x) == pytest.approx(gained - m.K + m.W - m.s / 2)
    assert end(filling, hit=0, own=1, x=x) == pytest.approx(gained + 10 - 3 * m.v)
    assert end(bribing, hit=2, own=1, x=x) == pytest.approx(gained + saved - 2 * (m.W + m.s / 2))
    assert end(lying, hit=0, own=1, watched=True, x=x) == pytest.approx(convicted)
    assert end(lying, hit=0, own=4, wrong=1_000, x=x) == pytest.approx(gained + 600)


def test_amounts_are_those_of_the_contracts() -> None:
    x = replace(X, calls=1_000, value_at_risk=2.0, channels=5, check_price=0.5)
    m, p = x.amounts, x.parameters
    a, seen = 0.05 * (1 - 1 / 3), 1 - (1 / 3) ** 4
    assert m.s == pytest.approx(2.5 * (2 / a + 10 / seen + max((1 - a) / a, 1_000 * (1 - seen) / seen)))
    assert (m.k, m.count) == (50, 4) and m.v == pytest.approx(p.g_chk / WAD + 0.5 * 12)
    reward = p.g_def / WAD + 2
    letters = {"W": m.W, "K": m.K, "B": m.B}
    assert letters == pytest.approx({"W": reward, "K": reward + 4 * p.g_chk / WAD, "B": 1.1 * reward})


# ---- Terms ----

DEAR = replace(X, parameters=mainnet(10**9), gain=2.0, value_at_risk=2.0, channels=10)
TIMES, LOCK = Times(exec=300, epoch=300), Lock()


@pytest.mark.parametrize("ways", [UNBRIBED, WAYS], ids=["unbribed", "bribed"])
@pytest.mark.parametrize("security", [1.0, 500.0])
def test_the_best_lie_loses_what_was_wanted_under_every_offer(ways: tuple[Way, ...], security: float) -> None:
    tuned = tune_offer(DEAR, security, ways, times=TIMES, lock=LOCK, rates=(0.02, 0.1, 1.0))
    assert [each.overhead for each in tuned] == sorted(each.overhead for each in tuned) and len(tuned) > 7
    for each in tuned:
        x = each.situation
        way, wrong, value = Expectation(x).best(ways)
        assert (way.name, wrong) == (each.way, each.wrong) and -value == pytest.approx(each.loses)
        assert each.loses >= security * (1 - 1e-5) and x.calls <= shares.capacity(wei(x.rate), x.verifiers)
        if x.all_at_risk > 1.0001 * DEAR.all_at_risk:
            assert each.loses == pytest.approx(security, rel=1e-3), "no more stake than needed"
        lifetime = shares.lifetime(x.parameters, 300, 300)
        assert each.lock == pytest.approx(LOCK.of(x.amounts.s + x.amounts.K, lifetime) / 1_000)


def test_no_offer_locks_more_than_there_is() -> None:
    some = tune_offer(DEAR, 1.0, WAYS, times=TIMES, lock=LOCK, rates=(0.02, 0.1), most_stake=700.0)
    every = tune_offer(DEAR, 1.0, WAYS, times=TIMES, lock=LOCK, rates=(0.02, 0.1))
    assert 0 < len(some) < len(every) and all(each.situation.amounts.s <= 700 for each in some)
    assert not tune_offer(replace(DEAR, share=1.0), 1.0, WAYS, times=TIMES, lock=LOCK, rates=(0.1,))


# ---- The verbs ----


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["economics", "channels", *words])
    return (int(ended.value.code or 0), *capsys.readouterr())


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, out, _ = run(capsys, *words, "--json")
    assert code == 0
    value: dict[str, Any] = json.loads(out)
    return value


def test_simulate_says_what_the_draws_show(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--calls", "300", "--gain", "2", "--channels", "3", "--batches", "50", "--seed", "4")
    report = answer(capsys, "simulate", *words)
    x = replace(X, calls=300, gain=2.0, value_at_risk=2.0, channels=3, share=0.333, check_price=1.0)
    assert report["schema"] == "eigentensor.economics-lies/1" and report["batch"]["stake"] == x.amounts.s
    shown = estimate(x, WAYS, batches=50, seed=4)
    assert [(each["way"], each["wrong"], each["brings"], each["seen"]) for each in report["lies"]] == [
        (lie.way.name, lie.wrong, lie.brings.value, lie.seen.value) for lie in shown
    ]
    for each in report["lies"]:
        word = "pays" if each["low"] > 0 else "does not pay" if each["high"] < 0 else "cannot be told"
        assert each["verdict"] == word
    assert {each["verdict"] for each in report["lies"]} == {"does not pay", "cannot be told"}
    rich = answer(capsys, "simulate", "--share", "1", "--batches", "20")
    assert {each["verdict"] for each in rich["lies"] if each["wrong"] == 1_000} == {"pays"}
    code, out, _ = run(capsys, "simulate", *words)
    assert code == 0 and out.count("filling") == 6 and "tokens per batch, of 50 batches, seed 4" in out


def test_tune_names_offers(capsys: pytest.CaptureFixture[str]) -> None:
    report = answer(capsys, "tune", "--gain", "2", "--channels", "10", "--security", "5")
    assert report["schema"] == "eigentensor.economics-offers/1" and report["security"] == 5
    assert all(each["loses"] >= 4.9999 and each["way"] != "bribing" for each in report["offers"])
    assert report["lifetime"] == shares.lifetime(mainnet(10**9), 300, 300)
    bribed = answer(capsys, "tune", "--gain", "2", "--channels", "10", "--security", "5", "--bribes")
    assert {each["way"] for each in bribed["offers"]} & {"bribing"}
    code, out, _ = run(capsys, "tune", "--gain", "2")
    assert code == 0 and "the cheapest: N 1,000" in out and "stake is locked for 59,244 blocks" in out


@pytest.mark.parametrize(
    ("words", "code", "fix"),
    [
        (["tune", "--share", "1"], 11, "smaller --share"),
        (["tune", "--epoch", "60000"], 11, "shorter --epoch"),
        (["simulate", "--calls", "30000"], 11, "At most --calls 20480"),
        (["simulate", "--check", "0%"], 11, "--check above zero"),
        (["simulate", "--check-price", "2"], 11, "lower --check-price"),
        (["simulate", "--price", "0"], 2, "above zero"),
        (["simulate", "--check", "often"], 2, "20%"),
    ],
)
def test_a_refusal_says_what_to_do(capsys: pytest.CaptureFixture[str], words: list[str], code: int, fix: str) -> None:
    exit_code, out, err = run(capsys, *words)
    assert (exit_code, out) == (code, "")
    assert fix.lower() in err.lower() and "Traceback" not in err
