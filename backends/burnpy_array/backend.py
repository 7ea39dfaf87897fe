"""`ArrayBackend`: the base class of NumPy and CuPy, which combines the operation families."""

from __future__ import annotations

from burnpy_array.activation import Activation
from burnpy_array.attention import Attention
from burnpy_array.convolution import Convolution
from burnpy_array.creation import Creation
from burnpy_array.dense import Dense
from burnpy_array.elementary import Elementary
from burnpy_array.fused import Fused
from burnpy_array.indexing import Indexing
from burnpy_array.linalg import LinearAlgebra
from burnpy_array.normalization import Normalization
from burnpy_array.norms import Norms
from burnpy_array.ordering import Ordering
from burnpy_array.pointwise import Arithmetic, Unary
from burnpy_array.reduction import Reduction
from burnpy_array.shape import Shaping
from burnpy_array.softmax import Softmax


class ArrayBackend(
    Creation,
    Arithmetic,
    Unary,
    Elementary,
    Activation,
    Reduction,
    Norms,
    Softmax,
    Shaping,
    Indexing,
    Ordering,
    Convolution,
    Dense,
    Normalization,
    Attention,
    LinearAlgebra,
    Fused,
):
    """A backend on top of an array module with NumPy's interface.

    A subclass sets ``xp`` and writes ``_call``, ``from_numpy``, ``to_numpy``, ``_add_at``, ``_reduce_at`` and ``_erf``.
    """
