"""The cases of the conformance suite: one row per operation of the schema, one file per family."""

from __future__ import annotations

from burnpy.testing.cases import (
    activation,
    attention,
    convolution,
    creation,
    dense,
    distances,
    elementary,
    foreach,
    fourier,
    indexing,
    linalg,
    normalization,
    ordering,
    pointwise,
    pooling,
    programs,
    recurrence,
    reduction,
    resampling,
    scans,
    shape,
    special,
)
from burnpy.testing.cases.creation import PROPERTIES
from burnpy.testing.cases.table import ROWS, Row

__all__ = [
    "PROPERTIES",
    "ROWS",
    "Row",
    "activation",
    "attention",
    "convolution",
    "creation",
    "dense",
    "distances",
    "elementary",
    "foreach",
    "fourier",
    "indexing",
    "linalg",
    "normalization",
    "ordering",
    "pointwise",
    "pooling",
    "programs",
    "recurrence",
    "reduction",
    "resampling",
    "scans",
    "shape",
    "special",
]
