"""The pictures of the book, made by the code on its pages: ``python -m burnpy.docs.pictures`` writes them anew.

A page shows ``pictures/graph.svg`` where its code has assigned the text of an SVG picture to the name ``graph``.
"""

from __future__ import annotations

import re
from pathlib import Path

from burnpy.docs import programs

BOOK = Path(__file__).with_name("book")


def pictures(page: Path) -> dict[Path, str]:
    """Return the pictures that a page shows, by the file that holds them."""
    shown = re.findall(r"!\[[^\]]*\]\((pictures/(\w+)\.svg)\)", page.read_text(encoding="utf-8"))
    names = programs.run(page)[0] if shown else {}
    return {page.parent / file: f"{names[name]}\n" for file, name in shown}


if __name__ == "__main__":
    for page in sorted(BOOK.glob("*.md")):
        for path, svg in pictures(page).items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(svg, encoding="utf-8")
