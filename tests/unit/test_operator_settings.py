"""Settings, the onboarding plan, and what errors and events mean to the machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from eigentensor import errors
from eigentensor.chain import Accepted, Closed, Deposited, Failed, Place, Posted, Revealed, State
from eigentensor.errors import ConfigError, EigenTensorError, InsufficientFunds
from eigentensor_operator.case import Fact
from eigentensor_operator.config import Settings
from eigentensor_operator.daemon import seen_of
from eigentensor_operator.machine import Seen
from eigentensor_operator.onboarding import Facts, Goal, Part, check_funds, plan
from eigentensor_operator.policy import Code
from eigentensor_operator.steps import reason_of
from operator_stories import ME, OTHER, TASK, an_order

WAD = 10**18
GOAL = Goal(ME, OTHER, stake=WAD, collateral=2 * WAD, cap=WAD)
NOTHING = Facts(False, 0, False, "0x" + "00" * 20, 0, 0, tokens=3 * WAD, owner_gas=1, signer_gas=1)
EVERYTHING = Facts(True, WAD, True, OTHER, WAD, 2 * WAD, tokens=0, owner_gas=1, signer_gas=1)


def test_flags_win_over_the_environment_and_that_over_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGENTENSOR_OPERATOR_CAPACITY", "7")
    monkeypatch.setenv("EIGENTENSOR_OPERATOR_PORT", "1")
    settings = Settings.load(port=2, device=None, address="0x" + "ab" * 20)
    assert (settings.capacity, settings.port, settings.device, settings.min_price) == (7, 2, "CPU", "0")
    assert settings.address == "0xABaBaBaBABabABabAbAbABAbABabababaBaBABaB"


@pytest.mark.parametrize(
    ("name", "value"),
    [("min_price", "cheap"), ("port", 70_000), ("capacity", 0), ("address", "0x12"), ("log_format", "xml")],
)
def test_a_wrong_setting_is_named_with_its_flag(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        Settings.load(**{name: value})
    assert f"EIGENTENSOR_OPERATOR_{name.upper()}" in caught.value.fix


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match="colour"):
        Settings.load(colour="blue")


def test_a_new_operator_has_everything_to_do() -> None:
    items = plan(NOTHING, GOAL, "WETH")
    assert [i.part for i in items if not i.done] == [
        Part.REGISTER, Part.STAKE, Part.JOIN, Part.SIGNER, Part.COLLATERAL,
    ]  # fmt: skip
    assert sum(i.missing for i in items) == 3 * WAD
    check_funds(NOTHING, items, "WETH")


def test_a_joined_operator_has_nothing_to_do() -> None:
    assert all(i.done for i in plan(EVERYTHING, GOAL, "WETH"))


def test_more_collateral_is_a_deposit_of_the_difference() -> None:
    items = plan(EVERYTHING, replace(GOAL, collateral=5 * WAD), "WETH")
    assert [(i.part, i.missing) for i in items if not i.done] == [(Part.COLLATERAL, 3 * WAD)]


def test_another_cap_or_signer_is_set_again() -> None:
    for facts in (replace(EVERYTHING, cap=5), replace(EVERYTHING, signer=ME)):
        assert [i.part for i in plan(facts, GOAL, "WETH") if not i.done] == [Part.SIGNER]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (replace(NOTHING, tokens=WAD), "3 are needed"),
        (replace(NOTHING, owner_gas=0), "no gas of the owner"),
        (replace(NOTHING, signer_gas=0), "no gas of the signer"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_spent(facts: Facts, said: str) -> None:
    with pytest.raises(InsufficientFunds, match=said):
        check_funds(facts, plan(facts, GOAL, "WETH"), "WETH")


@pytest.mark.parametrize(
    ("error", "code", "lasting"),
    [
        (errors.BlobNotFound("no blob"), Code.DATA, False),
        (errors.GatewayError("away"), Code.DATA, False),
        (errors.BlobCorrupt("a piece"), Code.DATA, False),
        (errors.StoreFull("disk"), Code.DATA, False),
        (errors.BlobTooLarge("huge"), Code.MEMORY, True),
        (errors.TensorFileError("pickle"), Code.DATA, True),
        (errors.FormatError("header", "", "magic"), Code.PROGRAM, True),
        (errors.BindingError("shape"), Code.BINDINGS, True),
        (errors.LimitError("time"), Code.EXECUTION, True),
        (errors.WrongBits("call 0"), Code.DEVICE, True),
        (errors.Reverted("TooLate"), Code.CHAIN, False),
        (errors.Unreachable("node"), Code.CHAIN, False),
        (errors.ConfigError("else"), Code.EXECUTION, True),
    ],
)
def test_every_error_has_a_reason_that_can_be_published(error: EigenTensorError, code: Code, lasting: bool) -> None:
    reason = reason_of(error)
    assert (reason.code, reason.lasting) == (code, lasting)
    assert reason.offered.isprintable() and str(error).split()[0] in reason.offered


def test_events_of_the_market_become_facts() -> None:
    place = Place(7, 0, b"\1" * 32, b"\2" * 32)
    order = an_order()
    assert seen_of(Posted(place, TASK, order.client, order)) == Seen(TASK, Fact(State.OPEN, 7), order)
    assert seen_of(Accepted(place, TASK, ME, 1, 2)) == Seen(TASK, Fact(State.ACCEPTED, 7, ME))
    assert seen_of(Revealed(place, TASK, 0, b"\3" * 32)) == Seen(TASK, Fact(State.REVEALED, 7, claim=b"\3" * 32))
    assert seen_of(Closed(place, TASK, 1, 0)) == Seen(TASK, Fact(State.FINAL, 7))
    assert seen_of(Failed(place, TASK, 1, 0)) == Seen(TASK, Fact(State.FAILED, 7))
    assert seen_of(Deposited(place, ME, ME, 1)) is None


def test_an_operators_files_lie_in_its_folder(tmp_path: Path) -> None:
    settings = Settings.load(data_dir=tmp_path)
    assert settings.journal.parent == settings.drain_file.parent == tmp_path
