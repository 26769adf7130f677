"""The layout: what must not be where."""

import subprocess
import sys
from pathlib import Path

import eigentensor

ROOT = Path(__file__).parents[2]


def test_the_folder_operator_does_not_shadow_the_standard_library() -> None:
    subprocess.run([sys.executable, "-S", "-c", "import operator; operator.add"], cwd=ROOT, check=True)
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert not list((ROOT / "operator").glob("*.py"))


def test_every_public_name_can_be_had() -> None:
    for name in eigentensor.__all__:
        assert getattr(eigentensor, name).__name__ == name


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import eigentensor; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    modules = done.stdout.split()
    assert {name.partition(".")[0] for name in modules} - sys.stdlib_module_names == {"eigentensor"}
    assert len(modules) <= 60
