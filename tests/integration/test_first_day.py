"""A newcomer's first day, as `scripts/first-day` walks it; and how it tells what no page says."""

import os
import subprocess
from pathlib import Path

import pytest

from support.newcomer.pages import calls_of, places_of, split, words_of

SCRIPT = Path(__file__).parents[2] / "scripts" / "first-day"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_first_day_goes_as_the_pages_say_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(SCRIPT)], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout and "own model's checked result" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_must_be_known_to_type_a_line_are_its_variables_verb_and_options() -> None:
    line = "EIGENTENSOR_KEYSTORE=alice eigentensor wallet fund 2.5 --to=0x11 -q"
    assert split(line)[0] == {"EIGENTENSOR_KEYSTORE": "alice"}
    assert words_of(line) == ["EIGENTENSOR_KEYSTORE", "wallet fund", "--to", "-q"]
    assert words_of("eigentensor run net.py:forward -i x=@x.npy") == ["run", "-i"]
    assert words_of("cmp a b") == []
    assert calls_of("@et.function()\ndef forward(x): ...\nforward.map([])") == ["@et.function", "forward.map"]


def test_a_word_is_said_by_a_page_by_a_command_or_by_nobody() -> None:
    words = ["wallet fund", "--max-price", "EIGENTENSOR_OPERATOR_PORT"]
    assert all(page.endswith(".md") for page in places_of(words).values())
    unknown = ["wallet melt", "--max-pric", "EIGENTENSOR_OPERATOR_COLOUR", "forward.melt"]
    assert list(places_of(unknown).values()) == [""] * 4
    assert places_of(["--block-seconds"], "next  eigentensor operator run --block-seconds 1") == {
        "--block-seconds": "the command before"
    }
