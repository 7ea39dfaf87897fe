"""The book as HTML: a small one, built as strictly as the whole, has what Sphinx does not make by itself."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from burnpy.docs import generated
from burnpy.docs.html import api

pytestmark = [
    pytest.mark.slow,
    pytest.mark.heavy("sphinx", "myst_parser", "furo", "sphinx_copybutton"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning"),  # of Sphinx itself
]

DOCS = generated.OPERATIONS.parent
INDEX = """\
# A book

## Guide

- [Packages](packages.md): a flowchart

## Reference

- [Elsewhere](packages.md#a-formula)
"""
PAGE = """\
# Packages

[The contents](index.md) and [a file](../../README.md).

```mermaid
flowchart BT
    low["<b>low</b><br>what is imported"]
    high["<b>high</b>"]
    high --> low
    low -. "later" .-> high
```

## A formula

With $x^2$.
"""


def build(source: Path, out: Path) -> str:
    """Build a book strictly; return what Sphinx complains about."""
    command = ["--fail-on-warning", "--nitpicky", "--quiet", "-c", str(DOCS / "html"), "-w", str(out / "warnings")]
    out.mkdir()
    code = import_module("sphinx.cmd.build").main([*command, str(source), str(out)])
    warnings = (out / "warnings").read_text(encoding="utf-8")
    assert bool(code) == bool(warnings)
    return warnings


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a book of two pages, two packages and two methods of tensors."""
    source = tmp_path_factory.mktemp("a") / "b" / "docs"
    source.mkdir(parents=True)
    (source / "index.md").write_text(INDEX)
    (source / "packages.md").write_text(PAGE)
    (source.parents[1] / "README.md").write_text("# A file\n")
    methods = {name: found for name, found in api.tensor_methods().items() if name in ("sqrt", "mv")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generated, "PACKAGES", (".metrics", ".linalg"))
        patch.setattr(api, "tensor_methods", lambda: methods)
        assert build(source, source.parent / "html") == ""
    return source.parent / "html"


def text(page: Path) -> str:
    """Return the text of a page without tags and line breaks."""
    return " ".join(re.sub("<[^>]*>", "", page.read_text(encoding="utf-8")).replace("&gt;", ">").split())


def test_a_flowchart_is_a_picture(book: Path) -> None:
    page = (book / "packages.html").read_text(encoding="utf-8")
    assert page.count("<rect") == 2
    assert re.findall(r'class="(arrow|dotted)"', page) == ["arrow", "dotted"]
    assert ">what is imported</text>" in page


def test_a_formula_needs_no_script(book: Path) -> None:
    formula = re.findall(r"<msup>.*?</msup>", (book / "packages.html").read_text(encoding="utf-8"), re.DOTALL)
    assert ["".join(each.split()) for each in formula] == ["<msup><mi>x</mi><mn>2</mn></msup>"]


def test_the_contents_have_the_pages_and_the_reference(book: Path) -> None:
    contents = (book / "packages.html").read_text(encoding="utf-8")
    for page in ("index.html", "api/tensor.html", "api/tensor_linear_algebra.html", "api/burnpy.linalg.html"):
        assert f'href="{page}"' in contents
        assert (book / page).exists()


def test_an_operation_has_an_example_its_names_elsewhere_and_its_gradient(book: Path) -> None:
    page = text(book / "api/tensor_elementwise_functions.html")
    assert ">>> x.sqrt()" in page or ">>> p.sqrt()" in page
    assert "PyTorch: x.sqrt, torch.sqrt NumPy: np.sqrt Gradient at kinks: sqrt, log at 0" in page
    assert "PyTorch: torch.linalg.svdvals NumPy: np.linalg.svdvals" in text(book / "api/burnpy.linalg.html")


def test_types_are_links(book: Path) -> None:
    page = (book / "api/burnpy.metrics.html").read_text(encoding="utf-8")
    assert re.search(r'<a class="reference internal" href="#burnpy.metrics.Metric"', page)


def test_a_broken_link_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A book\n\n[A page](missing.md)\n")
    monkeypatch.setattr(api, "pages", dict)
    assert "missing.md" in build(tmp_path / "docs", tmp_path / "html")


@pytest.mark.long
def test_the_book_is_built_without_a_warning(tmp_path: Path) -> None:
    assert build(DOCS, tmp_path / "html") == ""
