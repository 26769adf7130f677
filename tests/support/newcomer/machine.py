"""A machine as a newcomer has it: an empty folder, an empty home, and a Python that has the wheel."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
#: Of a variable whose name begins so, nothing is known there.
_FOREIGN = ("EIGENTENSOR_", "XDG_", "PYTHON", "VIRTUAL_ENV", "TINYGRAD", "DEV")


def built_wheel(folder: Path) -> Path:
    """The wheel of the files as they are now, in a folder that is new or empty."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


class Machine:
    """What runs there sees no repository.

    It finds this machine's programs on its path, and package registries as this machine does; a `bare` one has nothing
    on its path, and no driver of OpenCL either.
    """

    def __init__(self, folder: Path, python: str, wheel: Path, extra: str = "", *, bare: bool = False) -> None:
        """Installs the wheel, with an extra, as this machine's user does. Raises CalledProcessError."""
        self.folder, self.home, venv = folder / "work", folder / "home", folder / "venv"
        for empty in (self.folder, self.home):
            empty.mkdir()
        subprocess.run([python, "-m", "venv", str(venv)], check=True, capture_output=True)
        self.bin, self._bare = venv / "bin", bare
        package = f"{wheel}[{extra}]" if extra else str(wheel)
        install = [str(self.bin / "python"), "-m", "pip", "install", "-q", package]
        subprocess.run(install, check=True, capture_output=True, timeout=1200)
        (self.packages,) = (venv / "lib").glob("python3.*/site-packages")

    def command(self, *words: str, folder: str | Path = "") -> list[str]:
        """A command in a folder of the machine's, where the repository is an empty one."""
        bwrap = shutil.which("bwrap") or "bwrap"
        front = [bwrap, "--dev-bind", "/", "/", "--tmpfs", str(ROOT), "--chdir", str(self.folder / folder), "--"]
        own = self.bin / words[0]
        return [*front, str(own) if own.exists() else words[0], *words[1:]]

    def environment(self, network: Path | None = None) -> dict[str, str]:
        """What a command of the machine sees."""
        named = {} if network is None else {"EIGENTENSOR_NETWORK": str(network)}
        if self._bare:
            return {"HOME": str(self.home), "PATH": str(self.home), "OCL_ICD_VENDORS": str(self.home), **named}
        known = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        paths = [path for path in os.environ["PATH"].split(os.pathsep) if not Path(path).is_relative_to(ROOT)]
        return known | {"HOME": str(self.home), "PATH": os.pathsep.join((str(self.bin), *paths)), **named}

    def run(self, *words: str, code: int = 0, network: Path | None = None) -> subprocess.CompletedProcess[str]:
        """What a command prints, which ends with a code. Raises AssertionError if it ends with another."""
        command, environment = self.command(*words), self.environment(network)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == code and "Traceback" not in done.stderr, done.stdout + done.stderr
        return done

    @contextmanager
    def serving(self, pattern: str, *words: str) -> Iterator[str]:
        """What a line of a command's talk says of a pattern, while it runs; then it is interrupted."""
        process = subprocess.Popen(
            self.command(*words), env=self.environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            assert process.stderr is not None
            yield next(match[0] for line in process.stderr if (match := re.search(pattern, line)))
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=60)
