"""Matrix products with a bias, or with the gradient of one, in one launch, by cuBLASLt, which CuPy does not wrap.

cuBLASLt plans a product once: descriptors, and the algorithm that its heuristics choose for the alignment of memory.
Partial sums are never rounded to 16 bits, and each element is summed in one order.

Source: NVIDIA, cuBLAS, Using the cuBLASLt API.
"""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from typing import Any, NamedTuple

from burnpy.backend.primitives import DType
from burnpy_cupy import gemm
from burnpy_cupy.availability import shared_library
from burnpy_cupy.kernels.elementwise_kernel import contiguous
from burnpy_cupy.runtime import empty

BIAS, SUM = 4, 256
"""cublasLtEpilogue_t: CUBLASLT_EPILOGUE_BIAS adds a vector to each column of the result. CUBLASLT_EPILOGUE_BGRADA also
writes the sum of the columns of the first operand. cuBLASLt's columns are our rows, and its first operand is our second
one. The epilogues of relu and gelu are not used: the one gives 0 for NaN, and the other is an approximation by tanh."""
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _VECTOR = 3, 4, 7, 8
"""cublasLtMatmulDescAttributes_t; the last is CUBLASLT_MATMUL_DESC_BIAS_POINTER."""
_WORKSPACE, _REDUCTION, _ALIGNMENTS = 1, 3, (5, 6, 7, 8)
"""cublasLtMatmulPreferenceAttributes_t; the last are the alignments of the four matrices."""
_IN_COMPUTE_TYPE = 2
"""cublasLtReductionScheme_t: the one of partial sums that neither rounds them nor adds them in any order."""
_WORKSPACE_BYTES = 32 << 20
"""The memory that an algorithm may use at most."""
_FULL_ALIGNMENT = 256
"""The least number of bytes of alignment for which more makes no difference."""
_FLOAT32, _FLOAT64 = 0, 1
"""cudaDataType_t of the factors."""
_VECTOR_LENGTH, _MANY_PRODUCTS = 8, 1 << 27
"""The numbers of 16 bits that tensor cores load at a time, and the products that take longer than a launch."""
_REFUSALS = (7, 8, 15)
"""cublasStatus_t of a refused product: CUBLAS_STATUS_INVALID_VALUE, ARCH_MISMATCH and NOT_SUPPORTED."""


