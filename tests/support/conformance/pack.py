"""Puts all into a folder that a machine with a GPU needs to hold it to the reference: `scripts/gpu pack FOLDER`.

That machine needs Python, the GPU's driver and no network; FOLDER/run is what is called there.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

from support.campaigns.campaign import say
from support.conformance.answers import committed
from support.conformance.carried import ARCHITECTURE, compiled
from support.conformance.cases import cases
from support.conformance.start import NEEDED

ROOT = Path(__file__).parents[3]
START = Path(__file__).with_name("start.py")
MOST = 60 << 20  #: bytes of the folder
SOURCES = (
    "sdk/eigentensor", "client/eigentensor_client", "client/eigentensor_models", "client/examples/language",
    "tests/support",
    "tests/vectors/conformance.json", "tests/vectors/ops.json", "LICENSE",
)  # fmt: skip
SYSTEM = ("libc.so", "libm.so", "ld-linux")  #: libraries that are taken where programs run
#: Kinds of Linux whose wheels run wherever CUDA's driver does.
MANYLINUX = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu pack", description=__doc__)
    parser.add_argument("folder", type=Path, help="a new or empty one")
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    parser.add_argument("--python", nargs="*", default=[here], help=f"whose wheels are carried [{here}]")
    parser.add_argument("--machine", default=platform.machine(), help="the processor of these wheels [this one's]")
    parser.add_argument("--only", nargs="*", default=[""], help="kernels of cases whose names begin so")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    if folder.exists() and any(folder.iterdir()):
        say(f"{folder} is not empty")
        return 3
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(START, folder / "run")
    (folder / "run").chmod(0o755)
    put_sources(folder / "source")
    put_wheels(folder / "wheels", arguments.python, arguments.machine)
    names = [name for name in cases() if name.startswith(tuple(arguments.only))]
    put_bubblewrap(folder / "bubblewrap")
    count = put_kernels(folder / "kernels.zip", names)
    (folder / "contents.txt").write_text(contents(folder, count, len(names), arguments.python))
    size = size_of(folder)
    say((folder / "contents.txt").read_text())
    if size > MOST:
        say(f"{size:,} bytes are more than {MOST:,}")
        return 1
    return 0


def put_sources(folder: Path) -> None:
    """What is executed there, as it is here."""
    for name in SOURCES:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)


def put_wheels(folder: Path, pythons: Sequence[str], machine: str) -> None:
    """Those of the packages that may be missing there, of the releases and with the hashes of requirements.lock."""
    with TemporaryDirectory() as temporary:
        locked = Path(temporary, "requirements.txt")
        locked.write_text("\n".join(map(_locked, NEEDED)))
        for python in pythons:
            command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
            command += ["--require-hashes", "--only-binary=:all:", "--python-version", python, "-d", str(folder)]
            command += [part for kind in MANYLINUX for part in ("--platform", f"{kind}_{machine}")]
            subprocess.run([*command, "-r", str(locked)], check=True)


def _locked(name: str) -> str:
    """The lines of a package in requirements.lock."""
    text = (ROOT / "requirements.lock").read_text()
    match = re.search(rf"^{re.escape(name)}==.*?(?=^\S|^ +#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, f"requirements.lock does not have {name}"
    return match[0]


def put_bubblewrap(folder: Path) -> None:
    """This machine's, with its libraries but the system's C library, for a machine of the same kind that has none."""
    program = shutil.which("bwrap")
    if program is None:
        return
    folder.mkdir()
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for name, path in re.findall(r"(\S+) => (/\S+)", shown):
        if not name.startswith(SYSTEM):
            shutil.copy(path, folder / name)
    shutil.copy(program, folder / "program")
    (folder / "bwrap").write_text('#!/bin/sh\nLD_LIBRARY_PATH="${0%/*}" exec "${0%/*}/program" "$@"\n')
    (folder / "bwrap").chmod(0o755)


def put_kernels(file: Path, names: Sequence[str]) -> int:
    """The kernels of these cases; returns how many texts were compiled."""
    kept = set[str]()
    processes = len(os.sched_getaffinity(0))
    with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=9) as archive, ProcessPoolExecutor(processes) as pool:
        for done, kernels in enumerate(pool.map(_kernels, names), 1):
            for name in kernels.keys() - kept:
                archive.writestr(name, kernels[name])
                kept.add(name)
            if done % 50 == 0:
                say(f"{done} of {len(names)} cases are compiled")
    return len(kept)


def _kernels(name: str) -> dict[str, bytes]:
    return compiled(cases()[name]())


def contents(folder: Path, kernels: int, cases: int, pythons: Sequence[str]) -> str:
    """The list of what is in the folder, and what it is there for."""
    parts = {
        "run": "called there: `run`, `run --help`",
        "source": "this project's packages, its test programs and their answers",
        "wheels": f"for Python {' and '.join(pythons)}, each taken only where that Python lacks it",
        "bubblewrap": "what confines programs, used where none is installed",
        "kernels.zip": f"{kernels} texts of {cases} cases as PTX for {ARCHITECTURE} and newer, used without NVRTC",
    }
    lines = [f"{size_of(folder / name):>12,}  {name:12}  {what}" for name, what in parts.items()]
    lines += [f"{file.stat().st_size:>12,}    {file.name}" for file in sorted((folder / "wheels").glob("*.whl"))]
    lines += [f"{size_of(folder):>12,}  in all; {len(committed())} answers"]
    return "\n".join(["bytes", *lines, ""])


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return (
        path.stat().st_size
        if path.is_file()
        else sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    )


if __name__ == "__main__":
    sys.exit(main())
