"""Container and service files say only what is there: sources, commands, settings."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from eigentensor_client.cli import main
from eigentensor_operator.config import Settings as Operator
from eigentensor_serve.settings import Settings as Serve

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "client" / "deploy"
UNITS = [FOLDER / "eigentensor-serve.service", ROOT / "operator" / "deploy" / "eigentensor-operator.service"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def compose() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    return services


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (FOLDER / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, " ".join(rest.split())) for word, _, rest in (line.partition(" ") for line in lines)]


def understood(words: list[str]) -> bool:
    """Whether the command knows these verbs and options."""
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    return not ended.value.code


def settings(names: list[str]) -> set[str]:
    """Those of a service's variables that set nothing."""
    fields = {f"EIGENTENSOR_SERVE_{name}".upper() for name in Serve.model_fields}
    fields |= {f"EIGENTENSOR_OPERATOR_{name}".upper() for name in Operator.model_fields}
    general = {"EIGENTENSOR_NETWORK", "EIGENTENSOR_KEYSTORE", "EIGENTENSOR_PASSWORD_FILE"}
    return {name for name in names if name.startswith("EIGENTENSOR_")} - fields - general


@pytest.mark.parametrize("service", compose()["services"])
def test_a_service_of_the_compose_file_is_a_command_that_there_is(service: str) -> None:
    definition = compose()["services"][service]
    assert understood(definition["command"])
    assert not understood([*definition["command"], "--nonsense"])
    context = (FOLDER / definition["build"]["context"]).resolve()
    assert context == ROOT
    assert (context / definition["build"]["dockerfile"]).is_file()
    assert settings(list(definition.get("environment", {}))) == set()
    volumes = {volume.partition(":")[0] for volume in definition["volumes"]}
    assert {name for name in volumes if not name.startswith(".")} <= compose()["volumes"].keys()
    assert set(definition.get("secrets", ())) <= compose()["secrets"].keys()
    paths = [v for v in definition.get("environment", {}).values() if v.startswith("/run/secrets/")]
    assert {Path(path).name for path in paths} == set(definition.get("secrets", ()))
    mounted = {volume.split(":")[1] for volume in definition["volumes"]} | set(paths)
    assert all(word in mounted for word in definition["command"] if word.startswith("/"))


def test_ports_and_health_checks_are_those_of_the_services() -> None:
    assert compose()["services"]["serve"]["ports"] == [
        f"127.0.0.1:{(port := Serve.model_fields['port'].default)}:{port}"
    ]
    for service in ("serve", "aggregator"):
        definition = compose()["services"][service]
        port = definition["ports"][0].rpartition(":")[2]
        code = definition["healthcheck"]["test"][-1]
        compile(code, service, "exec")
        assert f":{port}/healthz" in code


def test_the_image_is_made_of_what_the_repository_has() -> None:
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from=")
        for source in rest.split()[:-1]
    }
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert all(any(path == source or path.startswith(f"{source}/") for path in tracked) for source in copied)
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {package.partition("/")[0] for package in packages} <= copied
    assert {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], "requirements.lock"} <= copied


def test_the_image_runs_the_command_as_somebody_without_rights() -> None:
    image = dict(instructions())
    (entry,) = json.loads(image["ENTRYPOINT"])
    assert entry in PROJECT["project"]["scripts"]
    assert understood([word for word in json.loads(image["CMD"]) if word != "--help"])
    assert image["USER"].isdecimal() and image["USER"] in "".join(
        rest for _, rest in instructions() if "useradd" in rest
    )
    installed = next(rest for word, rest in instructions() if word == "RUN" and "apt-get install" in rest)
    needed = re.findall(r"missing\+=\(([\w-]+)\)", (ROOT / "scripts" / "setup").read_text())
    for package in ("bubblewrap", "clang", "libllvm19"):
        assert package in needed and f" {package} " in installed
    stages = [rest.split(" AS ") for word, rest in instructions() if word == "FROM"]
    assert all(f"--from={name[1]} " in "".join(rest for _, rest in instructions()) for name in stages[:-1])
    assert {name[0] for name in stages} == {"docker.io/library/python:3.11-slim-trixie"}


def steps() -> list[str]:
    return [rest for word, rest in instructions() if word == "RUN"]


def test_the_image_is_made_as_images_should_be() -> None:
    words = [word for word, _ in instructions()]
    assert set(words) <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "ENTRYPOINT", "CMD"}
    assert words.index("USER") > max(n for n, word in enumerate(words) if word in ("RUN", "COPY")), "root does no more"
    for word, rest in instructions():
        assert word not in ("ENTRYPOINT", "CMD") or isinstance(json.loads(rest), list), "signals reach the command"
        assert word not in ("WORKDIR", "VOLUME") or rest.startswith("/")
        assert word != "COPY" or "." not in rest.split()[:-1], "only what is named comes in"
        assert word != "FROM" or re.search(r":[\w.-]*\d[\w.-]*( AS \w+)?$", rest), "a version is named"
        assert word != "ENV" or not re.search(r"(KEY|PASSWORD|TOKEN|SECRET|CREDENTIAL)\w*=", rest, re.I)


