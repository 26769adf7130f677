"""Settings, and what errors and events mean to the machine."""

from pathlib import Path

import pytest

from eigentensor import errors
from eigentensor.errors import ConfigError, EigenTensorError
from eigentensor_operator.config import Settings
from eigentensor_operator.policy import Code
from eigentensor_operator.steps import reason_of


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


def test_the_chain_is_looked_at_by_the_pace_of_its_blocks_unless_it_is_told_to() -> None:
    looks = [Settings.load(**flags).poll for flags in ({}, {"block_seconds": 1}, {"poll_seconds": 0.1})]
    assert looks == [1.5, 0.5, 0.1]


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


def test_an_operators_files_lie_in_its_folder(tmp_path: Path) -> None:
    settings = Settings.load(data_dir=tmp_path)
    assert settings.journal.parent == settings.drain_file.parent == tmp_path
