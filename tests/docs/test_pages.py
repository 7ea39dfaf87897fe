"""The pages of the documentation: generated ones are up to date, and the code in them runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from burnpy import docs
from burnpy.docs import generated
from tests.rows import every_row

ROOT = Path(__file__).parents[2]
DOCS = generated.OPERATIONS.parent
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("*/*.md"))]
HEAVY = {
    "array_api.md": pytest.mark.heavy("beartype", "einops", "jaxtyping"),
    "onnx.md": pytest.mark.heavy("onnx", "onnxruntime"),
}
"""The pages whose code needs what is heavy to install."""


@pytest.mark.slowest
@pytest.mark.parametrize("page", [pytest.param(page, marks=HEAVY.get(page.name, ()), id=page.name) for page in PAGES])
def test_code_on_the_pages_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the code of a page; a comment after a statement, or below it, is its output."""
    monkeypatch.chdir(tmp_path)  # some of it writes files
    _, wrong = docs.run(page)
    assert not wrong, "\n".join(["", *wrong])


def test_an_output_that_a_page_does_not_show_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nprint(1)  # 1\nprint(2)\n# 3\nx = 4  # no output\n```\n", encoding="utf-8")
    names, wrong = docs.run(page)
    assert names["x"] == 4
    assert wrong == ["page.md:5 prints\n2\nand the page shows\n3\n"]


def test_every_picture_is_shown() -> None:
    assert {path for page in PAGES for path, _ in docs.pictures(page)} == set(DOCS.glob("book/pictures/*"))


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200, "what explains belongs into the book"


def test_the_page_of_examples_has_every_one() -> None:
    page = (DOCS / "book" / "examples.md").read_text(encoding="utf-8")
    programs = [path for path in (ROOT / "examples").glob("*.py") if "__main__" in path.read_text(encoding="utf-8")]
    files = [path.name for path in [*programs, *(ROOT / "examples").glob("*.ipynb")]]
    missing = [name for name in files if f"| [{name}](../../../examples/{name}) |" not in page]
    assert not missing, f"give {', '.join(missing)} a row in burnpy/docs/book/examples.md"


def test_the_table_of_contents_has_every_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = [page.relative_to(DOCS).as_posix() for page in PAGES if page.name not in ("README.md", "index.md")]
    missing = [page for page in pages if f"]({page})" not in index]
    assert not missing, f"add {', '.join(missing)} to burnpy/docs/index.md"


@every_row("page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "MIGRATING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)  # f[x](y) is code
    links = [(page.parent / path if path else page, part) for path, part in re.findall(LINK, prose)]
    assert [path for path, _ in links if not path.exists()] == []
    assert [(path, part) for path, part in links if part and path.suffix == ".md" and part not in parts(path)] == []


LINK = r"\]\(([^)#:]*)#?([^):]*)\)"


def parts(page: Path) -> set[str]:
    """The headings of a page, as links name them on GitHub and in the book."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL), re.M
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
