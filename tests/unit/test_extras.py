"""Extras: each package imports what its role's install has, and a verb whose extra is missing says which one it is."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from eigentensor.extras import MODULES
from eigentensor_client.cli import main

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
ROLES = {
    "eigentensor_aggregator": "aggregator",
    "eigentensor_cluster": "cluster",
    "eigentensor_models": "models",
    "eigentensor_operator": "operator",
    "eigentensor_serve": "client",
}
#: Modules that one option alone needs, with the extra that brings what they import.
OWN = {
    "eigentensor_cluster/launcher.py": "ray",
    "eigentensor_economics/plots.py": "plots",
    "eigentensor/kms.py": "kms",
    "eigentensor/traces.py": "traces",
}
FOLDERS = [f for top in ("sdk", "operator", "aggregator", "client") for f in (ROOT / top).glob("eigentensor*")]


@cache
def installed_with(requirement: str) -> frozenset[str]:
    """The distributions that a requirement brings, by their names, itself included."""
    asked = Requirement(requirement)
    brought = {str(canonicalize_name(asked.name))}
    for line in metadata.requires(asked.name) or ():
        needed = Requirement(line)
        if any(needed.marker is None or needed.marker.evaluate({"extra": e}) for e in ("", *asked.extras)):
            brought |= installed_with(str(needed))
    return frozenset(brought)


def brought_by(*requirements: str) -> set[str]:
    return {name for requirement in requirements for name in installed_with(requirement)}


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports anywhere in it, by the first word of their names."""
    for node in ast.walk(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (name.partition(".")[0] for name in names)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_package_imports_only_what_its_role_installs(folder: Path) -> None:
    there = brought_by(*PROJECT["dependencies"], *EXTRAS[ROLES.get(folder.name, "client")])
    owners = metadata.packages_distributions()
    for file in folder.rglob("*.py"):
        here = there | brought_by(*EXTRAS.get(OWN.get(f"{folder.name}/{file.name}", ""), ()))
        for module in set(imported(file)) - sys.stdlib_module_names:
            if not module.startswith("eigentensor"):
                assert {canonicalize_name(owner) for owner in owners[module]} & here, f"{file} imports {module}"


def test_modules_that_are_asked_for_are_those_that_an_extra_brings_beyond_the_clients() -> None:
    owners = metadata.packages_distributions()
    for extra, modules in MODULES.items():
        brought = brought_by(*EXTRAS[extra]) - brought_by(*PROJECT["dependencies"])
        assert all(canonicalize_name(owners[module][0]) in brought for module in modules)
        named = {canonicalize_name(Requirement(line).name) for line in EXTRAS[extra]} - {"uvloop"}
        assert named == {canonicalize_name(owners[module][0]) for module in modules}


def test_extras_of_several_roles_are_what_those_have() -> None:
    assert set(EXTRAS["local"]) == {*EXTRAS["aggregator"], *EXTRAS["operator"]}
    assert set(EXTRAS["all"]) == {line for extra, lines in EXTRAS.items() if extra != "dev" for line in lines}
    assert set(EXTRAS["all"]) <= set(EXTRAS["dev"])


def test_a_client_is_spared_what_only_others_need() -> None:
    assert not brought_by(*PROJECT["dependencies"]) & {"alembic", "sqlmodel", "sqlalchemy", "uvloop", "matplotlib"}


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["aggregator", "run"], "aggregator"),
        (["watch"], "aggregator"),
        (["devnet"], "local"),
        (["economics", "plot"], "plots"),
        (["cluster", "worker", "--ray", "local"], "ray"),
        (["deploy", str(ROOT / "tests"), "--name", "model", "--local"], "models"),
    ],
)
def test_a_verb_whose_extra_is_missing_says_what_to_install(
    words: list[str], extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in MODULES[extra]:
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not there
    with pytest.raises(SystemExit) as ended:
        main(words)
    err = capsys.readouterr().err
    assert ended.value.code == 3 and "Traceback" not in err
    assert f"  fix  Run `pip install 'eigentensor[{extra}]'`." in err.splitlines()
