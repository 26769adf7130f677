"""Foundry's programs are a clone's, the PATH's, or npm's; what npm does here a script of the test does."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from eigentensor.errors import ConfigError
from eigentensor_local import foundry

OF_CLONE = foundry.anvil()
NPM = """#!/bin/sh
echo "$@" >>"$0.calls"
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/@foundry-rs/{package}/bin"
touch "$2/node_modules/@foundry-rs/{package}/bin/anvil"
"""


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is all of the PATH, outside of a clone, for a user who has nothing yet."""
    (folder := tmp_path / "bin").mkdir()
    for name in ("sh", "mkdir", "touch"):
        (folder / name).symlink_to(next(p for p in (Path("/usr/bin", name), Path("/bin", name)) if p.exists()))
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(foundry, "CONTRACTS", tmp_path / "nowhere")
    foundry.anvil.cache_clear()
    yield folder
    foundry.anvil.cache_clear()


def script(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def package() -> str:
    return OF_CLONE.parents[1].name


def kept() -> Path:
    return platformdirs.user_cache_path("eigentensor") / "foundry"


def test_the_version_is_the_one_that_the_contracts_are_tested_with() -> None:
    written = json.loads((Path(__file__).parents[2] / "contracts" / "package.json").read_text())["optionalDependencies"]
    assert {version for name, version in written.items() if name.startswith("@foundry-rs/")} == {foundry.VERSION}


@pytest.mark.parametrize(("processor", "named"), [("x64", "amd64"), ("arm64", "arm64")])
@pytest.mark.parametrize("tool", ["anvil", "cast", "forge"])
def test_a_clone_is_given_it_on_x86_and_arm(tool: str, processor: str, named: str) -> None:
    packages = json.loads((Path(__file__).parents[2] / "contracts" / "package-lock.json").read_text())["packages"]
    locked = packages[f"node_modules/@foundry-rs/{tool}-linux-{named}"]
    assert (locked["version"], locked["os"], locked["cpu"]) == (foundry.VERSION, ["linux"], [processor])
    assert locked["integrity"].startswith("sha512-")


def test_a_clone_has_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foundry, "CONTRACTS", OF_CLONE.parents[4])
    (path / "anvil").symlink_to(OF_CLONE)
    assert foundry.anvil() == OF_CLONE


def test_the_one_on_the_path_is_taken(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path / "anvil").symlink_to(OF_CLONE)
    assert foundry.anvil() == path / "anvil"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("case", ["nothing", "older", "a script", "nonsense"])
def test_npm_brings_what_the_path_does_not_have_once(
    case: str, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if case == "older":
        (path / "anvil").symlink_to(OF_CLONE)
        monkeypatch.setattr(foundry, "VERSION", "1.8.0")
    elif case != "nothing":
        script(path / "anvil", "#!/bin/sh\necho anvil Version: 9.0.0\n" if case == "a script" else "anvil 9.0.0\n")
    script(path / "npm", NPM.replace("{package}", package()))
    fetched = foundry.anvil()
    assert fetched.exists() and fetched.is_relative_to(kept())
    assert f"npm puts one in {kept()}" in (line := capsys.readouterr().err) and line.count("\n") == 1
    foundry.anvil.cache_clear()
    assert foundry.anvil() == fetched
    (call,) = (path / "npm.calls").read_text().splitlines()
    assert call.endswith(f" @foundry-rs/{package()}@{foundry.VERSION}") and "--ignore-scripts" in call
    assert os.listdir(kept()) == [f"{package()}-{foundry.VERSION}"]


def test_without_npm_one_line_says_how_to_get_it() -> None:
    with pytest.raises(ConfigError, match=r"no native anvil of 1\.7\.1 or newer is on the PATH, and no npm") as raised:
        foundry.anvil()
    assert "https://getfoundry.sh" in raised.value.fix and "Node" in raised.value.fix


def test_where_npm_fails_its_reason_is_shown_and_nothing_is_left(path: Path) -> None:
    script(path / "npm", "#!/bin/sh\necho 'npm error network' >&2\necho 'npm error is away' >&2\nexit 1\n")
    with pytest.raises(ConfigError, match=r"could not install @foundry-rs/.*: network is away") as raised:
        foundry.anvil()
    assert raised.value.fix.startswith("Let npm reach its registry")
    assert os.listdir(kept()) == []


def test_forge_is_of_a_clone_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sources, which are not here"):
        foundry.forge()
    (tmp_path / "nowhere" / "script").mkdir(parents=True)
    (tmp_path / "nowhere" / "script" / "Deploy.s.sol").touch()
    with pytest.raises(ConfigError, match="forge is not installed") as raised:
        foundry.forge()
    assert "scripts/setup" in raised.value.fix
