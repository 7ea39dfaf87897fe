"""Convolution and pooling on the real CuPy: how many launches they take, in blocks and in 64-bit indices, and ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy, Mixed, NumPy
from burnpy.backend.dtypes import dtype_of, float32
from burnpy_cupy.kernels import elementwise
from burnpy_cupy.kernels.convolution import CONVOLUTION
from burnpy_cupy.kernels.library import Kernels
from burnpy_cupy.kernels.matmul import MATMUL
from tests.hostcuda import simulator

simulator.require()

GEMM, BATCHED = "cublasGemmEx", "cublasGemmStridedBatchedEx"
WHERE = ((2, 1), (1, 2), (1, 2))


def drawn(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def called(name: str, *args: Any, device: Any = None) -> tuple[Any, list[str]]:
    """The result of an operation, and its launches by the first word of their names."""
    device = device or CuPy()
    given = [CuPy().from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
    with simulator.watched() as journal:
        out = getattr(device, name)(*given)
    return CuPy().to_numpy(out), [launch.split("__")[0] for launch in journal.launches]


def examples(groups: int) -> dict[str, tuple[Any, ...]]:
    x, weight, bias = drawn((3, 12, 6, 7)), drawn((12, 12 // groups, 3, 2), 1), drawn((12,), 2)
    grad = NumPy().conv2d(x, weight, *WHERE, groups)
    return {
        "conv2d": (x, weight, *WHERE, groups),
        "conv2d_bias": (x, weight, bias, *WHERE, groups),
        "conv2d_input": (grad, weight, x.shape, *WHERE, groups),
        "conv2d_weight": (grad, x, weight.shape, *WHERE, groups),
    }


LAUNCHES = {
    ("conv2d", 1): ["burnpy_im2col", BATCHED],
    ("conv2d_bias", 1): ["burnpy_im2col", BATCHED, "burnpy_bias"],
    ("conv2d_input", 1): [BATCHED, "burnpy_col2im"],
    ("conv2d_weight", 1): ["burnpy_im2col_and_turn", GEMM],
    ("conv2d", 2): ["burnpy_im2col", BATCHED, "cupy_copy"],
    ("conv2d_bias", 2): ["burnpy_im2col", BATCHED, "burnpy_bias"],
    ("conv2d_input", 2): ["cupy_copy", BATCHED, "burnpy_col2im"],
    ("conv2d_weight", 2): ["burnpy_im2col_and_turn", BATCHED],
}


@pytest.mark.parametrize(("name", "groups"), LAUNCHES)
def test_a_convolution_takes_two_or_three_launches(name: str, groups: int) -> None:
    args = examples(groups)[name]
    out, launches = called(name, *args)
    np.testing.assert_allclose(out, getattr(NumPy(), name)(*args), rtol=1e-4, atol=1e-5)
    assert launches == LAUNCHES[name, groups]


def count_in_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kernels take all arrays for large ones."""
    monkeypatch.setattr(elementwise, "_MANY", 1)
    monkeypatch.setattr(
        CuPy(), "_kernels", Kernels(CuPy().xp, CONVOLUTION | MATMUL, {})
    )  # without the launches of before


