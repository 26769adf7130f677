"""The table of attacks in contracts/README.md: every attack has its row, every row names tests that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEST = re.compile(r"`(test\w+)`")


def rows() -> dict[str, list[str]]:
    """Number → the tests that its row names."""
    text = (ROOT / "contracts" / "README.md").read_text()
    section = text.partition("## Attacks\n")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    assert cells[0] == ["#", "attack", "what comes of it", "shown by"]
    assert all(len(row) == 4 and all(row) for row in cells)
    return {number: TEST.findall(shown) for number, _, _, shown in cells[2:]}


def there_are(folder: str, pattern: str) -> set[str]:
    files = (path for suffix in ("*.sol", "*.py") for path in (ROOT / folder).rglob(suffix))
    return {name for path in files for name in re.findall(pattern, path.read_text())}


def test_every_attack_has_one_row_that_names_tests() -> None:
    table = rows()
    assert [int(number) for number in table if number.isdigit()] == list(range(1, 52))
    assert all(table.values())


def test_every_test_that_is_named_is_there() -> None:
    known = there_are("contracts/test", r"function (test\w+)\(") | there_are("tests", r"def (test_\w+)\(")
    assert {name for names in rows().values() for name in names} <= known


def test_every_test_of_an_attack_is_named_in_its_row() -> None:
    table = rows()
    for name in there_are("contracts/test/attacks", r"function (test\w+)\("):
        number = re.search(r"_Attack(\d*)_", name)
        assert number is not None
        assert name in table[str(int(number[1])) if number[1] else "stake"]
    for name in there_are("tests/unit", r"def (test_attack_\d\d_\w+)\("):
        assert name in table[str(int(name[12:14]))], name
