"""Methods of tensors that are loaded at first use: a file for each family, with a class for each set of kinds.

This file is made from the others by ``python -m burnpy.docs.methods``. To add a method, write it in one of them and run
that; a class that is new is listed among the bases of the tensor classes that have its methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.tensor.tensor_base import lazy_classes

if TYPE_CHECKING:
    from burnpy.tensor.methods.arithmetic import Combining, NumberTheory
    from burnpy.tensor.methods.creation import Filling, Random
    from burnpy.tensor.methods.elementary import Activations, Binary, Elementary, Special
    from burnpy.tensor.methods.gathering import Selecting
    from burnpy.tensor.methods.linalg import Diagonals, Matrices, Products
    from burnpy.tensor.methods.ordering import Ordering, Ranking
    from burnpy.tensor.methods.repeating import Repeating
    from burnpy.tensor.methods.scattering import Placing
    from burnpy.tensor.methods.shape import Rearranging, Regrouping
    from burnpy.tensor.methods.statistics import Counting, Covariances, IntCounting, Statistics

__all__ = [
    "Activations",
    "Binary",
    "Combining",
    "Counting",
    "Covariances",
    "Diagonals",
    "Elementary",
    "Filling",
    "IntCounting",
    "Matrices",
    "NumberTheory",
    "Ordering",
    "Placing",
    "Products",
    "Random",
    "Ranking",
    "Rearranging",
    "Regrouping",
    "Repeating",
    "Selecting",
    "Special",
    "Statistics",
]

METHODS = {
    "arithmetic.Combining": (
        "addcmul",
        "addmm",
        "allclose",
        "baddbmm",
        "fmax",
        "fmin",
        "fmod",
        "heaviside",
        "isclose",
        "nan_to_num",
        "signbit",
    ),
    "arithmetic.NumberTheory": (
        "__lshift__",
        "__rlshift__",
        "__rrshift__",
        "__rshift__",
        "bitwise_left_shift",
        "bitwise_right_shift",
        "gcd",
        "lcm",
    ),
    "creation.Filling": (
        "_filled_like",
        "full_like",
        "ones_like",
        "zeros_like",
    ),
    "creation.Random": (
        "bernoulli",
        "categorical",
        "multinomial",
        "normal_like",
        "uniform_like",
    ),
    "elementary.Elementary": (
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cosh",
        "deg2rad",
        "exp2",
        "expm1",
        "frac",
        "log10",
        "log1p",
        "log2",
        "logit",
        "rad2deg",
        "sinh",
        "tan",
        "trunc",
    ),
    "elementary.Special": (
        "digamma",
        "erfc",
        "erfinv",
        "lgamma",
        "polygamma",
        "sinc",
    ),
    "elementary.Binary": (
        "addcdiv",
        "atan2",
        "copysign",
        "hypot",
        "lerp",
        "logaddexp",
        "xlogy",
    ),
    "elementary.Activations": (
        "hardshrink",
        "prelu",
    ),
    "gathering.Selecting": (
        "_elements",
        "_shaped",
        "_source",
        "_vector",
        "gather",
        "index_select",
        "masked_fill",
        "masked_select",
        "nonzero",
        "scatter",
        "scatter_add",
        "take_along_dim",
        "where",
    ),
    "linalg.Products": (
        "_both",
        "_product",
        "bmm",
        "cross",
        "dot",
        "kron",
        "mm",
        "mv",
        "outer",
    ),
    "linalg.Diagonals": (
        "diag",
        "diag_embed",
        "diagonal",
        "trace",
    ),
    "linalg.Matrices": (
        "det",
        "inverse",
        "logdet",
        "matrix_exp",
        "matrix_power",
        "slogdet",
    ),
    "ordering.Ordering": (
        "_comparable",
        "aminmax",
        "argsort",
        "cummax",
        "cummin",
        "mode",
        "msort",
        "sort",
        "unique",
    ),
    "ordering.Ranking": (
        "_middle",
        "cumprod",
        "kthvalue",
        "median",
        "nanmedian",
        "topk",
    ),
    "repeating.Repeating": (
        "_interleaved",
        "_repeated",
        "repeat",
        "repeat_interleave",
        "tile",
    ),
    "scattering.Placing": (
        "_back",
        "_need_numbers",
        "_place",
        "_slices",
        "_vectors",
        "argwhere",
        "index_add",
        "index_copy",
        "index_fill",
        "index_reduce",
        "masked_scatter",
        "scatter_reduce",
        "take",
    ),
    "shape.Rearranging": (
        "_diagonal",
        "broadcast_to",
        "chunk",
        "expand_as",
        "flip",
        "movedim",
        "roll",
        "tril",
        "triu",
        "unbind",
    ),
    "shape.Regrouping": (
        "narrow",
        "ravel",
        "rot90",
        "select",
        "swapaxes",
        "tensor_split",
        "unflatten",
        "unfold",
    ),
    "statistics.Statistics": (
        "dist",
        "histc",
        "logcumsumexp",
        "nanmean",
        "nanquantile",
        "norm",
        "quantile",
    ),
    "statistics.Covariances": (
        "corrcoef",
        "cov",
        "nansum",
    ),
    "statistics.Counting": (
        "count_nonzero",
        "diff",
    ),
    "statistics.IntCounting": ("bincount",),
}
"""The names of the methods by class, as ``"module.Class"``."""

if not TYPE_CHECKING:
    globals().update(lazy_classes(__name__, METHODS))
