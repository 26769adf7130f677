"""The layout: what must not be where."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import eigentensor

ROOT = Path(__file__).parents[2]


def test_the_folder_operator_does_not_shadow_the_standard_library() -> None:
    subprocess.run([sys.executable, "-S", "-c", "import operator; operator.add"], cwd=ROOT, check=True)
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert not list((ROOT / "operator").glob("*.py"))


def test_every_public_name_can_be_had() -> None:
    for name in eigentensor.__all__:
        assert getattr(eigentensor, name).__name__ == name


@pytest.mark.parametrize("name", ["chain", "dispute", "gt", "runtime", "store"])
def test_packages_load_each_of_their_names_and_no_module_takes_its_place(name: str) -> None:
    package = import_module(f"eigentensor.{name}")
    modules = {module.name for module in iter_modules(package.__path__)}
    assert not modules & set(package.__all__)
    assert all(getattr(package, word) is not None for word in package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        package.nonsense  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import eigentensor; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    modules = done.stdout.split()
    assert {name.partition(".")[0] for name in modules} - sys.stdlib_module_names == {"eigentensor"}
    assert len(modules) <= 60
