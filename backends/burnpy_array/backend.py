"""`ArrayBackend`: the base class of NumPy and CuPy, which combines the operation families."""

from __future__ import annotations

from burnpy_array.activation import ArrayActivation, ArraySoftmax
from burnpy_array.attention import ArrayAttention
from burnpy_array.convolution import ArrayConvolution
from burnpy_array.fourier import ArrayFourier
from burnpy_array.indexing import ArrayIndexing, ArrayOrdering
from burnpy_array.linalg import ArrayLinalg, ArrayNorms
from burnpy_array.matmul import ArrayMatmul
from burnpy_array.normalization import ArrayNormalization
from burnpy_array.pointwise import ArrayArithmetic, ArrayComplex, ArrayElementary, ArrayFused, ArrayUnary
from burnpy_array.reduction import ArrayReduction
from burnpy_array.shape import ArrayCreation, ArrayShape


class ArrayBackend(
    ArrayCreation,
    ArrayArithmetic,
    ArrayUnary,
    ArrayComplex,
    ArrayElementary,
    ArrayActivation,
    ArrayReduction,
    ArrayNorms,
    ArraySoftmax,
    ArrayShape,
    ArrayIndexing,
    ArrayOrdering,
    ArrayConvolution,
    ArrayMatmul,
    ArrayNormalization,
    ArrayAttention,
    ArrayLinalg,
    ArrayFourier,
    ArrayFused,
):
    """A backend on top of an array module with NumPy's interface.

    A subclass sets ``xp`` and writes ``_call``, ``from_numpy``, ``to_numpy``, ``_add_at``, ``_reduce_at`` and ``_erf``.
    """