@pytest.mark.parametrize(("name", "groups"), LAUNCHES)
def test_large_batches_go_in_blocks_and_large_arrays_in_64_bits(
    name: str, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = examples(groups)[name]
    monkeypatch.setattr(CuPy, "_columns_bytes", 1)
    count_in_64_bits(monkeypatch)
    out, launches = called(name, *args)
    np.testing.assert_allclose(out, getattr(NumPy(), name)(*args), rtol=1e-4, atol=1e-5)
    assert sum(launch.startswith("cublas") for launch in launches) == 3, "one member of the batch at a time"
    assert all(launch.endswith("_many") for launch in launches if "2im" in launch or "im2" in launch)


@pytest.mark.parametrize("many", [False, True], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize(
    "shape", [(6, 1, 3, 2), (12, 1, 3, 3), (8, 3, 3, 2)], ids=["depthwise", "two each", "three to four"]
)
def test_few_products_are_added_up_at_once(shape: tuple[int, ...], many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if many:
        count_in_64_bits(monkeypatch)
    x, weight, groups = drawn((2, 6, 7, 6)), drawn(shape, 1), 6 // shape[1]
    grad = drawn(NumPy().conv2d(x, weight, *WHERE, groups).shape, 2)
    calls: dict[str, tuple[Any, ...]] = {
        "conv2d": (x, weight, *WHERE, groups),
        "conv2d_bias": (x, weight, drawn((shape[0],), 3), *WHERE, groups),
        "conv2d_input": (grad, weight, x.shape, *WHERE, groups),
    }
    for name, args in calls.items():
        out, launches = called(name, *args)
        np.testing.assert_allclose(out, getattr(NumPy(), name)(*args), rtol=1e-4, atol=1e-5, err_msg=name)
        assert len(launches) == 1
        mixed, _ = called(name, *args, device=Mixed(CuPy()))
        assert mixed.dtype == float32
        np.testing.assert_allclose(mixed, getattr(Mixed(NumPy()), name)(*args), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["conv2d", "conv2d_bias", "conv2d_input", "conv2d_weight"])
def test_mixed_convolution_has_results_of_float32(name: str) -> None:
    args = examples(1)[name]
    out, launches = called(name, *args, device=Mixed(CuPy()))
    assert out.dtype == float32
    np.testing.assert_allclose(out, getattr(Mixed(NumPy()), name)(*args), rtol=1e-4, atol=1e-4)
    assert launches[0] == "burnpy_each_cast_each", "both operands at once"
    assert not [name for name in launches if name.startswith("cupy_copy__")], "the result is not converted"


def test_a_kernel_of_one_element_needs_no_columns() -> None:
    x, weight = drawn((2, 3, 4, 5)), drawn((6, 3, 1, 1), 1)
    where = ((1, 1), (0, 0), (1, 1))
    out, launches = called("conv2d", x, weight, *where, 1)
    assert launches == [BATCHED]
    back, launches = called("conv2d_input", out, weight, x.shape, *where, 1)
    assert launches == [BATCHED]
    np.testing.assert_allclose(out, NumPy().conv2d(x, weight, *where, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(back, NumPy().conv2d_input(out, weight, x.shape, *where, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_pools_take_one_launch_each_and_choose_the_first_of_ties(dtype: str) -> None:
    narrow = dtype_of(dtype)
    x = NumPy().cast(np.random.default_rng(0).integers(0, 3, (2, 3, 7, 6)).astype(np.float32), narrow)
    x[0, 0, 2, 3] = np.nan
    kernel, stride, padding, dilation = (3, 2), (2, 1), (1, 1), (1, 2)
    pooled = NumPy().max_pool2d(x, kernel, stride, padding, dilation, False)
    average = NumPy().avg_pool2d(x, kernel, stride, padding, True, False, None)
    grad = NumPy().cast(drawn(pooled.shape), narrow)
    calls: dict[str, tuple[Any, ...]] = {
        "max_pool2d": (x, kernel, stride, padding, dilation, False),
        "max_pool2d_indices": (x, kernel, stride, padding, dilation, False),
        "max_pool2d_backward": (grad, x, pooled, kernel, stride, padding, dilation),
        "avg_pool2d": (x, kernel, stride, padding, True, False, None),
        "avg_pool2d_backward": (average, x.shape, kernel, stride, padding, False, None),
        "adaptive_avg_pool2d": (x, (3, 4)),
        "adaptive_avg_pool2d_backward": (NumPy().cast(drawn((2, 3, 3, 4)), narrow), (2, 3, 7, 6)),
        "adaptive_max_pool2d_indices": (x, (3, 4)),
    }
    for name, args in calls.items():
        out, launches = called(name, *args)
        wanted = getattr(NumPy(), name)(*args)
        assert len(launches) == 1, name
        assert out.dtype == wanted.dtype
        tolerance = 0.02 if x.itemsize == 2 and out.dtype != np.int64 else 1e-6
        np.testing.assert_allclose(
            out.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance, err_msg=name
        )
