"""Equal up to rounding: what the comparisons with PyTorch mean by it."""

from __future__ import annotations

from typing import Any

import numpy as np

TOLERANCE = 1e-12


def array(x: Any) -> Any:
    """A NumPy array of a tensor of either library, with or without a graph."""
    return x.to_numpy() if hasattr(x, "to_numpy") else x.numpy(force=True)


def assert_close(ours: Any, theirs: Any, what: str = "") -> None:
    """Float64 numbers that differ by at most 1e-12 of the largest of them, or of 1; of one shape."""
    x, y = array(ours), array(theirs)
    assert x.shape == y.shape, f"{what}: shapes {x.shape} and {y.shape}"
    assert x.dtype == y.dtype, f"{what}: dtypes {x.dtype} and {y.dtype}"
    limit = TOLERANCE * max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0.0)))
    assert np.allclose(x, y, rtol=0.0, atol=limit, equal_nan=True), (
        f"{what}: ours\n{x}\nPyTorch's\n{y}\ndifference {np.abs(x - y).max():.3g}, allowed {limit:.3g}"
    )
