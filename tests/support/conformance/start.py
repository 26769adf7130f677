#!/usr/bin/env python3
"""Holds this machine's GPU to the reference, then measures it. Needs Python 3.11 and the GPU's driver, no network.

What it is given goes to `scripts/gpu run`: `run --help` says what that is; `run confined` is `scripts/gpu confined`.
This file is `run` in the folder that `scripts/gpu pack` writes; all that it needs lies beside it, and contents.txt is a
list of that.
"""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from zipfile import ZipFile

HERE = Path(__file__).resolve().parent
#: What is imported, and the only release that will do, if there is one.
NEEDED = {"numpy": "", "safetensors": "", "tinygrad": "0.14.0", "psutil": "", "pyyaml": ""}
SOURCES = ("tests", "sdk", "client", "client/examples")


def missing() -> list[str]:
    """The packages that this Python lacks."""
    found = {}
    for name in NEEDED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return [name for name, release in NEEDED.items() if name not in found or release not in ("", found[name])]


def wheel(name: str) -> Path:
    """The wheel of a package for this Python. Raises FileNotFoundError if there is none."""
    here = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    for file in sorted((HERE / "wheels").glob(f"{name}-*.whl")):
        python, abi, _ = file.stem.split("-")[-3:]
        if here in python.split(".") or "py3" in python.split(".") or abi == "abi3":
            return file
    raise FileNotFoundError(f"{name} is not installed, and this folder has no wheel of it for this Python ({here})")


def main() -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - whatever Python is there
        sys.exit("Python 3.11 or newer is needed")
    with TemporaryDirectory() as folder:
        for name in missing():
            with ZipFile(wheel(name)) as archive:
                archive.extractall(Path(folder, "site"))
        paths = [str(HERE / "source" / path) for path in SOURCES]
        paths += [str(Path(folder, "site")), *filter(None, [os.environ.get("PYTHONPATH")])]
        # nothing that this machine has tuned or compiled before, and nothing left on it
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XDG_CACHE_HOME": str(Path(folder, "cache"))}
        if which("bwrap") is None:
            environment["PATH"] += os.pathsep + str(HERE / "bubblewrap")
        if sys.argv[1:2] == ["confined"]:
            what = ["confined", *sys.argv[2:]]
        else:
            what = ["run", "--kernels", str(HERE / "kernels.zip"), *sys.argv[1:]]
        command = [sys.executable, "-m", f"support.conformance.{what[0]}", *what[1:]]
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
