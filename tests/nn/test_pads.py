"""Mistakes in the settings of padding layers raise errors when the layer is made."""

from __future__ import annotations

from typing import Any

import pytest

from burnpy import Tensor
from burnpy.backend import NumPy, errors
from burnpy.nn import ConstantPad, ReflectionPad, ZeroPad, functional


@pytest.mark.parametrize("padding", [(1, 2, 3), (), 1.5, (1, 2.5), "ab", None])
def test_a_padding_is_an_int_or_pairs(padding: Any) -> None:
    with pytest.raises(errors.ArgumentError, match=r"ReflectionPad\(\) got padding="):
        ReflectionPad(padding)


@pytest.mark.parametrize("dims", [0, -1, 1.0, True, "2"])
def test_dims_are_positive(dims: Any) -> None:
    with pytest.raises(errors.ArgumentError, match=r"ConstantPad\(\) got dims="):
        ConstantPad(1, dims=dims)


def test_one_number_is_for_the_last_dims() -> None:
    x = Tensor[NumPy].ones((2, 3, 4, 5))
    assert [ZeroPad(1, dims=dims)(x).shape for dims in (1, 2, 3)] == [(2, 3, 4, 7), (2, 3, 6, 7), (2, 5, 6, 7)]
    with pytest.raises(errors.ShapeError, match="5 pairs of shape"):
        ZeroPad(1, dims=5)(x)


def test_pairs_of_numpys_kind_are_refused() -> None:
    pairs: Any = ((1, 1), (0, 0))
    with pytest.raises(
        errors.ArgumentError, match=r"pad=\(\(1, 1\), \(0, 0\)\); expected pairs in a row, .*\(left, right, top"
    ):
        functional.pad(Tensor[NumPy].ones((2, 3)), pairs)
