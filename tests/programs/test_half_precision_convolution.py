"""Convolution of 16-bit floats in float32 by the kernel of products: values, infinities, and which are computed so."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from burnpy import Tensor, compiled, func
from burnpy.backend import Mixed, NumPy
from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import dtype_of
from burnpy.backend.operations.convolution import window_counts
from burnpy.nn import functional
from tests.interrupting import LONG
from tests.kernels import needs_products

pytest.importorskip("llvmlite")
from burnpy_numpy.kernels.convolution import half_precision
from burnpy_numpy.kernels.products import products

pytestmark = needs_products
D: Any = NumPy()


@pytest.fixture(autouse=True)
def all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute convolutions of all sizes by the kernel, on processors without AMX too."""
    monkeypatch.setattr(products, "_WORTH_WIDENING", 0)
    monkeypatch.setattr(half_precision, "multiplied_by", lambda stored: "numbers" if stored[0] == "float32" else "amx")
    monkeypatch.setitem(half_precision._WORTH, "amx", 0)
    for name in ("_CHANNELS", "_WINDOWS", "LEAST"):
        monkeypatch.setattr(half_precision, name, 0)


def drawn(random: Random, dtype: str, *shape: int) -> Any:
    x = np.random.default_rng(random.randrange(1 << 30)).normal(size=shape).astype(np.float32).astype(dtype_of(dtype))
    order = random.sample(range(4), 4) if random.random() < 0.3 else range(4)
    return x.transpose(order).copy().transpose(np.argsort(order))


@pytest.mark.parametrize("seed", range(LONG or 30))
def test_values_and_gradients_agree_with_float64(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(half_precision, "_BLOCK_BYTES", random.choice([1 << 20, 1 << 14, 1000]))
    groups, members, o, c = (random.choice(each) for each in ((1, 1, 1, 2, 3), (1, 2, 5), (1, 7, 40), (1, 3, 20)))
    kernel, stride, dilation = ((random.randint(1, most), random.randint(1, most)) for most in (4, 3, 3))
    padding = random.randint(0, 4), random.randint(0, 4)
    size = [
        random.randint(max(1, d * (k - 1) + 1 - 2 * p), 17) for d, k, p in zip(dilation, kernel, padding, strict=True)
    ]
    where = stride, padding, dilation
    dtype = random.choice(("bfloat16", "bfloat16", "float16"))
    x = drawn(random, dtype, members, c * groups, *size)
    weight = drawn(random, dtype, o * groups, c, *kernel)
    grad = drawn(random, dtype, members, o * groups, *window_counts(x.shape, kernel, *where))
    bias = None if random.random() < 0.5 else drawn(random, "float32", o * groups, 1, 1, 1).reshape(-1)
    x64, weight64, grad64 = (each.astype(np.float64) for each in (x, weight, grad))
    shift = 0.0 if bias is None else bias.astype(np.float64)[:, None, None]

    name, args = ("conv2d", ()) if bias is None else ("conv2d_bias", (bias,))
    out = half_precision.convolution(name, x, weight, *args, *where, groups)
    check(out, D.conv2d(x64, weight64, *where, groups) + shift, weight[0].size)
    by_x = half_precision.convolution("conv2d_input", grad, weight, x.shape, *where, groups)
    pointwise = weight[0, 0].size == 1 and padding == (0, 0) and groups == 1
    assert (by_x is None) == (stride != (1, 1) and not pointwise)
    if by_x is not None:
        check(by_x, D.conv2d_input(grad64, weight64, x.shape, *where, groups), o * weight[0, 0].size)
    by_weight = half_precision.convolution("conv2d_weight", grad, x, weight.shape, *where, groups)
    check(by_weight, D.conv2d_weight(grad64, x64, weight.shape, *where, groups), grad[:, 0].size)


def check(found: Any, expected: Any, terms: int) -> None:
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-6 * (1 + np.sqrt(terms)))


WHERE: Any = (1, 1), (1, 1), (1, 1)


