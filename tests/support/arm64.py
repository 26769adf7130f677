"""Python, clang and what a client needs, for arm64, under qemu: Debian's packages in a folder, and wheels by pip."""

import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
#: Oldest and newest C library of which pip takes wheels.
MANYLINUX = [f"manylinux_2_{minor}_aarch64" for minor in (28, 27, 26, 24, 17)] + ["manylinux2014_aarch64"]
#: What the tests need besides.
TESTING = ("pytest", "pytest-timeout", "hypothesis")
#: apt for another machine, on which nothing is installed.
APT = """APT::Architecture "arm64"; APT::Architectures {{ "arm64"; }}; APT::Sandbox::User "root"; Debug::NoLocking "1";
Dir::State "{folder}/state"; Dir::State::status "{folder}/status"; Dir::Cache "{folder}/cache";
"""
PYTHON = """#!/bin/sh
PYTHONHOME={root}/usr exec qemu-aarch64 -0 "$0" -L {root} {python} "$@"
"""
#: It starts itself by the name that it was called by, and looks for its own headers and for `ld` beside that.
CLANG = """#!/bin/sh
[ "$1" = -cc1 ] || set -- -no-canonical-prefixes -resource-dir {headers} -B{bin} "$@"
exec qemu-aarch64 -0 {bin}/clang -L {root} {clang} "$@"
"""
LD = """#!/bin/sh
exec qemu-aarch64 -L {root} {root}/usr/bin/aarch64-linux-gnu-ld "$@"
"""


def install(folder: Path) -> Path:
    """Puts all of it into an empty folder; returns the one with the commands `python`, `clang` and `ld`.

    Raises subprocess.CalledProcessError, with what was said, where packages cannot be fetched.
    """
    root, commands = folder / "root", folder / "bin"
    for file in _debian(folder, "python3", "clang"):
        _run("dpkg-deb", "-x", str(file), str(root))
    (python,) = (root / "usr/bin").glob("python3.[0-9]*[0-9]")
    (clang,) = (root / "usr/lib").glob("llvm-*/bin/clang")
    (headers,) = clang.parents[1].glob("lib/clang/*.*.*")
    commands.mkdir()
    for name, text in (("python", PYTHON), ("clang", CLANG), ("ld", LD)):
        script = commands / name
        script.write_text(text.format(root=root, bin=commands, python=python, clang=clang, headers=headers))
        script.chmod(0o755)
    _wheels(folder / "site", python.name.removeprefix("python"))
    return commands


def environment(commands: Path, home: Path) -> dict[str, str]:
    """For what is called there: this project and what it needs, and nothing of this machine's."""
    parts = ("sdk", "client", "operator", "aggregator", "tests", "client/examples")
    paths = [commands.with_name("site"), *(ROOT / part for part in parts)]
    return os.environ | {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "XDG_CACHE_HOME": str(home), "DEV": "CPU", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip


def _debian(folder: Path, *names: str) -> list[Path]:
    """Packages, and all that they depend on."""
    for place in ("state/lists/partial", "cache/archives/partial"):
        (folder / place).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "apt.conf").write_text(APT.format(folder=folder))
    settings = {"APT_CONFIG": str(folder / "apt.conf")}
    _run("apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any", more=settings)
    _run("apt-get", "install", "-q", "-y", "--download-only", "--no-install-recommends", *names, more=settings)
    return sorted((folder / "cache/archives").glob("*.deb"))


def _wheels(folder: Path, python: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [*(Requirement(line).name for line in project["dependencies"]), *TESTING]
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:"]
    command += ["--python-version", python, "--target", str(folder), *(f"--platform={of}" for of in MANYLINUX)]
    _run(*command, *(f"{name}=={version(name)}" for name in names))


def _run(*command: str, more: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=os.environ | (more or {}), capture_output=True, text=True, check=False)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
