"""`ArrayBackend`: the sum of the families."""

from __future__ import annotations

from burnpy_array.activation import Activation
from burnpy_array.attention import Attention
from burnpy_array.convolution import Convolution
from burnpy_array.creation import Creation
from burnpy_array.dense import Dense
from burnpy_array.indexing import Indexing
from burnpy_array.normalization import Normalization
from burnpy_array.optimizer import Optimizer
from burnpy_array.pointwise import Arithmetic, Unary
from burnpy_array.reduction import Reduction
from burnpy_array.shape import Shaping
from burnpy_array.softmax import Softmax


class ArrayBackend(
    Creation,
    Arithmetic,
    Unary,
    Activation,
    Reduction,
    Softmax,
    Shaping,
    Indexing,
    Convolution,
    Dense,
    Normalization,
    Attention,
    Optimizer,
):
    """A backend of an array module that speaks NumPy's language.

    A subclass sets ``xp`` and writes ``_call``, ``from_numpy``, ``to_numpy``, ``_add_at``, ``_reduce_at`` and ``_erf``.
    """
