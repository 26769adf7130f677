"""Alert rules, their pages and the dashboard say only what there is: metrics, labels, commands."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from eigentensor_aggregator.metrics import Metrics as Aggregator
from eigentensor_aggregator.watch.machine import Act, Verdict
from eigentensor_client.cli import main
from eigentensor_operator.metrics import Metrics as Operator
from eigentensor_serve.service import Metrics as Serve

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "client" / "deploy" / "monitoring"
REGISTRIES = [Aggregator(Act, Verdict).registry, Operator("TETH").registry, Serve().registry]
RULES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
COMMANDS = sorted(
    {
        line.split("#")[0].strip()
        for page in (FOLDER / "runbooks").glob("*.md")
        for line in page.read_text().splitlines()
        if line.startswith("eigentensor ")
    }
)


def promtool(*words: str, text: bytes | None = None) -> "subprocess.CompletedProcess[bytes]":
    program = shutil.which("promtool", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        pytest.skip("not installed: prometheus")
    return subprocess.run([program, *words], cwd=FOLDER, input=text, capture_output=True, timeout=60)


def series() -> dict[str, set[str]]:
    """The labels of everything that a service tells, by name."""
    return {
        sample.name: sample.labels.keys() | {"le", "instance", "job"}
        for registry in REGISTRIES
        for family in registry.collect()
        for sample in family.samples
    }


def expressions() -> list[str]:
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    return [rule["expr"] for rule in RULES] + [target["expr"] for panel in panels for target in panel["targets"]]


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_is_about_metrics_and_labels_that_there_are(expression: str) -> None:
    known = series() | {"up": {"job", "instance"}}
    named = re.findall(r"\b((?:et|eigen)_\w+|up)\b(?:\{([^}]*)\})?", expression)
    assert named
    for name, labels in named:
        assert {label.partition("=")[0].strip("~ ") for label in labels.split(", ") if label} <= known[name], name


def test_every_alert_has_a_page_and_a_case_and_no_page_is_about_another() -> None:
    names = {rule["alert"] for rule in RULES}
    pages = {path.stem: path.read_text() for path in (FOLDER / "runbooks").glob("*.md")}
    assert pages.keys() == names
    for rule in RULES:
        page = ROOT / rule["annotations"]["runbook"]
        assert page.read_text().startswith(f"# {rule['alert']}\n") and "```\n" in page.read_text()
    cases = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
    assert {case["alert_rule_test"][0]["alertname"] for case in cases} == names


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_a_page_is_one_that_there_is(command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split()[1:], "--help"])
    assert not ended.value.code


def test_rules_fire_when_they_should() -> None:
    for words in (("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")):
        ran = promtool(*words)
        assert ran.returncode == 0, ran.stderr.decode() + ran.stdout.decode()


@pytest.mark.parametrize("registry", REGISTRIES, ids=["aggregator", "operator", "serve"])
def test_metrics_are_named_as_is_usual(registry: CollectorRegistry) -> None:
    """But for a name that is EigenLayer's."""
    ran = promtool("check", "metrics", text=generate_latest(registry))
    said = ran.stderr.decode().splitlines()
    assert [line for line in said if not line.startswith("eigen_balance_total ")] == []