class _Algorithm(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@cache
def _library(release: int) -> Any:
    """Return cuBLASLt of a release of CUDA, which cuBLAS has loaded; None if it is not found."""
    try:
        library = shared_library("cublasLt", release)
    except OSError:
        return None
    library.cublasLtMatmul.argtypes = [*[ctypes.c_void_p] * 14, ctypes.c_size_t, ctypes.c_void_p]
    return library


class _Plan:
    """A product that cuBLASLt has planned, for one handle."""

    def __init__(self, xp: Any, library: Any, handle: int, epilogue: int, call: gemm._Call, alignment: int) -> None:
        self._xp, self._library, self._handle = xp, library, handle
        self._made: list[tuple[str, ctypes.c_void_p]] = []
        transpose_a, transpose_b, m, n, k, self._one = call.sizes
        (a_type, a_line), (b_type, b_line, self._zero), (out_type, line, compute) = call.y, call.x, call.out[:3]
        scale = _FLOAT64 if compute == gemm._IN_FLOAT64 else _FLOAT32
        self._operation = self._create("MatmulDesc", compute, scale)
        for attribute, value in ((_TRANSPOSE_A, transpose_a), (_TRANSPOSE_B, transpose_b), (_EPILOGUE, epilogue)):
            self._set("MatmulDesc", self._operation, attribute, ctypes.c_int32(value))
        self._vector = ctypes.c_void_p(alignment)  # whose alignment counts for the choice of an algorithm
        self._set("MatmulDesc", self._operation, _VECTOR, self._vector)
        self._set_vector = (self._operation, _VECTOR, ctypes.byref(self._vector), ctypes.c_size_t(8))
        self._layouts = [
            self._create("MatrixLayout", kind, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(line))
            for kind, rows, columns, line in (
                (a_type, *((k, m) if transpose_a else (m, k)), a_line),
                (b_type, *((n, k) if transpose_b else (k, n)), b_line),
                (out_type, m, n, line),
            )
        ]
        self._algorithm = self._chosen(alignment)

    @property
    def possible(self) -> bool:
        """True if cuBLASLt has an algorithm."""
        return self._algorithm is not None

    def __del__(self) -> None:
        for kind, made in self._made:
            self._function(kind, "Destroy")(made)

    def run(self, stream: int, a: int, b: int, out: int, vector: int) -> bool:
        """Launch the product; return False if cuBLASLt does not compute it."""
        found = self._algorithm
        if found is None:
            return False
        self._vector.value = vector
        self._check(self._library.cublasLtMatmulDescSetAttribute(*self._set_vector))
        by_a, by_b, by_out = self._layouts
        room = self._xp.cuda.alloc(found.workspace)  # freed for what this stream launches next
        operands = (self._one, a, by_a, b, by_b, self._zero, out, by_out, out, by_out)
        arguments = (*operands, ctypes.addressof(found), room.ptr, found.workspace, stream)
        status = self._library.cublasLtMatmul(self._handle, self._operation, *arguments)
        if status in _REFUSALS:
            self._algorithm = None
            return False
        self._check(status)
        return True

    def _chosen(self, alignment: int) -> _Algorithm | None:
        """Return the fastest algorithm by cuBLASLt's estimate; None if it has none."""
        preference = self._create("MatmulPreference")
        self._set("MatmulPreference", preference, _WORKSPACE, ctypes.c_uint64(_WORKSPACE_BYTES))
        self._set("MatmulPreference", preference, _REDUCTION, ctypes.c_uint32(_IN_COMPUTE_TYPE))
        for attribute in _ALIGNMENTS:
            self._set("MatmulPreference", preference, attribute, ctypes.c_uint32(alignment))
        found, count = _Algorithm(), ctypes.c_int()
        by_a, by_b, by_out = self._layouts
        status = self._library.cublasLtMatmulAlgoGetHeuristic(
            *(ctypes.c_void_p(self._handle), self._operation, by_a, by_b, by_out, by_out, preference, 1),
            *(ctypes.byref(found), ctypes.byref(count)),
        )
        return found if status == 0 and count.value and found.state == 0 else None

    def _create(self, kind: str, *arguments: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._check(self._function(kind, "Create")(ctypes.byref(made), *arguments))
        self._made.append((kind, made))
        return made

    def _set(self, kind: str, made: ctypes.c_void_p, attribute: int, value: Any) -> None:
        function = self._function(kind, "SetAttribute")
        self._check(function(made, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))))

    def _function(self, kind: str, what: str) -> Any:
        return getattr(self._library, f"cublasLt{kind}{what}")

    def _check(self, status: int) -> None:
        if status:
            raise self._xp.cuda.cublas.CUBLASError(status)