@pytest.mark.parametrize("step", steps())
def test_a_step_of_the_image_is_whole_repeatable_and_leaves_nothing_behind(step: str) -> None:
    assert subprocess.run(["sh", "-n", "-c", step], timeout=10).returncode == 0
    assert ";" not in step and "||" not in step and not re.search(r"\b(sudo|curl|wget|chmod 777)\b", step)
    for command in step.split(" && "):
        if "pip install" in command:
            assert "--no-cache-dir" in command
            assert "--require-hashes -r requirements.lock" in command or "--no-deps" in command
        if "apt-get install" in command:
            assert {"-y", "--no-install-recommends"} <= set(command.split())
            assert step.startswith("apt-get update && ") and "rm -rf /var/lib/apt/lists/*" in step


def lines_of(unit: Path) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (line.partition("=") for line in unit.read_text().splitlines())]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_that_there_is_with_settings_that_there_are(unit: Path) -> None:
    lines = lines_of(unit)
    program, *words = dict(lines)["ExecStart"].split()
    assert Path(program).name in PROJECT["project"]["scripts"]
    assert understood(words)
    variables = dict(value.split("=", 1) for name, value in lines if name == "Environment")
    assert settings(list(variables)) == set()
    loaded = {value.partition(":")[0] for name, value in lines if name == "LoadCredential"}
    assert {value.removeprefix("%d/") for value in variables.values() if value.startswith("%d/")} == loaded
    own = (f"/var/lib/{dict(lines)['StateDirectory']}", f"/var/cache/{dict(lines)['CacheDirectory']}")
    assert all(value.startswith(own) for value in variables.values() if value.startswith("/"))
    assert dict(lines)["NoNewPrivileges"] == "yes" and dict(lines)["ProtectSystem"] == "strict"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_nothing_wrong_with_a_unit(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    copy.write_text(
        unit.read_text()
        .replace("/opt/eigentensor/current/bin/eigentensor", "/bin/true")
        .replace("/opt/eigentensor/bin/eigentensor", "/bin/true")
    )
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60
    )
    assert (checked.returncode, checked.stderr) == (0, "")


#: What of the steps needs a network: packages of the lock file, for which those of this clone stand, of the same lock;
#: and those of Debian, with the account that is made beside them.
FETCHED = ("-r requirements.lock", "apt-get ")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not here")
def test_the_steps_run_in_a_bare_root_without_network_and_make_the_command(tmp_path: Path) -> None:
    """Nothing of this clone is there but what is copied."""
    for folder in ("src", "opt", "data", "tools", "tmp"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tools/python").symlink_to(Path(sys.base_prefix, "bin", "python3"))
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from=" not in rest]
    archive = ["git", "archive", "HEAD", *(name for names in copied for name in names)]
    files = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", tmp_path / "src"], input=files, check=True)
    packages = sysconfig.get_path("purelib")

    def run(command: str, *more: str) -> str:
        root = [
            word
            for name in ("src", "opt", "data", "tools", "tmp")
            for word in ("--bind", str(tmp_path / name), f"/{name}")
        ]
        seen = [
            word
            for path in ("/usr", "/lib", "/lib64", "/bin", sys.base_prefix, packages)
            if Path(path).exists()
            for word in ("--ro-bind", path, path)
        ]
        bare = ["bwrap", "--unshare-all", "--die-with-parent", "--clearenv", "--proc", "/proc", "--dev", "/dev"]
        named = ["--setenv", "PATH", "/tools:/usr/bin:/bin", "--setenv", "HOME", "/tmp", "--chdir", "/src", *more]
        done = subprocess.run([*bare, *seen, *root, *named, "sh", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    build, final = steps()[:-1], steps()[-1]
    assert any(word in final for word in FETCHED)
    for step in build:
        for command in step.split(" && "):
            if any(word in command for word in FETCHED):
                (inside,) = (tmp_path / "opt").glob("*/lib/python*/site-packages")
                (inside / "fetched.pth").write_text(f"{packages}\n")
            else:
                run(command)
    image = dict(instructions())
    environment = dict(pair.split("=", 1) for pair in image["ENV"].split())
    given = [word for name, value in environment.items() for word in ("--setenv", name, value)]
    shown = run(
        shlex.join(json.loads(image["ENTRYPOINT"]) + json.loads(image["CMD"])),
        *given,
        "--uid",
        image["USER"],
        "--chdir",
        image["WORKDIR"],
    )
    assert "operator" in shown and "aggregator" in shown
    where = run("python -c 'import eigentensor; print(eigentensor.__file__)'", *given)
    assert where.startswith("/opt/eigentensor/")
