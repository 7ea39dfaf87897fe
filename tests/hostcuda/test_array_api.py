"""The array API namespace of tensors on a GPU: new arrays are made there, and functions and gradients as on the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy import array_api as on_cpu
from burnpy.backend import CuPy, NumPy
from burnpy.errors import ArgumentError
from tests.hostcuda import simulator

simulator.require()

cupy: Any = import_module("cupy")


def test_arrays_are_made_on_the_gpu() -> None:
    x = Tensor[CuPy].from_data([1.0, 2.0])
    xp = x.__array_namespace__()
    made = [xp.zeros(2), xp.asarray([1.0]), xp.arange(2), xp.eye(2), xp.linspace(0, 1, 3), xp.full((), x[0])]
    made.append(xp.asarray(cupy.ones(2)))
    assert {each.device for each in made} == {CuPy()} == {*xp.__array_namespace_info__().devices()}
    assert xp.asarray(x, device=NumPy).device is NumPy()
    with pytest.raises(ArgumentError, match="those on a GPU with device=CuPy"):
        on_cpu.asarray(cupy.ones(2))
    assert on_cpu.asarray(cupy.ones(2), device=CuPy).device is CuPy()
    assert xp.isdtype(xp.asarray(cupy.ones(2, dtype="int8")).dtype, "integral")


def test_functions_agree_with_the_cpu() -> None:
    def f(x: Any) -> Any:
        xp = x.__array_namespace__()
        scale = xp.std(x, axis=0, correction=1) + xp.asarray([1.0, 2.0, 3.0])
        return xp.sum(xp.cumulative_sum(x / scale, axis=0) * xp.where(x > 0, xp.exp(-x), 2.0), axis=-1)

    values = np.random.default_rng(0).normal(size=(4, 3))
    outs: list[Any] = []
    slopes: list[Any] = []
    trains: Any = (Autodiff[NumPy], Autodiff[CuPy])
    for train in trains:
        x: Any = Tensor.from_data(values, device=train).require_grad()
        out = f(x)
        outs.append(out.to_numpy())
        slopes.append(out.sum().backward()[x].to_numpy())
    np.testing.assert_allclose(outs[1], outs[0], 1e-12)
    np.testing.assert_allclose(slopes[1], slopes[0], 1e-10)
