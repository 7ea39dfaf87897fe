"""PyTorch's habits that Python cannot refuse by a missing name: they mean the same here, or say what to write."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import DeviceError
from burnpy.distributions import bijections

functions: Any = burnpy  # mistakes that type checkers would find


@pytest.mark.parametrize(
    ("device", "way_out"),
    [("cuda", "device=CuPy,"), ("cuda:1", "device=CuPy(1),"), ("cpu", "device=NumPy,"), ("mps", "such as NumPy")],
)
def test_names_of_devices_get_the_backend_to_write(device: Any, way_out: str) -> None:
    with pytest.raises(DeviceError, match=re.escape(way_out)):
        Tensor.zeros(2, device=device)


def test_a_name_that_numpy_reads_otherwise_is_the_dtype_of_python_and_pytorch() -> None:
    x = Tensor[NumPy].ones(2)
    assert x.to_dtype("float").dtype == x.to_dtype(float).dtype == np.float32
    assert x.to_dtype(np.dtype(float)).dtype == x.to_dtype("double").dtype == np.float64
    assert IntTensor[NumPy].ones(2).to_dtype("int").dtype == np.int64


def test_the_method_grad_is_called_and_inspected_as_any_other() -> None:
    x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    grads = (x * x).sum().backward()
    for gradient in (x.grad(grads), x.grad(grads=grads), Tensor.grad(x, grads)):
        assert gradient is not None
        assert gradient.tolist() == [2.0, 4.0]
    assert list(inspect.signature(x.grad).parameters) == ["grads"]
    assert "x.grad(grads)" in repr(x.grad)
    assert not hasattr(x.grad, "norm")


def test_packages_list_their_public_names() -> None:
    packages = [import_module(f"burnpy.{name}") for name in functions._PACKAGES.split()]
    for module in (burnpy, *packages, burnpy.nn.functional, burnpy.nn.init, bijections):
        assert not {"Any", "annotations", "attached", "missing", "cache", "math", "np", "a"} & {*dir(module)}, module
        assert {*getattr(module, "__all__", ())} <= {*dir(module)}
    assert callable(burnpy.func.grad)
    with pytest.raises(AttributeError, match=r"burnpy\.func\.grad\(f\)"):
        functions.grad
