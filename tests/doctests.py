"""A plugin of pytest: the names that every doctest may use without importing them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, Generator, IntTensor, Tensor
from burnpy.backend import NumPy

NAMES: dict[str, Any] = {
    "Autodiff": Autodiff,
    "BoolTensor": BoolTensor,
    "Generator": Generator,
    "IntTensor": IntTensor,
    "NumPy": NumPy,
    "Tensor": Tensor,
    "np": np,
}


@pytest.fixture(autouse=True, scope="session")
def names(doctest_namespace: dict[str, Any]) -> None:
    """Give doctests the names."""
    doctest_namespace.update(NAMES)
