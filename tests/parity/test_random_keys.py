"""``x[key]`` with random keys as PyTorch reads them, where ints place no dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import BurnpyError
from tests.tensor.index_keys import shapes_and_keys

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")


def theirs(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(theirs(item) for item in key)
    return torch.tensor(key) if isinstance(key, (np.ndarray, list)) else key  # a bare list is a tuple there, if nested


@settings(max_examples=150)
@given(shapes_and_keys(backward=False))
def test_it_agrees(drawn: tuple[tuple[int, ...], Any]) -> None:
    shape, key = drawn
    a = np.arange(float(np.prod(shape))).reshape(shape)
    x = Tensor[NumPy].from_data(a)
    try:
        wanted = torch.tensor(a)[theirs(key)].numpy()
    except IndexError:
        with pytest.raises(BurnpyError):
            x[key]
        return
    found = x[key].to_numpy()
    assert found.shape == wanted.shape
    assert np.array_equal(found, wanted)
