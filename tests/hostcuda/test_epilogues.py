"""Linear layers on the real CuPy: one launch where cuBLASLt can read the operands, else a product and a kernel."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy, Mixed, NumPy
from burnpy.backend.dtypes import dtype_of
from burnpy_cupy import epilogues
from tests.hostcuda import simulator

simulator.require()

ONE, TWO = ["cublasLtMatmul"], ["cublasGemmEx", "burnpy_add_bias"]
DTYPES = ("float32", "float64", "float16", "bfloat16")
Arrays = tuple[Any, Any, Any]


def drawn(dtype: str = "float32", rows: tuple[int, ...] = (6,), inputs: int = 5, outputs: int = 3) -> Arrays:
    """Inputs, a weight and a bias on the device."""
    generator = np.random.default_rng(0)
    x, weight, bias = (generator.normal(size=s) for s in ((*rows, inputs), (inputs, outputs), (outputs,)))
    return tuple(CuPy().from_numpy(a.astype(np.float32).astype(dtype_of(dtype))) for a in (x, weight, bias))


def check(x: Any, weight: Any, bias: Any, launches: list[str]) -> None:
    """Compare a layer with NumPy's, and its launches with those expected."""
    with simulator.watched() as journal:
        out = CuPy().linear(x, weight, bias)
    assert journal.launches == launches
    assert out.dtype is x.dtype
    wide = [CuPy().to_numpy(a).astype(np.float64) for a in (x, weight, bias)]
    got = CuPy().to_numpy(out).astype(np.float64)
    np.testing.assert_allclose(got, wide[0] @ wide[1] + wide[2], rtol=0.01 if x.itemsize == 2 else 1e-5, atol=1e-5)


VIEWS: dict[str, Callable[[Any, Any, Any], Arrays]] = {
    "contiguous": lambda x, weight, bias: (x, weight, bias),
    "of a transposed weight": lambda x, weight, bias: (x, weight.T.copy().T, bias),
    "of transposed inputs": lambda x, weight, bias: (x.T.copy().T, weight, bias),
    "of some columns": lambda x, weight, bias: (x[:, 1:4], weight[1:4], bias),
    "of memory that is hardly aligned": lambda x, weight, bias: (x[1:], weight, bias),
    "of a bias that is hardly aligned": lambda x, weight, bias: (x, weight[:, 1:], bias[1:]),
    "of one row": lambda x, weight, bias: (x[:1], weight, bias),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", VIEWS)
def test_it_takes_one_launch(view: str, dtype: str) -> None:
    check(*VIEWS[view](*drawn(dtype)), ONE)


def test_sequences_are_rows() -> None:
    check(*drawn(rows=(2, 3)), ONE)


def test_what_cublaslt_cannot_read_takes_two() -> None:
    x, weight, bias = drawn(outputs=4)
    check(x, weight[:, ::2].copy(), bias[::2], ["burnpy_copy", *ONE])
    check(*drawn(rows=()), TWO)
    x, weight, bias = drawn(rows=(2, 3))
    check(x.swapaxes(0, 1), weight, bias, ["cublasGemmStridedBatchedEx", "burnpy_add_bias"])


def gradients(
    dtype: str = "float32", rows: tuple[int, ...] = (6,), inputs: int = 5, outputs: int = 3
) -> tuple[Any, Any]:
    """A gradient and inputs on the device."""
    x, _, _ = drawn(dtype, rows, inputs)
    grad, _, _ = drawn(dtype, rows, outputs)
    return grad, x


def check_gradients(grad: Any, x: Any, launches: list[str], device: Any = None) -> None:
    """Compare the gradients of weight and bias with NumPy's, and their launches with those expected."""
    with simulator.watched() as journal:
        by_weight, by_bias = (device or CuPy()).linear_backward(grad, x)
    assert journal.launches == launches
    assert by_weight.dtype is by_bias.dtype is grad.dtype
    wide = [CuPy().to_numpy(a).astype(np.float64).reshape(-1, a.shape[-1]) for a in (grad, x)]
    close = 0.02 if grad.itemsize == 2 or device is not None else 1e-5
    for got, want in ((by_weight, wide[1].T @ wide[0]), (by_bias, wide[0].sum(0))):
        np.testing.assert_allclose(CuPy().to_numpy(got).astype(np.float64), want, rtol=close, atol=close)


GRADIENTS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "contiguous": lambda grad, x: (grad, x),
    "of transposed inputs": lambda grad, x: (grad, x.T.copy().T),
    "of some columns": lambda grad, x: (grad[:, 1:], x[:, 1:4]),
    "of memory that is hardly aligned": lambda grad, x: (grad[1:], x[1:]),
    "of one row": lambda grad, x: (grad[:1], x[:1]),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", GRADIENTS)
def test_gradients_by_weight_and_bias_take_one_launch(view: str, dtype: str) -> None:
    check_gradients(*GRADIENTS[view](*gradients(dtype)), ONE)


def test_gradients_sum_over_sequences() -> None:
    check_gradients(*gradients(rows=(2, 3)), ONE)
    check_gradients(*gradients(rows=()), ONE)


def test_gradients_that_cublaslt_cannot_read_take_two() -> None:
    grad, x = gradients()
    check_gradients(grad.T.copy().T, x, ["cublasGemmEx", "burnpy_sum_warp"])
    check_gradients(*gradients(rows=(0,)), [])


def test_large_products_whose_columns_fill_no_vectors_are_summed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epilogues, "_MANY_PRODUCTS", 6 * 16 * 9)
    monkeypatch.setattr(epilogues, "_plan", epilogues._plan.__wrapped__)
    check_gradients(*gradients("bfloat16", inputs=16, outputs=9), ["cublasGemmEx", "burnpy_sum_lanes"])
    check_gradients(*gradients("bfloat16", inputs=16, outputs=8), ONE)
    check_gradients(*gradients("float32", inputs=16, outputs=9), ONE)
    check_gradients(*gradients("bfloat16", inputs=15, outputs=9), ONE)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_sums_the_gradient_by_the_bias_in_float32(dtype: str) -> None:
    grad, x = gradients()
    check_gradients(grad, x, ["burnpy_each_cast_each", *ONE], Mixed(CuPy(), dtype))
    check_gradients(grad, x, ONE, Mixed(CuPy(), dtype))  # from the operands rounded before
    turned = grad.T.copy().T
    check_gradients(turned, x, ["burnpy_round_1", "cublasGemmEx", "burnpy_sum_warp"], Mixed(CuPy(), dtype))


