"""Products on the real CuPy: one launch each, without copies where cuBLAS can read views; the output dtype; TF32."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import CuPy, Mixed, NumPy
from burnpy.backend.dtypes import dtype_of, float32
from burnpy.errors import OutOfMemoryError
from burnpy_cupy import gemm
from tests.hostcuda import simulator

simulator.require()

GEMM, BATCHED = "cublasGemmEx", "cublasGemmStridedBatchedEx"
DTYPES = ("float32", "float64", "float16", "bfloat16")


def drawn(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Any:
    """Numbers on the device; in a dtype of 16 bits, those that NumPy rounds."""
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return CuPy().from_numpy(NumPy().cast(x, dtype_of(dtype)))


def wide(x: Any) -> Any:
    return NumPy().cast(CuPy().to_numpy(x), np.dtype(np.float64))


VIEWS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...], tuple[int, ...], list[str]]] = {
    "transposed left": (lambda x, y: (x.T, y), (4, 5), (4, 3), [GEMM]),
    "transposed right": (lambda x, y: (x, y.T), (5, 4), (3, 4), [GEMM]),
    "columns of a matrix": (lambda x, y: (x[:, 1:5], y[:, 2:]), (5, 8), (4, 6), [GEMM]),
    "batch": (lambda x, y: (x, y), (2, 5, 4), (2, 4, 3), [BATCHED]),
    "batch, both transposed": (lambda x, y: (x.swapaxes(1, 2), y.swapaxes(1, 2)), (2, 4, 5), (2, 3, 4), [BATCHED]),
    "one matrix for a batch": (lambda x, y: (x, y), (5, 4), (3, 4, 2), [BATCHED]),
    "rows of a batch as one matrix": (lambda x, y: (x, y), (2, 3, 5, 4), (4, 2), [GEMM]),
    "batch inside of rows": (lambda x, y: (x.swapaxes(0, 1), y), (5, 2, 4), (2, 4, 3), [BATCHED]),
    "vectors": (lambda x, y: (x, y), (4,), (4,), [GEMM]),
    "row of a matrix": (lambda x, y: (x[1], y), (2, 4), (4, 3), [GEMM]),
    "every other row": (lambda x, y: (x[::2], y), (6, 4), (4, 3), [GEMM]),
    "of one column": (lambda x, y: (x, y[:, :1]), (6, 4), (4, 3), [GEMM]),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", VIEWS)
def test_views_are_multiplied_where_they_lie(name: str, dtype: str) -> None:
    view, x_shape, y_shape, wanted = VIEWS[name]
    x, y = view(drawn(x_shape, dtype), drawn(y_shape, dtype, seed=1))
    with simulator.watched() as journal:
        out = CuPy().matmul(x, y)
    assert journal.launches == wanted
    assert out.dtype == x.dtype
    np.testing.assert_allclose(wide(out), wide(x) @ wide(y), rtol=0.02 if out.itemsize == 2 else 1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "view",
    [lambda x: x[:, ::2], lambda x: x[::-1], lambda x: CuPy().expand(x[:1], (6, 8))],
    ids=["every other column", "backwards", "expanded row"],
)
def test_what_cublas_cannot_read_is_copied(view: Callable[[Any], Any]) -> None:
    x = view(drawn((6, 8)))
    y = drawn((x.shape[1], 3), seed=1)
    with simulator.watched() as journal:
        out = CuPy().matmul(x, y)
    assert journal.launches == ["burnpy_copy", GEMM]
    np.testing.assert_allclose(wide(out), wide(x) @ wide(y), rtol=1e-5)


def test_batches_from_the_end_are_copied() -> None:
    """cuBLAS takes no negative distance between the matrices of a batch."""
    x, y = drawn((3, 5, 4))[::-1], drawn((3, 4, 2), seed=1)
    with simulator.watched() as journal:
        out = CuPy().matmul(x, y)
    assert journal.launches == ["burnpy_copy", BATCHED]
    np.testing.assert_allclose(wide(out), wide(x) @ wide(y), rtol=1e-5, atol=1e-6)


def test_partial_sums_keep_their_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode is set once for each handle: of a thread and a device."""
    cublas: Any = CuPy().xp.cuda.cublas
    modes: list[int] = []
    monkeypatch.setattr(cublas, "setMathMode", lambda handle, mode: modes.append(mode))

    def multiply() -> None:
        for _ in range(2):
            CuPy().matmul(drawn((3, 4), "float16"), drawn((4, 2), "float16"))

    thread = threading.Thread(target=multiply)
    thread.start()
    thread.join()
    assert modes == [16]


def test_no_memory_for_cublas_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    cublas: Any = CuPy().xp.cuda.cublas
    x = Tensor[CuPy].ones((2, 2))

    for status, error in ((1, OutOfMemoryError), (3, OutOfMemoryError), (13, cublas.CUBLASError)):

        def refused(status: int = status) -> Any:
            raise cublas.CUBLASError(status)

        monkeypatch.setattr(CuPy().xp.cuda.device, "get_cublas_handle", refused)
        with pytest.raises(error, match=r"cannot allocate 32\.00 MiB" if error is OutOfMemoryError else None):
            x @ x


