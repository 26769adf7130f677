"""Settings of the aggregator and of a watcher: flags, environment, defaults; what is wrong is said in words."""

import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eigentensor.errors import ConfigError
from eigentensor_aggregator import cli
from eigentensor_aggregator.config import Settings, WatchSettings
from eigentensor_aggregator.database import connect
from eigentensor_aggregator.watch import cli as watch_cli


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("EIGENTENSOR_NETWORK", raising=False)
    return monkeypatch


def test_an_aggregator_watches_nothing_unless_it_is_told_to(environment: pytest.MonkeyPatch) -> None:
    assert Settings().watch.share == 0
    environment.setenv("EIGENTENSOR_AGGREGATOR_WATCH_SHARE", "0.5")
    environment.setenv("EIGENTENSOR_AGGREGATOR_WATCH_MAX_OPERATIONS", "7")
    environment.setenv("EIGENTENSOR_AGGREGATOR_MAX_BLOB", "9")
    settings = Settings()
    assert (settings.watch.share, settings.watch.max_operations, settings.max_blob) == (0.5, 7, 9)
    flags = Settings.model_validate({"watch": {"share": 0.25}})
    assert (flags.watch.share, flags.watch.max_operations) == (0.25, 7)


def test_a_watcher_of_its_own_looks_at_everything(environment: pytest.MonkeyPatch) -> None:
    assert WatchSettings().share == 1 and WatchSettings().keystore is None
    environment.setenv("EIGENTENSOR_WATCH_BONDS", "0.25")
    assert WatchSettings().bonds == "0.25"


def test_both_look_at_the_chain_by_the_pace_of_its_blocks_unless_they_are_told_to(
    environment: pytest.MonkeyPatch,
) -> None:
    assert (Settings().between_looks, WatchSettings().between_looks) == (1.5, 1.5)
    environment.setenv("EIGENTENSOR_AGGREGATOR_WATCH_BLOCK_SECONDS", "2")
    environment.setenv("EIGENTENSOR_WATCH_POLL", "0.05")
    assert (Settings().between_looks, WatchSettings().between_looks) == (0.5, 0.05)


@pytest.mark.parametrize("flags", [["--share", "2"], ["--bonds", "much"], ["--max-memory", "0"]])
def test_wrong_settings_are_refused_in_words(flags: list[str]) -> None:
    ran = CliRunner().invoke(watch_cli.app, flags)
    name = flags[0].removeprefix("--").replace("-", "_")
    assert isinstance(ran.exception, ConfigError) and name in str(ran.exception)
    assert ran.exception.fix == f"Correct the flag, or EIGENTENSOR_WATCH_{name.upper()}."


def test_both_say_what_is_missing_where_there_is_no_network() -> None:
    for app, arguments in ((watch_cli.app, []), (cli.app, ["run", "--watch-share", "0.5", "--port", "0"])):
        ran = CliRunner().invoke(app, arguments)
        assert isinstance(ran.exception, ConfigError) and "there is no network 'local'" in str(ran.exception)


@pytest.mark.parametrize("url", ["postgresql://u:secret@127.0.0.1:9/x", "postgresql+psycopg2://u:secret@h/x"])
def test_a_database_without_its_driver_or_its_server_is_said_without_its_password(url: str) -> None:
    """Neither is there: nobody listens on port 9, and psycopg 2 is no driver that an extra brings."""
    with pytest.raises(ConfigError, match=r"does not answer|no database is") as error:
        connect(url)
    assert "secret" not in str(error.value)


def test_without_the_extra_postgresql_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match="eigentensor\\[postgres\\]"):
        connect("postgresql://127.0.0.1/x")
    with pytest.raises(ConfigError, match="no database is"):
        connect("not a url")


def test_the_extra_brings_the_driver() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert any(named.startswith("psycopg[binary]") for named in project["optional-dependencies"]["postgres"])
