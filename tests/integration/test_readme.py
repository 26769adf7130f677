"""What the README files show runs, and what they link to is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READMES = sorted(p for p in ROOT.glob("**/README.md") if not {".venv", "node_modules"} & set(p.parts))


def test_the_ten_lines_run(capsys: pytest.CaptureFixture[str]) -> None:
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.endswith("(256, 256)\n")


@pytest.mark.parametrize("readme", READMES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(readme: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", readme.read_text())
    assert not [link for link in links if not (readme.parent / link).exists()]
