"""Models and comparisons that the tests of records share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from burnpy import Autodiff
from burnpy.backend import NumPy
from burnpy.nn import BatchNorm, Linear, Relu, Sequential

FIXTURES = Path(__file__).parent / "fixtures"
Train = Autodiff[NumPy]


def mlp(hidden: int = 4, device: Any = Train) -> Sequential[Any]:
    """A small model with parameters and buffers of both kinds."""
    return Sequential(
        Linear(3, hidden, device=device), BatchNorm(hidden, device=device), Relu(), Linear(hidden, 2, device=device)
    )


def same(a: Any, b: Any) -> bool:
    """Whether two models have the same ids, dtypes and bits."""
    x, y = a.into_record(), b.into_record()
    return list(x) == list(y) and all(
        x[path].id == y[path].id
        and x[path].value.dtype == y[path].value.dtype
        and np.array_equal(x[path].value, y[path].value)
        for path in x
    )
