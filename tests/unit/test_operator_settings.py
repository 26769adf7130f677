"""Settings, and what errors and events mean to the machine."""

from pathlib import Path

import pytest

from eigentensor import errors
from eigentensor.dispute import Phase
from eigentensor.dispute import Reason as EndReason
from eigentensor.errors import ConfigError, EigenTensorError
from eigentensor.task import (
    Accepted,
    Answered,
    Cause,
    Closed,
    Convicted,
    Deposited,
    Ended,
    Failed,
    Opened,
    Place,
    Posted,
    Revealed,
    Seeded,
    State,
    Unlocked,
)
from eigentensor_operator.case import Fact
from eigentensor_operator.config import Settings
from eigentensor_operator.events import Noted, Seen
from eigentensor_operator.policy import Code
from eigentensor_operator.reading import seen_of
from eigentensor_operator.steps import reason_of
from support.stories.operator import ME, TASK, a_position, an_order


def test_flags_win_over_the_environment_and_that_over_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGENTENSOR_OPERATOR_CAPACITY", "7")
    monkeypatch.setenv("EIGENTENSOR_OPERATOR_PORT", "1")
    settings = Settings.load(port=2, host=None, address="0x" + "ab" * 20)
    assert (settings.capacity, settings.port, settings.host, settings.min_price) == (7, 2, "127.0.0.1", "0")
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


@pytest.mark.parametrize(
    ("error", "code", "lasting"),
    [
        (errors.BlobNotFound("no blob"), Code.DATA, False),
        (errors.GatewayError("away"), Code.DATA, False),
        (errors.BlobCorrupt("a piece"), Code.DATA, False),
        (errors.StoreFull("disk"), Code.DATA, False),
        (errors.BlobTooLarge("huge"), Code.MEMORY, False),
        (errors.TensorFileError("pickle"), Code.DATA, True),
        (errors.FormatError("header", "", "magic"), Code.PROGRAM, True),
        (errors.BindingError("shape"), Code.BINDINGS, True),
        (errors.LimitError("time"), Code.EXECUTION, True),
        (errors.WrongBits("call 0"), Code.DEVICE, True),
        (errors.NotDisputable("too many calls"), Code.DISPUTE, True),
        (errors.Reverted("TooLate"), Code.CHAIN, False),
        (errors.Unreachable("node"), Code.CHAIN, False),
        (errors.ConfigError("else"), Code.EXECUTION, True),
    ],
)
def test_every_error_has_a_reason_that_can_be_published(error: EigenTensorError, code: Code, lasting: bool) -> None:
    reason = reason_of(error)
    assert (reason.code, reason.lasting) == (code, lasting)
    assert reason.offered.isprintable() and str(error).split()[0] in reason.offered


def test_events_of_the_contracts_become_facts_and_incidents() -> None:
    place, order = Place(7, 0, b"\1" * 32, b"\2" * 32), an_order()
    root = b"\3" * 32
    assert seen_of(Posted(place, TASK, order.client, order)) == Seen(TASK, Fact(State.OPEN, 7), order)
    assert seen_of(Accepted(place, TASK, ME, 1, 2)) == Seen(TASK, Fact(State.ACCEPTED, 7, ME, price=1))
    assert seen_of(Revealed(place, TASK, 0, root)) == Seen(TASK, Fact(State.REVEALED, 7, claim=root))
    assert seen_of(Closed(place, TASK, 1, 0)) == Seen(TASK, Fact(State.FINAL, 7))
    assert seen_of(Failed(place, TASK, 1, 0)) == Seen(TASK, Fact(State.FAILED, 7))
    assert seen_of(Convicted(place, TASK, Cause.VERDICT, ME, 1)) == Seen(TASK, Fact(State.CONVICTED, 7))
    for event in (
        Seeded(place, 5, root),
        Revealed(place, TASK, 1, root),
        Answered(place, TASK, 0, ME, root),
        Opened(place, TASK, 1, ME, a_position(Phase.PUBLISH, 7)),
        Ended(place, TASK, 1, False, EndReason.CLOCK),
    ):
        assert seen_of(event) == Noted(event)
    assert seen_of(Deposited(place, ME, ME, 1)) is None
    assert seen_of(Unlocked(place, TASK)) is None


def test_an_operators_files_lie_in_its_folder(tmp_path: Path) -> None:
    settings = Settings.load(data_dir=tmp_path)
    assert settings.journal.parent == settings.drain_file.parent == tmp_path
