"""Methods of tensors that are loaded at first use: a file for each topic, with one class in it.

This file is made from the others by ``python -m burnpy.docs.methods``. To add a method, write it in one of them and run
that; a class that is new is listed among the bases of the tensor classes that have its methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.tensor.lazy_methods import lazy_classes

if TYPE_CHECKING:
    from burnpy.tensor.methods.counting import Counting
    from burnpy.tensor.methods.elementary import Elementary
    from burnpy.tensor.methods.filling import Filling
    from burnpy.tensor.methods.int_counting import IntCounting
    from burnpy.tensor.methods.ordering import Ordering
    from burnpy.tensor.methods.random import Random
    from burnpy.tensor.methods.ranking import Ranking
    from burnpy.tensor.methods.rearranging import Rearranging
    from burnpy.tensor.methods.selecting import Selecting
    from burnpy.tensor.methods.statistics import Statistics

__all__ = [
    "Counting",
    "Elementary",
    "Filling",
    "IntCounting",
    "Ordering",
    "Random",
    "Ranking",
    "Rearranging",
    "Selecting",
    "Statistics",
]

METHODS = {
    "counting.Counting": (
        "count_nonzero",
        "diff",
    ),
    "elementary.Elementary": (
        "expm1",
        "log1p",
    ),
    "filling.Filling": (
        "_filled_like",
        "full_like",
        "ones_like",
        "zeros_like",
    ),
    "int_counting.IntCounting": ("bincount",),
    "ordering.Ordering": (
        "_comparable",
        "argsort",
        "msort",
        "sort",
        "unique",
    ),
    "random.Random": (
        "bernoulli",
        "categorical",
        "normal_like",
        "uniform_like",
    ),
    "ranking.Ranking": (
        "_at",
        "_chosen",
        "_middle",
        "aminmax",
        "cummax",
        "cummin",
        "cumprod",
        "kthvalue",
        "median",
        "mode",
        "nanmedian",
        "topk",
    ),
    "rearranging.Rearranging": (
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
    "selecting.Selecting": (
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
    "statistics.Statistics": (
        "corrcoef",
        "cov",
        "dist",
        "histc",
        "logcumsumexp",
        "nanmean",
        "nanquantile",
        "nansum",
        "norm",
        "quantile",
    ),
}
"""The names of the methods by class, as ``"module.Class"``."""

if not TYPE_CHECKING:
    globals().update(lazy_classes(__name__, METHODS))
