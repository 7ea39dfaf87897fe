"""The cases of the conformance suite: one row per operation of the schema, one file per family."""

from __future__ import annotations

from burnpy.testing.cases import (
    activation,
    attention,
    binary,
    convolution,
    creation,
    dense,
    elementary,
    indexing,
    integers,
    linalg,
    normalization,
    norms,
    optimizer,
    ordering,
    pointwise,
    pooling,
    programs,
    reduction,
    resampling,
    scans,
    shape,
    special_functions,
)
from burnpy.testing.cases.properties import PROPERTIES
from burnpy.testing.cases.table import ROWS, Row

__all__ = [
    "PROPERTIES",
    "ROWS",
    "Row",
    "activation",
    "attention",
    "binary",
    "convolution",
    "creation",
    "dense",
    "elementary",
    "indexing",
    "integers",
    "linalg",
    "normalization",
    "norms",
    "optimizer",
    "ordering",
    "pointwise",
    "pooling",
    "programs",
    "reduction",
    "resampling",
    "scans",
    "shape",
    "special_functions",
]
