"""Runs and progress in a notebook: a display below the cell that changes, of HTML with inline SVG, without widgets."""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import Any

from burnpy.backend import html
from burnpy.train.displays.charts import charts
from burnpy.train.displays.display import History
from burnpy.train.events import Event, FitEnd

DRAW_EVERY = 0.5
"""Seconds between two drawings."""


class Output:
    """A display below the cell, whose content is replaced at most twice a second."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._drawn = -DRAW_EVERY

    def show(self, content: Callable[[], tuple[str, str]], at_once: bool = False) -> None:
        """Show the content, HTML and its equivalent as text, unless some was shown a moment ago and it can wait."""
        now = time.perf_counter()
        if not at_once and now - self._drawn < DRAW_EVERY:
            return
        self._drawn = now
        shown, text = content()
        bundle = {"text/html": shown, "text/plain": text}
        if self._handle is None:
            self._handle = import_module("IPython.display").display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def bar(title: str, done: int, total: int | None, note: str = "") -> str:
    """Return a progress bar as HTML; without a total, a number."""
    drawn = f'<progress value="{done}" max="{total}" style="flex:1;max-width:30em"></progress>' if total else ""
    count = f"{done}/{total}" if total else f"{done}"
    return (
        f'<div style="display:flex;gap:.6em;align-items:center"><span style="min-width:4em">{escape(title)}</span>'
        f'{drawn}<span style="{html.FAINT}">{escape(", ".join(filter(None, (count, note))))}</span></div>'
    )


class Notebook:
    """Draws bars of epochs and batches, a table of the last and best values, and their curves."""

    def __init__(self) -> None:
        self.history = History()
        self._output = Output()

    def log(self, event: Event[Any]) -> None:
        """Take note of an event, and draw; the last one is drawn in any case."""
        self.history.note(event)
        self._output.show(self._content, at_once=isinstance(event, FitEnd))

    def close(self) -> None:
        """Draw what is known of a run that an error ended."""
        if self.history.ended is None:
            self._output.show(self._content, at_once=True)

    def _content(self) -> tuple[str, str]:
        now = self.history
        facts, rows = now.facts(), now.rows()
        curves = {name: [*zip(now.steps[name], series, strict=True)] for name, series in now.values.items()}
        drawn = html.block(
            bar("epochs", now.epoch, now.epochs),
            "" if now.ended else bar("batch", now.batch, now.batches),
            f'<div style="{html.FAINT}">{escape(" · ".join(facts))}</div>',
            html.table(["", "last", "best"], rows) if rows else "",
            charts({"batch loss": now.read, **curves}),
        )
        values = ", ".join(f"{name} {last}" for name, last, _ in rows)
        return drawn, f"epochs {now.epoch}/{now.epochs} · {' · '.join(facts)}: {values}".removesuffix(": ")
