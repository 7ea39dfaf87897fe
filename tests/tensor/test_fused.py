"""Composed elementwise functions give the same numbers as one program and step by step, and are one where nothing is
recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy, Profiled
from burnpy.nn import functional

Train = Autodiff[NumPy]
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "lerp from the start": lambda x, y: x.lerp(y, 0.3),
    "lerp from the end": lambda x, y: x.lerp(y, 0.7),
    "nansum": lambda x, y: x.nansum(dim=1) + y.nansum(dim=1),
    "smooth_l1_loss": lambda x, y: functional.smooth_l1_loss(x, y, reduction="none"),
    "smooth_l1_loss, beta": lambda x, y: functional.smooth_l1_loss(x, y, beta=0.3, reduction="none"),
    "huber_loss": lambda x, y: functional.huber_loss(x, y, delta=0.7, reduction="none"),
}


def pair(dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(40, 70)).astype(dtype) for _ in range(2))
    x[3, 5:9] = np.nan, np.inf, -np.inf, -0.0
    return x, y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_large_tensors_agree_with_their_rows_and_with_tracked_ones(name: str, dtype: str) -> None:
    f, arrays = FUNCTIONS[name], pair(dtype)
    x, y = (Tensor[NumPy].from_data(a) for a in arrays)
    found = f(x, y).to_numpy()
    rows = [f(x[k : k + 1], y[k : k + 1]).to_numpy() for k in range(len(arrays[0]))]
    tracked = f(*(Tensor[Train].from_data(a).require_grad() for a in arrays)).to_numpy()
    bound = 1e-6 if dtype == "float32" else 1e-14
    for wanted in (np.concatenate(rows), tracked):
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=10 * bound)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_run_as_programs_where_nothing_is_recorded(name: str) -> None:
    with Profiled.record() as profile:
        FUNCTIONS[name](*(Tensor[Profiled[NumPy]].from_data(a) for a in pair("float32")))
    assert "run" in {row.operation for row in profile.by_operation()}
    with Profiled.record() as profile:
        FUNCTIONS[name](*(Tensor[Autodiff[Profiled[NumPy]]].from_data(a).require_grad() for a in pair("float32")))
    assert "run" not in {row.operation for row in profile.by_operation()}


def test_small_tensors_and_other_dtypes_do_without() -> None:
    x, y = (Tensor[Profiled[NumPy]].from_data(a) for a in pair("float32"))
    with Profiled.record() as profile:
        x[:10].lerp(y[:10], 0.3)
        x.to_dtype("float16").lerp(y.to_dtype("float16"), 0.3)
        x.lerp(y[0], 0.3)
    assert "run" not in {row.operation for row in profile.by_operation()}
