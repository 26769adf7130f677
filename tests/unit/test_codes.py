"""The codes that Solidity knows."""

import subprocess
from pathlib import Path


def test_the_committed_codes_of_operations_and_types_are_those_of_python() -> None:
    script = Path(__file__).parents[2] / "scripts" / "codes"
    done = subprocess.run([script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
