"""The differentiation rules of all operations, one file for each family; the table is ``RULES``."""

from __future__ import annotations

from burnpy.autodiff.rules import (
    activation,
    attention,
    binary,
    convolution,
    dense,
    distances,
    elementary,
    indexing,
    linalg,
    linear_equations,
    normalization,
    norms,
    pointwise,
    pooling,
    recurrence,
    reduction,
    resampling,
    scans,
    shape,
    special_functions,
)
from burnpy.autodiff.rules.algebra import RULES, Rule

__all__ = [
    "RULES",
    "Rule",
    "activation",
    "attention",
    "binary",
    "convolution",
    "dense",
    "distances",
    "elementary",
    "indexing",
    "linalg",
    "linear_equations",
    "normalization",
    "norms",
    "pointwise",
    "pooling",
    "recurrence",
    "reduction",
    "resampling",
    "scans",
    "shape",
    "special_functions",
]
