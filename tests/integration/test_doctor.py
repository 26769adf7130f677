"""`eigentensor doctor`: what it admits, what it refuses, and that an operator then does not start."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eigentensor.chain import Network, anvil_account, save_account

X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="sets a control register of x86")
#: What a library that was built for speed does when it is loaded, and bits of the register that it sets.
LIBRARY = """
__attribute__((constructor)) static void set_mode(void) {
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | %s);
}
"""
FLUSH, OPERANDS, DOWNWARDS = 0x8000, 0x0040, 0x2000


def eigentensor(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "eigentensor_client", *words]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=200)


def findings(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, str], dict[str, Any]]:
    report = json.loads(done.stdout)
    assert report["schema"] == "eigentensor.doctor/1"
    return {(finding["what"], finding["name"]): finding for finding in report["findings"]}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("fast"), FLUSH | OPERANDS)


def built(folder: Path, bits: int) -> Path:
    file = folder / "libfast.so"
    subprocess.run(
        ["clang", "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", file],
        input=LIBRARY % hex(bits), text=True, check=True,
    )  # fmt: skip
    return file


@pytest.mark.slow  # tests/differential/test_selftest.py holds the devices to it
def test_this_machine_is_admitted() -> None:
    done = eigentensor("doctor", "CPU", "--json")
    report = findings(done)
    assert (done.returncode, report["device", "CPU"]["state"]) == (0, "ok")
    assert json.loads(done.stdout)["admitted"] == ["CPU"]
    assert {finding["state"] for finding in report.values()} <= {"ok", "absent"}
    assert all(finding["fix"] for finding in report.values() if finding["state"] != "ok")


@pytest.mark.slow
@X86
def test_a_library_that_flushes_subnormal_numbers_is_named_and_the_device_holds_nevertheless(library: Path) -> None:
    done = eigentensor("doctor", "CPU", "--json", LD_PRELOAD=str(library))
    report = findings(done)
    process = report["arithmetic", "process"]
    assert (done.returncode, process["state"]) == (7, "refused")
    assert "takes subnormal operands for zero and flushes subnormal results to zero" in process["says"]
    assert str(library) in process["says"]
    assert report["device", "CPU"]["state"] == "ok"


@X86
@pytest.mark.parametrize(
    ("bits", "says"),
    [
        (FLUSH, "process flushes subnormal results to zero,"),
        (OPERANDS, "process takes subnormal operands for zero,"),
        (DOWNWARDS, "process does not round to nearest even,"),
    ],
)
def test_the_state_of_the_process_is_told_exactly(bits: int, says: str, tmp_path: Path) -> None:
    program = "from eigentensor.runtime.doctor import arithmetic; print(arithmetic().says)"
    environment = os.environ | {"LD_PRELOAD": str(built(tmp_path, bits))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert says in done.stdout


@pytest.fixture
def operator_run(network: Network, tmp_path: Path) -> list[str]:
    """The words that start an operator."""
    keystore, password = tmp_path / "signer.key", tmp_path / "password"
    save_account(anvil_account(1), keystore, "local", iterations=1)
    password.write_text("local")
    flags = {
        "network": network.save(tmp_path / "network.json"), "keystore": keystore, "password-file": password,
        "data-dir": tmp_path / "data", "port": 0,
    }  # fmt: skip
    return ["operator", "run", *(str(word) for name, value in flags.items() for word in (f"--{name}", value))]


@X86
def test_an_operator_does_not_start_where_results_could_not_be_rechecked(
    library: Path, operator_run: list[str]
) -> None:
    done = eigentensor(*operator_run, LD_PRELOAD=str(library))
    assert done.returncode == 7
    assert "flushes subnormal results to zero" in done.stderr
    assert "`eigentensor doctor`" in done.stderr


@pytest.mark.slow
def test_a_device_that_contracts_is_refused_and_no_operator_starts_on_it(
    operator_run: list[str], tmp_path: Path
) -> None:
    folder, real = tmp_path / "bin", shutil.which("clang")
    folder.mkdir()
    (folder / "clang").write_text(f'#!/bin/sh\nexec {real} "$@" -ffp-contract=fast\n')
    (folder / "clang").chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = eigentensor("doctor", "CPU", "--json", **environment)
    device = findings(done)["device", "CPU"]
    assert (done.returncode, json.loads(done.stdout)["admitted"], device["state"]) == (7, [], "refused")
    assert "float32_product_and_sum" in device["says"]
    ended = eigentensor(*operator_run, "--unsafe-no-sandbox", **environment)  # in the sandbox there is no such compiler
    assert ended.returncode == 7
    assert "float32_product_and_sum" in ended.stderr and "`eigentensor doctor`" in ended.stderr


def test_without_a_compiler_no_device_of_the_processor_is_admitted(tmp_path: Path) -> None:
    done = eigentensor("doctor", "CPU", PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    rows = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 7
    assert any(row[:3] == ["absent", "version", "clang"] for row in rows)
    assert any(row[:3] == ["absent", "device", "CPU"] for row in rows)
    assert any(row[:2] == ["absent", "sandbox"] for row in rows)
    assert "apt-get install clang" in done.stdout and "Traceback" not in done.stderr


def test_a_device_that_there_is_not_is_named() -> None:
    done = eigentensor("doctor", "TPU")
    assert (done.returncode, done.stdout) == (7, "")
    assert "TPU" in done.stderr and "CPU:LLVM" in done.stderr
