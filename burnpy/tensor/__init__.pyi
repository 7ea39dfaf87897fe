"""The names of `burnpy.tensor`, made from its table by ``make generated``."""

from burnpy.tensor.calculus import cumulative_trapezoid, trapezoid
from burnpy.tensor.generator import Generator, default_generator, manual_seed
from burnpy.tensor.joining import broadcast_tensors, cat, maximum, minimum, stack, where
from burnpy.tensor.losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss
from burnpy.tensor.ordering import bucketize, searchsorted
from burnpy.tensor.statistics import std_mean, var_mean
from burnpy.tensor.tensor import BoolTensor, ComplexTensor, IntTensor, Tensor

__all__ = [
    "BoolTensor", "ComplexTensor", "Generator", "IntTensor", "Tensor", "binary_cross_entropy_with_logits",
    "broadcast_tensors", "bucketize", "cat", "cross_entropy", "cumulative_trapezoid", "default_generator",
    "manual_seed", "maximum", "minimum", "mse_loss", "nll_loss", "searchsorted", "stack", "std_mean", "trapezoid",
    "var_mean", "where",
]  # fmt: skip
