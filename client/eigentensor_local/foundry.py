"""Foundry's programs: those of a clone, else the PATH's `anvil`, else the one that npm fetches for this user."""

import platform
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import platformdirs

from eigentensor.errors import ConfigError
from eigentensor_client.screen import console

#: The contracts' sources and Foundry's packages, in a clone.
CONTRACTS = Path(__file__).parents[2] / "contracts"
#: The one that contracts/package.json names; older ones are not taken.
VERSION = "1.7.1"
_FETCHED = 600  # seconds that npm has
_NPM_FIX = "Let npm reach its registry, or install Foundry (https://getfoundry.sh), so that `anvil` is on the PATH."
_FIX = "Install Foundry (https://getfoundry.sh), so that `anvil` is on the PATH, or Node, whose npm fetches it."


def in_clone() -> bool:
    """Whether the contracts' sources are there: not where the project was installed from a wheel."""
    return (CONTRACTS / "script" / "Deploy.s.sol").exists()


def forge() -> Path:
    """The compiler and deployer, of a clone: it works on the sources. Raises ConfigError where they are not."""
    path = _packaged("forge", CONTRACTS)
    if not in_clone():
        raise ConfigError("forge works on the contracts' sources, which are not here", fix="Do it in a clone.")
    if not path.exists():
        raise ConfigError(f"forge is not installed in {CONTRACTS}", fix="Run scripts/setup in the project's folder.")
    return path


@cache
def anvil() -> Path:
    """The chain, a native binary: one process to end. npm fetches it where it has to, once, and that is said.

    Raises ConfigError where it cannot be had.
    """
    if (of_clone := _packaged("anvil", CONTRACTS)).exists():
        return of_clone
    if (on_path := shutil.which("anvil")) and _is_native(on_path) and _version(on_path) >= _numbers(VERSION):
        return Path(on_path)
    folder = platformdirs.user_cache_path("eigentensor") / "foundry" / f"{_package('anvil')}-{VERSION}"
    fetched = _packaged("anvil", folder)
    if not fetched.exists():
        _fetch("anvil", folder)
    return fetched


def _fetch(name: str, folder: Path) -> None:
    """Has npm install a tool's package into a folder, which appears when it is whole."""
    package = f"@foundry-rs/{_package(name)}@{VERSION}"
    npm = shutil.which("npm")
    if npm is None:
        raise ConfigError(f"no native {name} of {VERSION} or newer is on the PATH, and no npm, which has one", fix=_FIX)
    console(stderr=True).print(f"no native {name} of {VERSION} or newer is on the PATH: npm puts one in {folder}, once")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as place:
        made = Path(place, "made")
        alone = ["--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        command = [npm, "install", "--prefix", str(made), *alone, package]
        try:
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=_FETCHED)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"npm did not install {package} within {_FETCHED} s", fix=_NPM_FIX) from None
        if done.returncode != 0 or not _packaged(name, made).exists():
            reason = " ".join(line.removeprefix("npm error ") for line in done.stderr.splitlines())
            raise ConfigError(f"npm could not install {package}: {reason[:300]}", fix=_NPM_FIX)
        with suppress(OSError):  # somebody else was faster
            made.rename(folder)


def _packaged(name: str, folder: Path) -> Path:
    """Where npm puts the binary of a tool."""
    return folder / "node_modules" / "@foundry-rs" / _package(name) / "bin" / name


def _package(name: str) -> str:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{name}-{platform.system().lower()}-{machine}"


def _is_native(path: str) -> bool:
    """Whether it is no script: npm's would end without the chain that it has started."""
    with open(path, "rb") as file:
        return file.read(2) != b"#!"


def _version(path: str) -> tuple[int, ...]:
    """That which the program says; of no numbers if it says none."""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace", timeout=10)
        if match := re.search(r"\d+\.\d+\.\d+", done.stdout):
            return _numbers(match[0])
    return ()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
