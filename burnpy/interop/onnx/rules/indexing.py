"""Rules of operations at indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.interop.onnx.rules.rule import GraphWriter, Operand, common_dtype, only


def index_select(g: GraphWriter, x: Operand, dim: int, index: Operand) -> Any:
    """Write a Gather."""
    return g.node("Gather", x, index, axis=dim)


def embedding(g: GraphWriter, weight: Operand, index: Operand, padding: int | None) -> Any:
    """Write a Gather of rows."""
    return g.node("Gather", weight, index, axis=0)


def gather(g: GraphWriter, x: Operand, dim: int, index: Operand) -> Any:
    """Write a GatherElements."""
    return g.node("GatherElements", x, index, axis=dim)


def element_update(reduction: str) -> Callable[..., Any]:
    """Return the rule of an update of elements at an index."""

    def rule(g: GraphWriter, x: Operand, dim: int, index: Operand, src: Operand) -> Any:
        dtype = common_dtype(x, src)
        values = g.node("Slice", g.cast(src, dtype), *_inside(g, index))
        return g.node("ScatterElements", g.cast(x, dtype), index, values, axis=dim, reduction=reduction)

    return rule


def _inside(g: GraphWriter, index: Operand) -> tuple[str, ...]:
    """Return the inputs of a Slice to an index's shape: src may be larger."""
    axes = list(range(len(index.shape)))
    return g.sizes([0] * len(axes)), g.node("Shape", index), g.sizes(axes)


scatter, scatter_add = element_update("none"), element_update("add")


def index_update(reduction: str) -> Callable[..., Any]:
    """Return the rule of an update of the slices at a 1-d index."""

    def rule(g: GraphWriter, x: Operand, dim: int, index: Operand, src: Operand) -> Any:
        dtype = common_dtype(x, src)
        column = g.node("Unsqueeze", index, g.sizes([k for k in range(len(src.shape)) if k != dim]))
        places = g.node("Expand", column, g.node("Shape", src))
        return g.node("ScatterElements", g.cast(x, dtype), places, g.cast(src, dtype), axis=dim, reduction=reduction)

    return rule


index_put, index_add = index_update("none"), index_update("add")


@only(when=lambda *args: len(args) == 1 or args[4] is None)
def unchecked(g: GraphWriter, index: Operand, *rest: Any) -> Any:
    """Return an index as it is: the operators that use it check it."""
    return index
