"""Sphinx's configuration of the book: ``sphinx-build -c burnpy/docs/html burnpy/docs out/docs``.

As an extension, it reads pages of plain Markdown: tables of contents, links to files, flowcharts as SVG, formulas as
MathML. The table in the sidebar is made from the lists of links in ``index.md``, so nothing is listed twice. Flowcharts
and formulas are drawn when the book is built, so that pages need no script. Boxes and arrows are laid out as
`burnpy.autodiff.to_svg` does it. Of Mermaid's language this knows nodes in brackets, solid and dotted arrows, and
labels of arrows; arrows point up, as in ``flowchart BT``.
"""

from __future__ import annotations

import re
from html import escape
from importlib import import_module
from itertools import pairwise
from textwrap import wrap
from typing import Any

from burnpy import __version__ as release
from burnpy.autodiff.tools.drawing import HEIGHT, PAD, laid_out
from burnpy.docs.html import api

project, author, copyright = "burnpy", "The burnpy authors", "the burnpy authors"  # noqa: A001  # Sphinx reads the names
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "burnpy.docs.html.api",
]
exclude_patterns = ["*.txt"]
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 4

autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
python_use_unqualified_type_names = True
napoleon_use_ivar = True  # fields as a list: their own docstrings are entries
nitpick_ignore_regex = [("py:.*", ".*")]  # types of signatures that no page documents
suppress_warnings = ["ref.python"]  # a type that two packages have, in a module that imports it for checkers alone

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"burnpy {release}"
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["book.css"]
html_math_renderer = "mathml"
copybutton_prompt_text = ">>> "

_PART = re.compile(r"^## (?P<title>.+)\n\n(?P<links>(?:- .*\n|  .*\n)+)", re.MULTILINE)
_LINK = re.compile(r"^- \[[^\]]*\]\(([^)]+)\.md\)", re.MULTILINE)
_OUTSIDE = re.compile(r"\]\((?=(?:\.\./){2,3}\w)")
_NODE = re.compile(r'^\s*(\w+)\["(.*)"\]$', re.MULTILINE)
_ARROW = re.compile(r'^\s*(\w+) (-->|-\. "(.*)" \.->) (\w+)$', re.MULTILINE)
_MARKER = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
)
_LINE = 20
"""The number of letters in a line of a box."""


def with_toctrees(text: str) -> str:
    r"""Return a page with a hidden toctree below each list of links.

    >>> print(with_toctrees("## Guide\n\n- [Data](data.md): datasets\n"))
    ## Guide
    <BLANKLINE>
    - [Data](data.md): datasets
    <BLANKLINE>
    ```{toctree}
    :hidden:
    :caption: Guide
    data
    ```
    <BLANKLINE>
    """

    def extended(part: re.Match[str]) -> str:
        made = [f"{api.FOLDER}/{name}" for name in api.contents()] if part["title"] == "Reference" else []
        pages = "\n".join([*_LINK.findall(part["links"]), *made])
        return f"{part[0]}\n```{{toctree}}\n:hidden:\n:caption: {part['title']}\n{pages}\n```\n"

    return _PART.sub(extended, text)


def _read(app: Any, name: str, source: list[str]) -> None:
    if name == app.config.root_doc:
        source[0] = with_toctrees(source[0])
    source[0] = _OUTSIDE.sub("](path:", source[0])  # files to download


def svg(source: str) -> str:
    r"""Return the drawing of a flowchart; the page's style sheet gives it colours.

    >>> print(svg('flowchart BT\n  a["<b>one</b><br>text"]\n  b["two"]\n  a --> b'))
    <svg class="flowchart" ...
    </svg>
    """
    nodes = {name: re.sub("</?b>", "", text).split("<br>") for name, text in _NODE.findall(source)}
    arrows = [(start, end, label, line != "-->") for start, line, label, end in _ARROW.findall(source)]
    order = _from_the_top(list(nodes), [(start, end) for start, end, _, dotted in arrows if not dotted])
    number = {name: k for k, name in enumerate(order)}
    ends = [sorted((number[start], number[end])) for start, end, _, _ in arrows]
    texts = [[*wrap(nodes[name][0], _LINE), *wrap(" ".join(nodes[name][1:]), _LINE)] for name in order]
    layout = laid_out(texts, [(a, b) for a, b in ends])
    width, height = f"{layout.width:.0f}", f"{layout.height:.0f}"
    parts = [f'<svg class="flowchart" viewBox="0 0 {width} {height}" style="max-width: {width}px">', _MARKER]
    for (start, end, label, dotted), route in zip(arrows, layout.routes, strict=True):
        points = route if number[start] < number[end] else route[::-1]
        path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
        for (x0, y0), (x1, y1) in pairwise(points):
            path += f"C{x0:.0f} {(y0 + y1) / 2:.0f} {x1:.0f} {(y0 + y1) / 2:.0f} {x1:.0f} {y1:.0f}"
        parts.append(f'<path d="{path}" class="{"dotted" if dotted else "arrow"}" marker-end="url(#head)"/>')
        (x0, y0), (x1, y1) = points[:2]
        parts.append(f'<text x="{(x0 + x1) / 2:.0f}" y="{(y0 + y1) / 2:.0f}">{escape(label)}</text>' if label else "")
    for lines, (x, y, across, down) in zip(texts, layout.places, strict=True):
        parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{across:.0f}" height="{down:.0f}" rx="4"/>')
        for k, line in enumerate(lines):
            baseline = y + PAD + (k + 0.75) * HEIGHT
            weight = "" if k else ' font-weight="bold"'
            parts.append(f'<text x="{x + across / 2:.0f}" y="{baseline:.0f}"{weight}>{escape(line)}</text>')
    return "\n".join([*filter(None, parts), "</svg>"])


def _from_the_top(names: list[str], arrows: list[tuple[str, str]]) -> list[str]:
    """Return the nodes so that each comes before those with an arrow to it, in the order of the source otherwise."""
    order: list[str] = []
    while len(order) < len(names):
        waiting = {start for start, end in arrows if end not in order}
        order.append(next(name for name in names if name not in order and name not in waiting))
    return order


def _inline(translator: Any, node: Any) -> None:
    _write(translator, node, "{}", as_block=False)


def _block(translator: Any, node: Any) -> None:
    _write(translator, node, '<div class="math">{}</div>', as_block=True)


def _write(translator: Any, node: Any, html: str, *, as_block: bool) -> None:
    convert = import_module("docutils.utils.math.latex2mathml").tex2mathml
    translator.body.append(html.format(convert(node.astext(), as_block=as_block)))
    raise import_module("docutils.nodes").SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Change pages when they are read, and register the directive ``mermaid`` and the renderer ``mathml``."""
    nodes, rst = import_module("docutils.nodes"), import_module("docutils.parsers.rst")

    class Flowchart(rst.Directive):  # type: ignore[misc,name-defined]  # docutils has no types
        has_content = True

        def run(self) -> list[Any]:
            return [nodes.raw("", f'<div class="wide">{svg(chr(10).join(self.content))}</div>', format="html")]

    app.connect("source-read", _read)
    app.add_directive("mermaid", Flowchart)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
