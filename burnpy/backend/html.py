"""Blocks of the HTML that notebooks show: headlines, tables, and parts that fold.

Colors are inherited, so that the blocks are legible in light and dark themes. Styles are inline, as some viewers drop
style sheets, and one could change other outputs of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

FAINT = "opacity:.65"
"""The style of text of less importance."""


def block(*parts: str) -> str:
    """Return the whole of one object, which scrolls where it is wider than its page."""
    return f'<div style="overflow-x:auto;max-width:100%">{"".join(parts)}</div>'


def headline(name: str, *facts: object) -> str:
    """Return a line with a name and facts.

    >>> headline("Tensor", "(2,)", "float<32>")
    '<div><b>Tensor</b> <span style="opacity:.65">(2,) · float&lt;32&gt;</span></div>'
    """
    shown = " · ".join(escape(str(fact)) for fact in facts)
    return f'<div><b>{escape(name)}</b> <span style="{FAINT}">{shown}</span></div>'


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1, most: int = 100) -> str:
    """Return a table of texts, with the first ``most`` rows; a line tells the number of the others. The first ``left``
    columns are left-aligned, the others right-aligned, as in the table of `burnpy.backend.device_memory`."""
    body = [list(row) for row in rows]
    lines = [_row("th", headers, left), *(_row("td", row, left) for row in body[:most])]
    rest = f'<div style="{FAINT}">and {len(body) - most} more</div>' if len(body) > most else ""
    return f'<table style="border-collapse:collapse;margin:.3em 0">{"".join(lines)}</table>{rest}'


def _row(tag: str, cells: Sequence[str], left: int) -> str:
    shown = [
        f'<{tag} style="text-align:{"left" if k < left else "right"};padding:.1em .8em .1em 0;'
        f'white-space:pre;font-variant-numeric:tabular-nums">{escape(cell)}</{tag}>'
        for k, cell in enumerate(cells)
    ]
    return f"<tr>{''.join(shown)}</tr>"


def folded(title: str, body: str, unfolded: bool = False) -> str:
    """Return a part that folds under its title, which is HTML."""
    opened = ' open=""' if unfolded else ""
    return f"<details{opened}><summary>{title}</summary>{body}</details>"


def indented(*parts: str) -> str:
    """Return parts with space on their left."""
    return f'<div style="margin-left:1.4em">{"".join(parts)}</div>'


def code(text: str) -> str:
    """Return text of fixed width, with its spaces and line breaks."""
    return f'<pre style="margin:.3em 0;background:transparent;color:inherit">{escape(text)}</pre>'
