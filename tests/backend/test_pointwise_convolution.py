"""Convolutions with windows of one element are sums over channels, at every stride and on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy_numpy import convolution
from burnpy_numpy import cpu_threads as threads
from tests.rows import every_row

D = NumPy()
RNG = np.random.default_rng(0)
SHAPES = [(2, 3, 5, 4), (1, 16, 7, 7), (5, 13, 1, 1), (3, 1, 2, 9)]


def normal(*shape: int, dtype: str) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


@every_row("stride", [(1, 1), (2, 1), (2, 3)])
@every_row("dtype", ["float32", "float64"])
@every_row("shape", SHAPES)
def test_it_is_a_sum_over_channels(shape: Any, dtype: str, stride: Any) -> None:
    x, weight, bias = normal(*shape, dtype=dtype), normal(6, shape[1], 1, 1, dtype=dtype), normal(6, dtype=dtype)
    options = (stride, (0, 0), (1, 1), 1)
    taken = x[:, :, :: stride[0], :: stride[1]]
    wanted = np.einsum("nchw,oc->nohw", taken, weight[:, :, 0, 0])
    grad = normal(*wanted.shape, dtype=dtype)
    by_x = np.zeros_like(x)
    by_x[:, :, :: stride[0], :: stride[1]] = np.einsum("nohw,oc->nchw", grad, weight[:, :, 0, 0])
    by_weight = np.einsum("nohw,nchw->oc", grad, taken)[:, :, None, None]
    rough = 1e-5 if dtype == "float32" else 1e-12
    for found, exact in (
        (D.conv2d(x, weight, *options), wanted),
        (D.conv2d_bias(x.swapaxes(2, 3).copy().swapaxes(2, 3), weight, bias, *options), wanted + bias[:, None, None]),
        (D.conv2d_input(grad, weight, x.shape, *options), by_x),
        (D.conv2d_weight(grad, x, weight.shape, *options), by_weight),
    ):
        assert (found.dtype, found.shape) == (np.dtype(dtype), exact.shape)
        np.testing.assert_allclose(found, exact, rtol=rough, atol=rough)


def test_parts_of_the_batch_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = normal(5, 8, 6, 6, dtype="float32"), normal(4, 8, 1, 1, dtype="float32")
    grad = D.conv2d(x, weight, (1, 1), (0, 0), (1, 1), 1)

    def results() -> list[Any]:
        where = ((1, 1), (0, 0), (1, 1), 1)
        by_x = D.conv2d_input(grad, weight, x.shape, *where)
        return [D.conv2d(x, weight, *where), by_x, D.conv2d_weight(grad, x, weight.shape, *where)]

    whole = results()

    def in_parts(work: threads.Work, size: int, each: float, *, products: bool) -> None:
        assert products
        for part in reversed(range(size)):
            work(part, part + 1)

    monkeypatch.setattr(convolution, "shared", in_parts)
    for found, wanted in zip(results(), whole, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
