"""The differentiation rules of all operations, one file for each family; the table is ``RULES``."""

from __future__ import annotations

from burnpy.autodiff.rules import (
    attention,
    convolution,
    dense,
    indexing,
    normalization,
    pointwise,
    pooling,
    reduction,
    scans,
    shape,
)
from burnpy.autodiff.rules.algebra import RULES, Rule

__all__ = [
    "RULES",
    "Rule",
    "attention",
    "convolution",
    "dense",
    "indexing",
    "normalization",
    "pointwise",
    "pooling",
    "reduction",
    "scans",
    "shape",
]
