"""What `operator bench` says of a machine, and what is kept of it."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from eigentensor.chain import Deployment, to_wei
from eigentensor.economics import WAD
from eigentensor.economics.profiles import LOCAL
from eigentensor.program import validity
from eigentensor.program.cost import Needs, needs_of
from eigentensor_operator.bench import PROGRAMS, Measured, Timing, rate_of
from eigentensor_operator.config import Settings, write_file
from eigentensor_operator.pricing import Conditions, price_policy
from eigentensor_operator.quoting import Prices, ordinary, prices, speed

ROOT = Path(__file__).parents[2]
GWEI = 10**9
ADDRESS = "0x" + "11" * 20
FAST, SLOW = Timing("fast", Needs(3 * 10**9, 8), 3.5), Timing("slow", Needs(10**9, 8), 5.5)
SMALL = Timing("small", Needs(10**6, 8), 0.5)


@pytest.fixture
def measured() -> Measured:
    return Measured("CPU", 0.5, (FAST, SLOW), 2e8, None)


def test_the_slowest_kind_of_program_is_what_a_machine_is_reckoned_with(measured: Measured) -> None:
    assert [rate_of(t, 0.5) for t in (FAST, SLOW)] == [10**9, 2 * 10**8]
    assert measured.operations_per_second == 2 * 10**8


def test_what_takes_no_longer_than_the_startup_has_a_rate_all_the_same() -> None:
    assert rate_of(SMALL, 0.5) == rate_of(SMALL, 0.7) == 10**6 / 0.05


def test_the_settings_do_not_promise_more_than_was_measured(measured: Measured, tmp_path: Path) -> None:
    odd = Measured("CPU", 0.5012, (Timing("odd", Needs(123_456_789, 8), 1.5012),), 1.0, 1.0)
    kept = speed(odd)
    assert kept == {"operations_per_second": "123000000", "startup_seconds": "0.51"}
    write_file(tmp_path, kept)
    settings = Settings.load(data_dir=tmp_path)
    assert (settings.operations_per_second, settings.startup_seconds) == (123e6, 0.51)


def test_every_program_that_is_measured_is_a_valid_one() -> None:
    for make in PROGRAMS.values():
        program = make().program
        validity.check(program)
        assert needs_of(program, 1).operations > 0


@pytest.fixture
def made(measured: Measured, tmp_path: Path) -> Prices:
    local = json.loads((ROOT / "contracts/networks/local.json").read_text())
    named = ("taskMarket", "serviceManager", "disputeGame", "referee", "bounty", "burn")
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
    assert (fast.quote.costs.computing, slow.quote.costs.computing) == (to_wei("0.0035"), to_wei("0.0055"))
    assert fast.quote.costs.gas == 286_391 * 2 * GWEI
    assert fast.quote.price == -(-fast.quote.costs.total * 3 // 2)
    order = ordinary(LOCAL, 4, fast.quote.price)
    assert price_policy(made.pricing, LOCAL, order, Conditions(3.5, 2 * GWEI, 12.0)) == fast.quote
    assert (order.check_rate, order.check_fee) == (WAD // 5, fast.quote.price + LOCAL.g_chk)


def test_people_read_a_table_and_programs_an_object(made: Prices) -> None:
    lines = list(made.lines())
    assert lines[0] == "device    CPU, 2e+08 evaluations per second by its slowest program here"
    assert "the gateway took none" in lines[2] and lines[3] == "gas       2 gwei"
    head, fast, slow = (line.split() for line in lines[5:8])
    assert head[:3] == ["program", "evaluations", "seconds"]
    assert fast[:6] == ["fast", "3,000,000,000", "3.5", "1", "G", "0.0035"] and slow[0] == "slow"
    said = json.loads(json.dumps(made.to_json()))
    assert said["gas_price"] == str(2 * GWEI) and said["gateway_bytes_per_second"] is None
    assert [row["price"] for row in said["programs"]] == [str(row.quote.price) for row in made.rows if row.quote]
    assert said["pricing"] == {name: str(value) for name, value in asdict(made.pricing).items()}
