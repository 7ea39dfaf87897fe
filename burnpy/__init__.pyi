"""The names of `burnpy`, made from its table by ``make generated``."""

from burnpy import array_api as array_api
from burnpy import autodiff as autodiff
from burnpy import backend as backend
from burnpy import data as data
from burnpy import distributed as distributed
from burnpy import distributions as distributions
from burnpy import einops as einops
from burnpy import errors as errors
from burnpy import fft as fft
from burnpy import func as func
from burnpy import interop as interop
from burnpy import linalg as linalg
from burnpy import metrics as metrics
from burnpy import models as models
from burnpy import nn as nn
from burnpy import optim as optim
from burnpy import record as record
from burnpy import special as special
from burnpy import testing as testing
from burnpy import train as train
from burnpy.autodiff.autodiff import Autodiff
from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import (
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from burnpy.func.compiling.compilation import compiled
from burnpy.tensor.calculus import cumulative_trapezoid, gradient, trapezoid
from burnpy.tensor.complex_numbers_lazy import complex, polar, view_as_complex, view_as_real
from burnpy.tensor.distances import cdist, cosine_similarity, pairwise_distance, pdist
from burnpy.tensor.einsum import chain_matmul, einsum, tensordot
from burnpy.tensor.generator import Generator, default_generator, manual_seed
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.grids import cartesian_prod, combinations, meshgrid, vander
from burnpy.tensor.histograms import histogramdd
from burnpy.tensor.joining import broadcast_tensors, cat, maximum, minimum, stack, where
from burnpy.tensor.joining_lazy import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    column_stack,
    dstack,
    hstack,
    vstack,
)
from burnpy.tensor.losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss
from burnpy.tensor.ordering import bucketize, searchsorted
from burnpy.tensor.statistics import std_mean, var_mean
from burnpy.tensor.tensor import BoolTensor, ComplexTensor, IntTensor, Tensor

__version__: str
bfloat16 = float16  # a dtype too

__all__ = [
    "Autodiff", "Backend", "BoolTensor", "ComplexTensor", "Generator", "Gradients", "IntTensor", "Tensor", "atleast_1d",
    "atleast_2d", "atleast_3d", "binary_cross_entropy_with_logits", "block_diag", "bool_", "broadcast_tensors",
    "bucketize", "cartesian_prod", "cat", "cdist", "chain_matmul", "column_stack", "combinations", "compiled",
    "complex", "complex64", "complex128", "cosine_similarity", "cross_entropy", "cumulative_trapezoid",
    "default_generator", "dstack", "einsum", "errors", "float16", "float32", "float64", "gradient", "histogramdd",
    "hstack", "int8", "int16", "int32", "int64", "manual_seed", "maximum", "meshgrid", "minimum", "mse_loss",
    "nll_loss", "pairwise_distance", "pdist", "polar", "searchsorted", "stack", "std_mean", "tensordot", "trapezoid",
    "uint8", "uint16", "uint32", "uint64", "vander", "var_mean", "view_as_complex", "view_as_real", "vstack", "where",
]  # fmt: skip
