"""What `operator bench` says of a machine, and what is kept of it."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from eigentensor.chain import Deployment, to_wei
from eigentensor.economics import WAD
from eigentensor.economics.pricing import Conditions, price_policy
from eigentensor.economics.situation import LOCAL
from eigentensor.economics.terms import GAS_ACCEPT, GAS_COMMIT
from eigentensor.program import validity
from eigentensor.program.cost import Needs, costs, needs_of, work
from eigentensor_operator.bench import PROGRAMS, Measured, Timing
from eigentensor_operator.config import Settings, write_file
from eigentensor_operator.quoting import Prices, ordinary, prices, speed

ROOT = Path(__file__).parents[2]
GWEI = 10**9
ADDRESS = "0x" + "11" * 20
FAST = Timing("fast", Needs(10**9, 8 * 10**6), 1.5, 16, 4.5)
SLOW = Timing("slow", Needs(2 * 10**8, 10**9), 2.6, 4, 3.2)


@pytest.fixture
def measured() -> Measured:
    return Measured("CPU", 0.5, (FAST, SLOW), 2e8, None)


def test_a_machine_is_as_fast_as_its_iterations_and_the_slowest_kind_of_program(measured: Measured) -> None:
    assert FAST.rate == 5 * 10**9
    assert SLOW.rate == pytest.approx(10**9)
    assert measured.operations_per_second == SLOW.rate


def test_what_neither_startup_nor_computing_explains_is_moving_the_buffers(measured: Measured) -> None:
    assert measured.bytes_per_second == pytest.approx(10**9 / (2.6 - 0.5 - 0.2))
    assert measured.seconds_of(SLOW.needs) == pytest.approx(SLOW.seconds)
    assert measured.seconds_of(FAST.needs) == pytest.approx(0.5 + 1 + 0.0152)


def test_a_disturbed_measurement_gives_rates_all_the_same() -> None:
    odd = Timing("odd", Needs(10**6, 10**6), 2.0, 64, 1.0)
    measured = Measured("CPU", 3.0, (odd,), 1.0, 1.0)
    assert odd.rate == pytest.approx(63 * 10**6 / 0.05)
    assert measured.bytes_per_second == pytest.approx(10**6 / 0.1)


def test_the_settings_do_not_promise_more_than_was_measured(measured: Measured, tmp_path: Path) -> None:
    odd = Timing("odd", Needs(123_456_789, 987_654_321), 2.5012, 4, 5.5012)
    kept = speed(Measured("CPU", 0.5012, (odd,), 1.0, 1.0))
    assert kept == {"operations_per_second": "123000000", "bytes_per_second": "987000000", "startup_seconds": "0.51"}
    write_file(tmp_path, kept)
    settings = Settings.load(data_dir=tmp_path)
    assert (settings.operations_per_second, settings.bytes_per_second, settings.startup_seconds) == (123e6, 987e6, 0.51)


def test_every_program_that_is_measured_is_a_valid_one() -> None:
    for make in PROGRAMS.values():
        program = make().program
        validity.check(program)
        assert needs_of(program, 1).operations > 0


def test_what_is_slow_is_worth_more_and_is_measured() -> None:
    """Else a stranger's remainders, or reads of elements that other elements name, are accepted and come too late."""
    worth = {}
    for name, make in PROGRAMS.items():
        program = make().program
        assert needs_of(program, 3).operations == 3 * work(program)
        worth[name] = work(program) / costs(program).evaluations
    assert worth["product"] == 1 and worth["divisions"] > 2 and worth["gathers"] > 8


@pytest.fixture
def made(measured: Measured, tmp_path: Path) -> Prices:
    local = json.loads((ROOT / "contracts/networks/local.json").read_text())
    named = ("taskMarket", "serviceManager", "disputeGame", "channels", "channelsGame", "referee", "bounty", "burn")
    core = ("allocationManager", "delegationManager", "strategyManager", "strategyFactory", "strategy")
    deployment = {
        "chainId": 1, "block": 0, **dict.fromkeys(named, ADDRESS), "core": dict.fromkeys(core, ADDRESS),
        "token": {"address": ADDRESS, "symbol": "TETH", "decimals": 18}, "parameters": local["parameters"],
    }  # fmt: skip
    settings = Settings.load(data_dir=tmp_path, price_per_hour="3.6", margin="0.5")
    return prices(measured, Deployment.from_json(deployment), settings, 2 * GWEI)


def test_each_program_is_priced_by_what_it_took(made: Prices) -> None:
    fast, slow = made.rows
    assert (fast.exec, slow.exec) == (4, 4)
    assert fast.quote is not None and slow.quote is not None
    assert slow.quote.costs.computing == pytest.approx(to_wei("0.0026"), rel=1e-6)
    assert fast.quote.costs.gas == (GAS_ACCEPT + GAS_COMMIT) * 2 * GWEI
    assert fast.quote.price == -(-fast.quote.costs.total * 3 // 2)
    order, seconds = ordinary(LOCAL, 4, fast.quote.price), made.measured.seconds_of(FAST.needs)
    assert price_policy(made.pricing, LOCAL, order, Conditions(seconds, 2 * GWEI, 12.0)) == fast.quote
    assert (order.check_rate, order.check_fee) == (WAD // 5, fast.quote.price + LOCAL.g_chk)


def test_people_read_a_table_and_programs_an_object(made: Prices) -> None:
    lines = list(made.lines())
    assert lines[0] == "device    CPU, 1 G evaluations per second by its slowest program"
    assert "the gateway took none" in lines[3] and lines[4] == "gas       2 gwei"
    head, fast, slow = (line.split() for line in lines[6:9])
    assert head[:3] == ["program", "evaluations", "seconds"]
    assert fast[:6] == ["fast", "1,000,000,000", "1.5", "5", "G", "0.00152"] and slow[0] == "slow"
    report = json.loads(json.dumps(made.to_json({"startup_seconds": "0.5"}, written=True)))
    assert report["gas_price"] == str(2 * GWEI) and report["gateway_bytes_per_second"] is None
    assert [row["price"] for row in report["programs"]] == [str(row.quote.price) for row in made.rows if row.quote]
    assert report["pricing"] == {name: str(value) for name, value in asdict(made.pricing).items()}
