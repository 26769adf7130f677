"""A stranger's path from a clone to a checked receipt, as `scripts/stranger` walks it."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "stranger"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_stranger_gets_from_a_clone_to_a_checked_receipt(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(SCRIPT)], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "eigentensor-state: checked(1)" in done.stdout
    assert "proves       it happened" in done.stdout
    assert list(tmp_path.iterdir()) == []