@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_infinities_and_nan_stay_in_their_windows(special: float) -> None:
    """Windows that are dropped, and padding, have no part in results."""
    random = Random(0)
    x, weight, grad = (drawn(random, "bfloat16", 2, 3, *size) for size in ((5, 6), (3, 3), (5, 6)))
    weight = weight[:, :3].repeat(2, 0)[:3]
    x[0, 1, 0, 0] = special
    wide = x.astype(np.float32), weight.astype(np.float32), grad.astype(np.float32)
    expected = D.conv2d(wide[0], wide[1], *WHERE, 1)
    out = half_precision.convolution("conv2d", x, weight, *WHERE, 1)
    assert np.isfinite(out).sum() == out.size - 3 * 4
    np.testing.assert_allclose(out, expected, atol=1e-4)
    assert half_precision.convolution("conv2d_weight", grad, x, weight.shape, *WHERE, 1) is None
    weight[1, 1, 1, 1] = special
    assert half_precision.convolution("conv2d", x, weight, *WHERE, 1) is None
    assert half_precision.convolution("conv2d_input", grad, weight, x.shape, *WHERE, 1) is None


def test_mixed_computes_with_it_inside_transformations() -> None:
    """Values, gradients of both orders, batches and plans are those of rounded operands in float32."""
    random = Random(1)
    x, weight, bias = (drawn(random, "float32", *shape) for shape in ((4, 3, 7, 6), (5, 3, 3, 3), (5, 1, 1, 1)))

    def loss(x: Any, weight: Any, bias: Any) -> Any:
        return functional.conv2d(x, weight, bias.flatten(), padding=1).square().mean()

    def on(device: Any, way: Any) -> Any:
        return [each.to_numpy() for each in way(*(Tensor.from_data(a, device=device) for a in (x, weight, bias)))]

    ways = {
        "grad": func.grad(loss, argnums=(0, 1, 2)),
        "compiled": compiled(func.grad(loss, argnums=(0, 1, 2))),
        "batched": func.vmap(func.grad(lambda x, w, b: loss(x[None], w, b), argnums=(0, 1)), in_dims=(0, None, None)),
        "second order": func.grad(lambda *a: func.grad(loss, argnums=1)(*a).square().sum(), argnums=(0, 1)),
    }
    for name, way in ways.items():
        for found, expected in zip(on(Mixed(NumPy), way), on(NumPy, way), strict=True):
            scale = abs(expected).max()
            assert abs(found - expected).max() < 0.03 * scale, name


@pytest.mark.skipif(
    products.multiplied_by(("bfloat16", "bfloat16")) == "numbers", reason="the processor multiplies no bfloat16"
)
def test_mixed_takes_it_for_large_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    device: Any = device_of(Mixed[NumPy])
    random, results = Random(2), list[Any]()
    convolution = half_precision.convolution

    def counted(*args: Any) -> Any:
        results.append(convolution(*args))
        return results[-1]

    monkeypatch.setattr(half_precision, "convolution", counted)
    for channels, size in ((32, 3), (64, 1)):
        x, weight = drawn(random, "float32", 2, channels, 48, 48), drawn(random, "float32", 64, channels, size, size)
        where: Any = (1, 1), (size // 2, size // 2), (1, 1)
        out = device.conv2d(x, weight, *where, 1)
        device.conv2d_input(out, weight, x.shape, *where, 1)
        device.conv2d_weight(out, x, weight.shape, *where, 1)
    assert [each is not None for each in results] == [True] * 6


def test_small_convolutions_are_left_to_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(half_precision, "multiplied_by", lambda stored: "amx")
    random = Random(3)
    x, weight = drawn(random, "bfloat16", 1, 4, 8, 8), drawn(random, "bfloat16", 4, 4, 3, 3)
    assert half_precision.convolution("conv2d", x, weight, *WHERE, 1) is None
    assert half_precision.convolution("conv2d", x[:0], weight, *WHERE, 1) is None
