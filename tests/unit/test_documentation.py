"""The documentation site: which text is on which page, what is drawn, and how it is served."""

import re
from pathlib import Path

import markdown
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from docs.making import figures, hooks
from docs.making.contracts import numbered
from docs.making.markup import code, plain, table
from docs.making.packing import pack
from docs.making.sections import Place, included, linked, places, section, sections, separated
from eigentensor_aggregator import documentation
from support.screens.readme import PAGES, ROOT

FOLDER = ROOT / "client" / "docs" / "pages"
WRITTEN = {path.relative_to(FOLDER).as_posix(): path.read_text() for path in PAGES}


def test_every_section_of_a_part_is_on_one_page() -> None:
    on = places(WRITTEN | hooks.chapters() | {"invariants.md": "@include contracts/README.md: Invariants"})
    for part in ("aggregator", "client", "contracts", "operator", "sdk"):
        file = f"{part}/README.md"
        assert [one.title for one in sections(file) if (file, one.anchor) not in on] == []


def test_a_section_comes_with_its_heading_its_level_and_its_links() -> None:
    text = included("# Page\n\n## @include operator/README.md: A cluster", "guides/x.md")
    assert "\n## A cluster\n" in text and "\n### Workers on other machines\n" in text
    assert "\n## " not in included("@include! operator/README.md: A cluster", "guides/x.md")
    on = {("sdk/README.md", "capture"): Place("specification/capture.md")}
    assert linked("[a](../../../../sdk/README.md#capture)", "guides/x.md", on) == "[a](../specification/capture.md)"
    assert linked("[a](../../../../sdk/README.md#none)", "guides/x.md", on).endswith("README.md#none)")
    assert linked("[a](../../../../scripts/docs)", "guides/x.md", on) == "a (`scripts/docs`)"
    with pytest.raises(LookupError, match="has no section 'Nonsense'"):
        section("sdk/README.md", "Nonsense")


def test_lists_and_tables_are_what_they_are_on_github() -> None:
    text = "A line:\n* one\n  goes on\n  - within\n* two\n\n```\na\n- b\n```\n| a |\n| - |"
    changed = "A line:\n\n* one\n    goes on\n    - within\n* two\n\n```\na\n- b\n```\n| a |\n| - |"
    assert separated(text) == changed


def test_texts_of_the_code_are_shown_as_they_are() -> None:
    rows = [(code("<a|b>"), plain("a_b *c* <img> | [d](e) `f|g`"))]
    shown = markdown.markdown(table(("x", "y"), rows), extensions=["tables"])
    assert "<code>&lt;a|b&gt;</code>" in shown and "a_b *c* &lt;img&gt; | [d](e) <code>f|g</code>" in shown


def test_the_invariants_are_numbered_without_a_gap() -> None:
    found = numbered(section("contracts/README.md", "Invariants").text)
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1)) and len(found) >= 57
    assert dict(found)["46"].startswith("the tokens of channels = balances")


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_figure_is_drawn_in_colours_of_the_scheme_alone(name: str) -> None:
    drawing = figures.drawn(f"@figure {name}")
    assert drawing.startswith("<figure") and "nan" not in drawing
    assert not re.search(r"style=|#[0-9a-f]{3,6}|\n\n", drawing)


def test_pages_are_served_with_a_policy_for_their_own_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    (site / "guides" / "x").mkdir(parents=True)
    (site / "guides" / "x" / "index.html").write_text("<script>here()</script><p>a page")
    (site / "scripts.json").write_text(f'["{hooks.hash_of("here()")}"]')
    for number in range(2):
        pack(site, tmp_path / f"{number}.zip")
    assert (tmp_path / "0.zip").read_bytes() == (tmp_path / "1.zip").read_bytes()
    monkeypatch.setattr(documentation, "ARCHIVE", tmp_path / "0.zip")
    app = FastAPI()
    app.include_router(documentation.router())
    with TestClient(app) as client:
        answer = client.get("/docs/guides/x")
        assert (answer.url.path, answer.status_code) == ("/docs/guides/x/", 200)
        assert answer.headers["content-type"].startswith("text/html")
        policy = answer.headers["content-security-policy"]
        assert f"'{hooks.hash_of('here()')}'" in policy and "unsafe" not in policy and "http" not in policy
        assert client.get("/docs/guides/x/", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
        assert [client.get(f"/docs/{path}").status_code for path in ("", "../x", "guides/y/")] == [404] * 3
    monkeypatch.setattr(documentation, "ARCHIVE", tmp_path / "none.zip")
    assert documentation.router().routes == []
