"""`ArrayBackend`: what the NumPy and CuPy backends share, for an array module ``xp``, in a file for each family."""

from __future__ import annotations

from burnpy_array.activation import ArrayActivation, ArraySoftmax
from burnpy_array.attention import ArrayAttention
from burnpy_array.convolution import ArrayConvolution
from burnpy_array.fourier import ArrayFourier
from burnpy_array.indexing import ArrayIndexing
from burnpy_array.linalg import ArrayLinalg, ArrayMatmul, ArrayNorms
from burnpy_array.normalization import ArrayNormalization
from burnpy_array.ordering import ArrayOrdering, ArrayScans
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
    ArrayScans,
    ArrayConvolution,
    ArrayMatmul,
    ArrayNormalization,
    ArrayAttention,
    ArrayLinalg,
    ArrayFourier,
    ArrayFused,
):
    """A backend on top of an array module with NumPy's interface. A subclass sets ``xp`` and writes ``_call``,
    ``from_numpy``, ``to_numpy``, ``_add_at``, ``_reduce_at`` and ``_erf``."""
