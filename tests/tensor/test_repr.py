"""How tensors are shown."""

from __future__ import annotations

from typing import Any

import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import ShapeError

Train = Autodiff[NumPy]


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (Tensor[NumPy].from_data([1.0, 2.5]), "Tensor([1. , 2.5], shape=(2,), dtype=float32, device=NumPy)"),
        (Tensor[NumPy].from_data(1.5), "Tensor(1.5, shape=(), dtype=float32, device=NumPy)"),
        (Tensor[NumPy].ones((2,)).sum(), "Tensor(2., shape=(), dtype=float32, device=NumPy)"),
        (Tensor[NumPy].zeros((0, 3)), "Tensor([], shape=(0, 3), dtype=float32, device=NumPy)"),
        (Tensor[NumPy].ones((2,), dtype="bfloat16"), "Tensor([1., 1.], shape=(2,), dtype=bfloat16, device=NumPy)"),
        (Tensor[NumPy].ones((), dtype="bfloat16"), "Tensor(1., shape=(), dtype=bfloat16, device=NumPy)"),
        (IntTensor[Train].arange(2), "IntTensor([0, 1], shape=(2,), dtype=int64, device=Autodiff[NumPy])"),
        (BoolTensor[NumPy].ones((1,)), "BoolTensor([ True], shape=(1,), dtype=bool, device=NumPy)"),
        (Tensor[Train].ones((1,)), "Tensor([1.], shape=(1,), dtype=float32, device=Autodiff[NumPy])"),
        (
            Tensor[Train].ones((1,)).require_grad(),
            "Tensor([1.], shape=(1,), dtype=float32, device=Autodiff[NumPy], tracked)",
        ),
        (
            Tensor[NumPy].eye(2),
            "Tensor([[1., 0.],\n        [0., 1.]],\n       shape=(2, 2), dtype=float32, device=NumPy)",
        ),
    ],
)
def test_repr(x: Any, shown: str) -> None:
    assert repr(x) == str(x) == f"{x}" == shown


def test_large_tensors_are_summarised() -> None:
    shown = repr(Tensor[NumPy].zeros((1000, 1000)))
    assert "..." in shown
    assert len(shown) < 1000
    assert "..." in repr(Tensor[NumPy].ones((2000,), dtype="bfloat16"))


def test_format() -> None:
    assert f"{Tensor[Train].full((), 0.12345).require_grad():.3f}" == "0.123"
    assert f"{IntTensor[NumPy].from_data([7]):03d}" == "007"
    with pytest.raises(ShapeError, match=r"shape \(2,\)"):
        format(Tensor[NumPy].zeros((2,)), ".3f")
