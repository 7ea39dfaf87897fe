"""The cases of the conformance suite: one row per operation of the schema, in a file for each family or several."""

from __future__ import annotations

from burnpy.testing.cases import (
    convolution_and_pooling,
    elementwise,
    fourier,
    indexing,
    linalg,
    losses_and_normalization,
    ordering,
    products,
    programs,
    random,
    recurrent,
    reduction,
    resampling,
    shape,
    special,
)
from burnpy.testing.cases.shape import PROPERTIES
from burnpy.testing.cases.table import ROWS, Row

__all__ = [
    "PROPERTIES",
    "ROWS",
    "Row",
    "convolution_and_pooling",
    "elementwise",
    "fourier",
    "indexing",
    "linalg",
    "losses_and_normalization",
    "ordering",
    "products",
    "programs",
    "random",
    "recurrent",
    "reduction",
    "resampling",
    "shape",
    "special",
]
