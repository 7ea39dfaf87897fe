"""The model that several tests of modules use."""

from __future__ import annotations

from typing import Any

import pytest

from burnpy import Autodiff
from burnpy.backend import NumPy
from tests.nn.full_model import Model

Train = Autodiff[NumPy]


@pytest.fixture
def model() -> Any:
    return Model(Train)
