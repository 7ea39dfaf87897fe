"""Pages of plain Markdown for Sphinx: the table of contents in the sidebar, and links to files outside the book.

The table is made from the lists of links in ``index.md``, so nothing is listed twice.
"""

from __future__ import annotations

import re
from typing import Any

from burnpy.docs.html import api

_PART = re.compile(r"^## (?P<title>.+)\n\n(?P<links>(?:- .*\n|  .*\n)+)", re.MULTILINE)
_LINK = re.compile(r"^- \[[^\]]*\]\(([^)]+)\.md\)", re.MULTILINE)
_OUTSIDE = re.compile(r"\]\((?=(?:\.\./){2,3}\w)")


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


def setup(app: Any) -> dict[str, bool]:
    """Change pages when they are read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
