"""Methods of tensors that are loaded at first use: a file for each family, with a class for each set of kinds.

This file is made from the others by ``python -m burnpy.docs.methods``. To add a method, write it in one of them, or
declare its operation with ``method=True``, and run that; a class that is new is listed among the bases of the tensor
classes that have its methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.tensor.tensor_base import lazy_classes

if TYPE_CHECKING:
    from burnpy.tensor.methods.arithmetic import Combining, Shifts
    from burnpy.tensor.methods.creation import Filling, Random
    from burnpy.tensor.methods.declared import FloatFunctions, IntFunctions, NumberFunctions
    from burnpy.tensor.methods.distributions import DistributionFactories
    from burnpy.tensor.methods.elementary import Elementary
    from burnpy.tensor.methods.gathering import Gathering
    from burnpy.tensor.methods.linalg import Diagonals, Matrices, Products
    from burnpy.tensor.methods.ordering import Ordering, Ranking
    from burnpy.tensor.methods.random_factories import RandomFactories, RandomIntFactories
    from burnpy.tensor.methods.repeating import Repeating
    from burnpy.tensor.methods.scattering import Scattering
    from burnpy.tensor.methods.shape import Rearranging
    from burnpy.tensor.methods.slice_updates import SliceUpdates
    from burnpy.tensor.methods.statistics import Counting, FloatStatistics, IntCounting, NumberStatistics

__all__ = [
    "Combining",
    "Counting",
    "Diagonals",
    "DistributionFactories",
    "Elementary",
    "Filling",
    "FloatFunctions",
    "FloatStatistics",
    "Gathering",
    "IntCounting",
    "IntFunctions",
    "Matrices",
    "NumberFunctions",
    "NumberStatistics",
    "Ordering",
    "Products",
    "Random",
    "RandomFactories",
    "RandomIntFactories",
    "Ranking",
    "Rearranging",
    "Repeating",
    "Scattering",
    "Shifts",
    "SliceUpdates",
]

METHODS = {
    "arithmetic.Combining": "addbmm addcmul addmm addmv addr allclose baddbmm float_power heaviside isclose nan_to_num",
    "arithmetic.Shifts": "__lshift__ __rlshift__ __rrshift__ __rshift__ bitwise_left_shift bitwise_right_shift",
    "creation.Filling": "_filled_like full_like ones_like zeros_like",
    "creation.Random": "bernoulli categorical multinomial normal_like uniform_like",
    "declared.FloatFunctions": (
        "acos acosh asin asinh atan atan2 atanh copysign cosh digamma erfc erfinv exp2 expm1 hypot i0 igamma igammac "
        "lgamma log10 log1p log2 logaddexp logaddexp2 nextafter sinc sinh tan trunc xlogy"
    ),
    "declared.NumberFunctions": "fmax fmin fmod signbit",
    "declared.IntFunctions": "gcd lcm",
    "distributions.DistributionFactories": "beta binomial dirichlet gamma poisson student_t",
    "elementary.Elementary": "addcdiv deg2rad frac frexp hardshrink ldexp lerp logit mvlgamma polygamma prelu rad2deg",
    "gathering.Gathering": "argwhere gather index_select masked_select nonzero take take_along_dim where",
    "linalg.Products": "_both _product bmm cross dot kron mm mv outer",
    "linalg.Diagonals": "diag diag_embed diagflat diagonal trace",
    "linalg.Matrices": "det inverse logdet matrix_exp matrix_power slogdet",
    "ordering.Ordering": "aminmax argsort cummax cummin mode msort sort unique unique_consecutive",
    "ordering.Ranking": "_middle kthvalue median nanmedian topk",
    "random_factories.RandomFactories": "exponential gumbel normal sobol truncated_normal uniform",
    "random_factories.RandomIntFactories": "permutation randint",
    "repeating.Repeating": "_interleaved _repeated repeat repeat_interleave tile",
    "scattering.Scattering": (
        "_back _need_numbers _place _slices index_add index_copy index_fill index_reduce masked_fill masked_scatter "
        "scatter scatter_add scatter_reduce"
    ),
    "shape.Rearranging": (
        "_diagonal broadcast_to chunk expand_as flip fliplr flipud movedim narrow ravel roll rot90 select swapaxes "
        "tensor_split tril triu unbind unflatten unfold"
    ),
    "slice_updates.SliceUpdates": "diagonal_scatter put select_scatter slice_scatter",
    "statistics.Counting": "count_nonzero diff",
    "statistics.IntCounting": "bincount",
    "statistics.NumberStatistics": "corrcoef cov cumprod nansum",
    "statistics.FloatStatistics": "dist histc histogram logcumsumexp nanmean nanquantile norm quantile renorm",
}
"""The names of the methods, with spaces between them, by class, as ``"module.Class"``."""

if not TYPE_CHECKING:
    globals().update(lazy_classes(__name__, METHODS))