def test_batches_without_one_stride_are_copied() -> None:
    """The heads of several sequences, as they lie in the result of one linear layer."""
    x, y = drawn((2, 5, 3, 4)).swapaxes(1, 2), drawn((2, 3, 4, 2), seed=1)
    with simulator.watched() as journal:
        out = CuPy().matmul(x, y)
    assert journal.launches == ["burnpy_copy", BATCHED]
    np.testing.assert_allclose(wide(out), wide(x) @ wide(y), rtol=1e-5, atol=1e-6)


def test_a_sum_of_nothing_is_zero() -> None:
    assert CuPy().to_numpy(CuPy().matmul(drawn((3, 0)), drawn((0, 2)))).tolist() == [[0, 0]] * 3
    assert CuPy().matmul(drawn((2, 0, 4)), drawn((4, 3))).shape == (2, 0, 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_multiplies_in_16_bits_and_rounds_a_weight_once(dtype: str) -> None:
    """Two uses of a weight: one conversion of it, and products whose results are of float32."""
    device, reference = Mixed(CuPy(), dtype), Mixed(NumPy(), dtype)
    x, weight, bias = drawn((5, 4)), drawn((4, 3), seed=1), drawn((3,), seed=2)
    with simulator.watched() as journal:
        out = device.linear(x, weight, bias)
        device.matmul(x, weight)
    assert journal.launches == ["burnpy_each_cast_each", "cublasLtMatmul", GEMM]
    assert out.dtype is float32
    wanted = reference.linear(*[CuPy().to_numpy(a) for a in (x, weight, bias)])
    np.testing.assert_allclose(CuPy().to_numpy(out), wanted, rtol=1e-6, atol=1e-6)


def test_gradients_of_mixed_are_products_in_16_bits() -> None:
    x, weight = (
        Tensor.from_data(np.ones(s, np.float32), device=Autodiff(Mixed(CuPy()))).require_grad()
        for s in ((5, 4), (4, 3))
    )
    loss = (x @ weight).sum()
    loss.backward(retain_graph=True)  # after which the device keeps the first gradient, 1
    with simulator.watched() as journal:
        grads = loss.backward()
    assert [name for name in journal.launches if "round" in name or "cublas" in name] == [
        "burnpy_round_1",
        GEMM,
        GEMM,
    ]
    assert grads[x].dtype == np.float32


class Recorder:
    """Notes the operand types and the compute types that cuBLAS is called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from cupy.cuda import cublas

        self.computed: list[int] = []
        monkeypatch.setattr(gemm, "_libraries", gemm._Libraries())  # which hold the functions
        for name, at in (("gemmEx", -2), ("gemmStridedBatchedEx", -2)):
            monkeypatch.setattr(cublas, name, self._noting(getattr(cublas, name), at))

    def _noting(self, function: Callable[..., Any], at: int) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.computed.append(args[at])
            return function(*args)

        return call


def test_tf32_reaches_cublas_and_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    from cupy.cuda import cublas

    recorder = Recorder(monkeypatch)
    plain, fast = cublas.CUBLAS_COMPUTE_32F, cublas.CUBLAS_COMPUTE_32F_FAST_TF32
    device, x = CuPy(), drawn((2, 4, 4))

    def all_products() -> None:
        device.matmul(x[0], x[1])
        device.matmul(x, x)

    all_products()
    with CuPy.tf32():
        all_products()
        with CuPy.tf32(False):
            all_products()
        device.matmul(*[device.cast(x, np.dtype(np.float16))] * 2)
        device.matmul(*[device.cast(x, np.dtype(np.float64))] * 2)
    all_products()
    others = [plain, cublas.CUBLAS_COMPUTE_64F]
    assert recorder.computed == [plain] * 2 + [fast] * 2 + [plain] * 2 + others + [plain] * 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_few_rows_times_quantized_weights_are_one_launch(dtype: str) -> None:
    weights = {8: np.arange(-128, 128, dtype=np.int8).reshape(4, 64), 4: np.arange(256, dtype=np.uint8).reshape(4, 64)}
    for bits, ints in weights.items():
        x, scale = drawn((2, 3, 512 // bits), dtype), drawn((4, 2), dtype, seed=1)
        with simulator.watched() as journal:
            out = CuPy().quantized_matmul(x, CuPy().from_numpy(ints), scale)
        assert journal.launches == ["burnpy_quantized_product"]
        assert (out.shape, out.dtype) == ((2, 3, 4), x.dtype)
        wanted = NumPy().quantized_matmul(wide(x), ints, wide(scale))
        close = {"float32": 1e-4, "float64": 1e-10, "float16": 4.0, "bfloat16": 32.0}[dtype]
        np.testing.assert_allclose(wide(out), wanted, rtol=close / 100, atol=close)
