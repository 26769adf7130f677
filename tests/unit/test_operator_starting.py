"""What `operator up` says to type next is whole: keys, password, network, folder, pace."""

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from eigentensor.chain import save_account
from eigentensor.chain.keys import keystore_folder
from eigentensor.errors import ConfigError
from eigentensor.task.signatures import Key
from eigentensor_operator.config import Settings
from eigentensor_operator.onboarding import Plan, prices
from eigentensor_operator.starting import bench_command, run_command, signer_of

OWNER, SIGNER = Key(b"\x5a" * 32), Key(b"\x5b" * 32)
PLAN = Plan(OWNER.address, SIGNER.address, 240, 12.0, datetime(2026, 11, 22, tzinfo=UTC), (), 20)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own, with a password file and two keystores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("KEYSTORE", "PASSWORD_FILE", "NETWORK"):
        monkeypatch.delenv(f"EIGENTENSOR_{name}", raising=False)
    Path("password").write_text("same")
    save_account(OWNER, Path("owner.json"), "same", iterations=1)


def settings(**changes: object) -> Settings:
    return Settings(keystore=Path("owner.json"), password_file=Path("password")).model_copy(update=changes)


@pytest.mark.parametrize("named", [True, False])
def test_a_signer_is_named_by_its_keystore_or_its_address_and_its_keystore_comes_back(named: bool) -> None:
    path = keystore_folder() / "hot.json"
    save_account(SIGNER, path, "same", iterations=1)
    assert signer_of("hot" if named else SIGNER.address.lower()) == (SIGNER.address, str(path))
    assert run_command(settings(), PLAN, str(path)) == (
        f"eigentensor operator run --network local --address {OWNER.address} --keystore {path} --password-file password"
    )


def test_what_is_not_known_here_stands_in_capitals() -> None:
    save_account(SIGNER, Path("hot.json"), "another", iterations=1)
    assert signer_of(SIGNER.address) == (SIGNER.address, None)
    assert run_command(settings(), PLAN, None).endswith(
        "--keystore KEYSTORE_OF_THE_SIGNER --password-file PASSWORD_FILE_OF_THE_SIGNER"
    )
    command = run_command(settings(), PLAN, "hot.json")
    assert command.endswith("--keystore hot.json --password-file PASSWORD_FILE_OF_THE_SIGNER")


def test_an_owner_that_signs_itself_needs_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = replace(PLAN, signer=OWNER.address)
    whole = "eigentensor operator run --network local --keystore owner.json --password-file password"
    assert run_command(settings(), alone, None) == whole
    monkeypatch.setenv("EIGENTENSOR_KEYSTORE", "owner.json")
    monkeypatch.setenv("EIGENTENSOR_PASSWORD_FILE", "password")
    assert run_command(settings(keystore=None, password_file=None), alone, None) == whole


def test_network_folder_and_pace_are_named_where_they_are_not_the_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGENTENSOR_NETWORK", "sepolia")
    chosen = settings(data_dir=Path("my data"))
    command = shlex.split(run_command(chosen, replace(PLAN, block_seconds=1.0), None))
    assert command[3:7] == ["--network", "sepolia", "--data-dir", "my data"] and command[-2:] == [
        "--block-seconds",
        "1",
    ]
    assert bench_command(chosen) == "eigentensor operator bench --write --network sepolia --data-dir 'my data'"
    assert "holesky.json" in run_command(settings(network="holesky.json"), PLAN, None)


@pytest.mark.parametrize("text", ["nowhere.json", "0x12", "password"])
def test_a_signer_that_is_nobody_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--signer: "):
        signer_of(text)


def test_the_prices_of_a_plan_are_those_with_which_the_daemon_starts(tmp_path: Path) -> None:
    wanted = {"min_price": None, "price_per_hour": None}
    assert prices(tmp_path, wanted, write=True).what == "ask for min_price 0, price_per_hour 0.001"
    assert prices(tmp_path, wanted | {"min_price": "2"}, write=True).what == "ask for min_price 2"
    assert prices(tmp_path, wanted, write=True).what == "ask for min_price 2, price_per_hour 0.001"
