"""Formulas as MathML, which browsers draw by themselves, converted by docutils: no script and no network."""

from __future__ import annotations

from typing import Any


def _inline(translator: Any, node: Any) -> None:
    _write(translator, node, "{}", as_block=False)


def _block(translator: Any, node: Any) -> None:
    _write(translator, node, '<div class="math">{}</div>', as_block=True)


def _write(translator: Any, node: Any, html: str, *, as_block: bool) -> None:
    from docutils.nodes import SkipNode
    from docutils.utils.math.latex2mathml import tex2mathml

    translator.body.append(html.format(tex2mathml(node.astext(), as_block=as_block)))
    raise SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
