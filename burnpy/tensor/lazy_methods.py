"""Stand-ins for the classes whose methods are loaded at first use, with the table of these methods.

This file is made by ``make generated`` from the classes in this folder that ``tensor.py`` imports from
here. To add a method, write it in the file of its family, or declare its operation with ``method=True``, and run that;
a class that is new is listed among the bases of the tensor classes that have its methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.tensor.tensor_base import lazy_classes

if TYPE_CHECKING:
    from burnpy.tensor.at import SliceUpdates
    from burnpy.tensor.calculus import Differences
    from burnpy.tensor.complex_numbers_lazy import ComplexFunctions
    from burnpy.tensor.diagonals import Diagonals
    from burnpy.tensor.distances import Norms
    from burnpy.tensor.gathering import Gathering
    from burnpy.tensor.histograms import Histograms, IntCounting
    from burnpy.tensor.linalg import Matrices, Products, ProductSums
    from burnpy.tensor.ordering import Ordering, Ranking
    from burnpy.tensor.pointwise_declared import AnalyticFunctions, FloatFunctions, IntFunctions, NumberFunctions
    from burnpy.tensor.pointwise_lazy import Combining, Elementary, FloatParts
    from burnpy.tensor.random import RandomFactories, RandomIntFactories, RandomLike
    from burnpy.tensor.sampling import DistributionFactories, Random
    from burnpy.tensor.scans import RunningExtremes, RunningLogarithms, Scans
    from burnpy.tensor.scattering import Scattering
    from burnpy.tensor.shape_lazy import Rearranging, Repeating
    from burnpy.tensor.statistics import Counting, FloatStatistics, NumberStatistics
    from burnpy.tensor.unique import Unique

__all__ = [
    "AnalyticFunctions", "Combining", "ComplexFunctions", "Counting", "Diagonals", "Differences",
    "DistributionFactories", "Elementary", "FloatFunctions", "FloatParts", "FloatStatistics", "Gathering", "Histograms",
    "IntCounting", "IntFunctions", "Matrices", "Norms", "NumberFunctions", "NumberStatistics", "Ordering",
    "ProductSums", "Products", "Random", "RandomFactories", "RandomIntFactories", "RandomLike", "Ranking",
    "Rearranging", "Repeating", "RunningExtremes", "RunningLogarithms", "Scans", "Scattering", "SliceUpdates", "Unique",
]  # fmt: skip

METHODS = {
    "at.SliceUpdates": "put select_scatter slice_scatter",
    "calculus.Differences": "diff",
    "complex_numbers_lazy.ComplexFunctions": (
        "addcdiv addcmul corrcoef cov dist float_power ldexp lerp log1p logaddexp logcumsumexp logsumexp renorm "
        "sigmoid silu sinc"
    ),
    "diagonals.Diagonals": "_diagonal diag diag_embed diagflat diagonal diagonal_scatter trace tril triu",
    "distances.Norms": "dist norm renorm",
    "gathering.Gathering": "argwhere gather index_select masked_select nonzero take take_along_dim where",
    "histograms.IntCounting": "bincount",
    "histograms.Histograms": "histc histogram",
    "linalg.Products": "_both _product bmm cross dot kron mm mv outer",
    "linalg.ProductSums": "addbmm addmm addmv addr baddbmm",
    "linalg.Matrices": "det inverse logdet matrix_exp matrix_power slogdet",
    "ordering.Ordering": "aminmax argsort mode msort sort",
    "ordering.Ranking": "kthvalue topk",
    "pointwise_declared.FloatFunctions": (
        "atan2 copysign digamma erfc erfinv hypot i0 igamma igammac lgamma logaddexp logaddexp2 nextafter sinc trunc "
        "xlogy"
    ),
    "pointwise_declared.AnalyticFunctions": "acos acosh asin asinh atan atanh cosh exp2 expm1 log10 log2 sinh tan",
    "pointwise_declared.NumberFunctions": "fmax fmin fmod signbit",
    "pointwise_declared.IntFunctions": "gcd lcm",
    "pointwise_lazy.FloatParts": "addcdiv frac frexp ldexp",
    "pointwise_lazy.Combining": "addcmul float_power heaviside nan_to_num",
    "pointwise_lazy.Elementary": "deg2rad hardshrink log1p logit mvlgamma polygamma prelu rad2deg",
    "random.RandomFactories": "exponential gumbel normal sobol truncated_normal uniform",
    "random.RandomIntFactories": "permutation randint",
    "random.RandomLike": "normal_like uniform_like",
    "sampling.DistributionFactories": "beta binomial dirichlet gamma poisson student_t",
    "sampling.Random": "bernoulli categorical multinomial",
    "scans.Scans": "cumprod cumsum",
    "scans.RunningExtremes": "cummax cummin",
    "scans.RunningLogarithms": "logcumsumexp",
    "scattering.Scattering": (
        "_back _need_numbers _place _slices index_add index_copy index_fill index_reduce masked_fill masked_scatter "
        "scatter scatter_add scatter_reduce"
    ),
    "shape_lazy.Rearranging": (
        "broadcast_to chunk expand_as flip fliplr flipud movedim narrow ravel roll rot90 select swapaxes tensor_split "
        "unbind unflatten unfold"
    ),
    "shape_lazy.Repeating": "_interleaved _repeated repeat repeat_interleave tile",
    "statistics.Counting": "count_nonzero",
    "statistics.NumberStatistics": "_middle corrcoef cov median nanmedian nansum",
    "statistics.FloatStatistics": "nanmean nanquantile quantile",
    "unique.Unique": "unique unique_consecutive",
}
"""The names of the methods, with spaces between them, by class, as ``"module.Class"``."""

if not TYPE_CHECKING:
    globals().update(lazy_classes(METHODS))
