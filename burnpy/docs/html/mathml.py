"""Formulas as MathML, which browsers draw by themselves, converted by docutils: no script and no network."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _inline(translator: Any, node: Any) -> None:
    _write(translator, node, "{}", as_block=False)


def _block(translator: Any, node: Any) -> None:
    _write(translator, node, '<div class="math">{}</div>', as_block=True)


def _write(translator: Any, node: Any, html: str, *, as_block: bool) -> None:
    convert = import_module("docutils.utils.math.latex2mathml").tex2mathml
    translator.body.append(html.format(convert(node.astext(), as_block=as_block)))
    raise import_module("docutils.nodes").SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
