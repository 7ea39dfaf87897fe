"""The kernel of the gradient of max pooling gives each window's gradient to its first NaN or else first maximum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy

pytest.importorskip("llvmlite")

from burnpy_numpy.kernels import pooling_by_vectors
from tests.programs.switched import one_by_one
from tests.programs.test_pooling import ties

D: Any = NumPy()
WINDOWS: dict[str, tuple[tuple[int, int], ...]] = {
    "of ResNet": ((3, 3), (2, 2), (1, 1), (1, 1)),
    "at each element": ((3, 3), (1, 1), (1, 1), (1, 1)),
    "without padding": ((3, 3), (2, 2), (0, 0), (1, 1)),
    "of two strides": ((2, 4), (3, 1), (1, 2), (1, 1)),
    "far apart": ((2, 2), (5, 3), (0, 1), (1, 1)),
    "dilated": ((3, 2), (2, 3), (1, 1), (2, 5)),
    "dilated by the stride": ((2, 3), (2, 2), (0, 2), (2, 2)),
    "wide": ((1, 7), (1, 4), (0, 3), (1, 1)),
    "high": ((7, 1), (4, 1), (3, 0), (1, 1)),
}
SIZES = [(5, 3), (7, 8), (9, 33), (8, 70)]


def normal(shape: Any, dtype: Any) -> Any:
    rng: Any = np.random.default_rng(0)
    return rng.standard_normal(shape).astype(dtype)


def expected(grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """The gradient, one window after the other."""
    total: Any = np.zeros_like(x)
    for place in np.ndindex(*grad.shape):
        rows, columns = (
            [p for k in range(kernel[n]) if 0 <= (p := place[2 + n] * stride[n] - padding[n] + k * dilation[n]) < size]
            for n, size in enumerate(x.shape[2:])
        )
        elements = [(*place[:2], row, column) for row in rows for column in columns]
        values: Any = np.array([x[e] for e in elements])
        if len(values):
            total[elements[np.argmax(values)]] += grad[place]  # the first NaN or else first maximum
    return total


@pytest.mark.slowest
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("case", WINDOWS)
def test_gradients_go_to_the_first_maximum_or_nan(case: str, ceil_mode: bool, noted: list[Any]) -> None:
    windows, ran = WINDOWS[case], 0
    for size in SIZES:
        for x in (ties((2, 3, *size)).astype("float32"), normal((2, 3, *size), "float64")):
            try:
                out = D.max_pool2d(x, *windows, ceil_mode)
            except ValueError:  # the windows are larger than x
                continue
            if not out.size:
                continue
            noted.clear()
            grad = normal(out.shape, x.dtype)
            found = D.max_pool2d_backward(grad, x, out, *windows)
            assert [k.program.name for k in noted] == ["max_pool_backward"]
            np.testing.assert_array_equal(found, expected(grad, x, *windows))
            view = np.asfortranarray(x[..., ::-1])[..., ::-1]
            np.testing.assert_array_equal(D.max_pool2d_backward(grad, view, out, *windows), found)
            ran += 1
    assert ran >= 4


def test_windows_far_apart_need_no_kernel(noted: list[Any]) -> None:
    windows: tuple[tuple[int, int], ...] = (2, 2), (9, 2), (1, 1), (1, 1)
    x = ties((2, 2, 30, 12)).astype("float32")
    out = D.max_pool2d(x, *windows, False)
    noted.clear()
    grad = normal(out.shape, "float32")
    np.testing.assert_allclose(D.max_pool2d_backward(grad, x, out, *windows), expected(grad, x, *windows), rtol=1e-6)
    assert not noted


def test_results_do_not_depend_on_how_planes_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, x = WINDOWS["of ResNet"], ties((5, 4, 13, 19)).astype("float32")
    out = D.max_pool2d(x, *windows, False)
    grad = normal(out.shape, "float32")
    wanted = D.max_pool2d_backward(grad, x, out, *windows)
    ranges = one_by_one(monkeypatch)
    for blocks in (3, 100):
        monkeypatch.setattr(pooling_by_vectors, "_BLOCKS", blocks)
        np.testing.assert_array_equal(D.max_pool2d_backward(grad, x, out, *windows), wanted)
    assert ranges == [3, 20]
