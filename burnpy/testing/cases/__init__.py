"""The cases of the conformance suite: a row for each operation of the schema, a file for each family."""

from __future__ import annotations

from burnpy.testing.cases import (
    activation,
    attention,
    convolution,
    creation,
    dense,
    indexing,
    normalization,
    optimizer,
    pointwise,
    pooling,
    reduction,
    shape,
)
from burnpy.testing.cases.properties import PROPERTIES
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
    "indexing",
    "normalization",
    "optimizer",
    "pointwise",
    "pooling",
    "reduction",
    "shape",
]