@pytest.mark.parametrize("lacking", ["the library", "an algorithm", "the epilogue"])
def test_without_cublaslt_it_takes_two(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if lacking == "the library":
        monkeypatch.setattr(epilogues, "_library", lambda release: None)
    elif lacking == "an algorithm":
        monkeypatch.setattr(epilogues, "_WORKSPACE_BYTES", 0)  # less than the kit's algorithm needs
    else:
        monkeypatch.setattr(epilogues, "BIAS", 999)  # which is refused at the launch
        monkeypatch.setattr(epilogues, "SUM", 999)
    epilogues._plan.cache_clear()
    for _ in range(2):
        check(*drawn(), TWO)
        check_gradients(*gradients(), ["cublasGemmEx", "burnpy_sum_lanes"])
    epilogues._plan.cache_clear()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_adds_the_bias_in_float32(dtype: str) -> None:
    x, weight, bias = drawn()
    with simulator.watched() as journal:
        out = Mixed(CuPy(), dtype).linear(x, weight, bias)
    assert journal.launches == ["burnpy_each_cast_each", *ONE]
    wanted = Mixed(NumPy(), dtype).linear(*[CuPy().to_numpy(a) for a in (x, weight, bias)])
    np.testing.assert_allclose(CuPy().to_numpy(out), wanted, rtol=1e-6, atol=1e-6)


def test_tf32_is_part_of_a_plan() -> None:
    x, weight, bias = drawn()
    epilogues._plan.cache_clear()
    for enabled in (False, True, False, True):
        with CuPy.tf32(enabled):
            check(x, weight, bias, ONE)
    assert epilogues._plan.cache_info()[:2] == (2, 2)  # hits, misses


def test_threads_have_plans_of_their_own() -> None:
    """A plan holds the address of the bias for the launch to come."""
    x, weight, bias = drawn()
    epilogues._plan.cache_clear()

    def compute(k: int) -> Any:
        return [CuPy().to_numpy(CuPy().linear(x, weight, bias * k)) for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(compute, range(4)))
    for k, outs in enumerate(found):
        wanted = CuPy().to_numpy(CuPy().linear(x, weight, bias * k))
        assert all((out == wanted).all() for out in outs)