@lru_cache(4096)
def _plan(xp: Any, handle: int, epilogue: int, alignment: int, *layouts: Any) -> _Plan | None:
    """Return a planned product of `gemm._call`'s ``layouts``; None if cuBLASLt is not found, and for batches.

    None, too, for large products of 16 bits with sums, if the columns do not fill vectors: cuBLASLt then chooses an
    algorithm without tensor cores, which takes four times as long as a product and a sum (8,192 × 50,257 on an H200).

    The handle is of one thread and device, so that no two threads use a plan.
    """
    call, library = gemm._call(*layouts), _library(xp.cuda.runtime.runtimeGetVersion() // 1000)
    if library is None or call is None or call.batched:
        return None
    _, _, columns, rows, inner, _ = call.sizes
    is_large = columns * rows * inner >= _MANY_PRODUCTS
    if epilogue == SUM and layouts[6].itemsize == 2 and columns % _VECTOR_LENGTH and is_large:
        return None
    return _Plan(xp, library, handle, epilogue, call, alignment)


def _launch(xp: Any, epilogue: int, x: Any, y: Any, out: Any, vector: Any) -> bool:
    """Write the product x @ y into ``out``, with a vector that the epilogue reads or writes; return False if not."""
    # cuBLASLt counts columns first, so it computes the transposed product, outᵀ = yᵀ xᵀ.
    addresses = y.data.ptr, x.data.ptr, out.data.ptr, vector.data.ptr
    layouts = (x.shape, x.strides, y.shape, y.strides, out.shape, out.strides)
    types = (x.dtype, out.dtype, gemm.uses_tf32())
    plan = _plan(xp, gemm.library(xp).handle, epilogue, _alignment(*addresses), *layouts, *types)
    return plan is not None and plan.run(xp.cuda.get_current_stream().ptr, *addresses)


def _alignment(*addresses: int) -> int:
    """Return the alignment of four addresses in bytes, as far as it matters."""
    together = addresses[0] | addresses[1] | addresses[2] | addresses[3] | _FULL_ALIGNMENT
    return together & -together


class FinishedProduct(NamedTuple):
    """A product with an epilogue, of operands whose layouts are known, at any addresses."""

    xp: Any
    product: gemm.Product
    epilogue: int

    def possible(self) -> bool:
        """Return whether cuBLASLt has an algorithm, whatever the alignment of the memory."""
        plan = self._plan(gemm.library(self.xp).handle, self.product.dtype.itemsize)
        return plan is not None and plan.possible

    def call(
        self, library: gemm.Library, stream: int, x: int, y: int, out: int, vector: int
    ) -> tuple[Any, tuple[Any, ...]]:
        """Return a function that launches it, and its arguments, given addresses."""
        addresses = y, x, out, vector
        plan = self._plan(library.handle, _alignment(*addresses))
        if plan is None or not plan.possible:
            plan = self._plan(library.handle, self.product.dtype.itemsize)
        return self._run, (plan, stream, *addresses)

    def _run(self, plan: _Plan | None, *arguments: int) -> None:
        if plan is None or not plan.run(*arguments):
            raise RuntimeError("cuBLASLt refuses a product that it had an algorithm for; use the function uncompiled")

    def _plan(self, handle: int, alignment: int) -> _Plan | None:
        return _plan(self.xp, handle, self.epilogue, alignment, *self.product.layouts)


def biased_product(xp: Any, x: Any, weight: Any, bias: Any, dtype: DType) -> Any:
    """Return the product x @ weight + bias as ``dtype`` in one launch; None if cuBLASLt cannot compute it so.

    Args:
        xp: the module cupy.
        x: an array (…, n, in) of a float dtype.
        weight: an array (in, out) of the same dtype.
        bias: an array (out,).
        dtype: the dtype of the operands or, if that has 16 bits, float32.
    """
    rows, columns = x.shape[:-1], weight.shape[-1]
    if not rows or x.dtype is not weight.dtype or bias.dtype is not dtype or bias.shape != (columns,):
        return None
    out = empty(xp, (*rows, columns), dtype)
    return out if _launch(xp, BIAS, x, weight, out, contiguous(xp, bias)) else None


def product_and_sum(xp: Any, x: Any, y: Any, dtype: DType) -> tuple[Any, Any] | None:
    """Return the product x @ y and the sum of the rows of y in one launch; None if cuBLASLt cannot compute them so.

    Args:
        xp: the module cupy.
        x: an array (m, n) of a float dtype.
        y: an array (n, k) of the same dtype.
        dtype: the dtype of both results: the operands' or, if that has 16 bits, float32.
    """
    if x.dtype is not y.dtype:
        return None
    out, total = empty(xp, (x.shape[0], y.shape[1]), dtype), empty(xp, y.shape[1:], dtype)
    return (out, total) if _launch(xp, SUM, x, y, out, total) else None
