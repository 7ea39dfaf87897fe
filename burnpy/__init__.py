"""burnpy: a tensor framework in which the type of a tensor names its backend and whether it can be differentiated.

>>> from burnpy import Autodiff, Tensor
>>> from burnpy.backend import NumPy
>>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
>>> grads = (x * x).sum().backward()
>>> grads[x].tolist()
[2.0, 4.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import (
    bool_,
    dtype_of,
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
from burnpy.backend.lazy import lazy_attributes, missing
from burnpy.tensor import BoolTensor, IntTensor, Tensor, broadcast_tensors, cat, maximum, minimum, stack, where

if TYPE_CHECKING:
    from burnpy import array_api as array_api
    from burnpy import data as data
    from burnpy import distributed as distributed
    from burnpy import distributions as distributions
    from burnpy import einops as einops
    from burnpy import errors
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
    from burnpy.func.compiling.compilation import compiled
    from burnpy.tensor.distances import cdist, cosine_similarity, pairwise_distance, pdist
    from burnpy.tensor.einsum import chain_matmul, einsum, tensordot
    from burnpy.tensor.finite_differences import gradient
    from burnpy.tensor.generator import Generator, default_generator, manual_seed
    from burnpy.tensor.gradients import Gradients
    from burnpy.tensor.histograms import histogramdd
    from burnpy.tensor.losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss
    from burnpy.tensor.ordering import bucketize, searchsorted
    from burnpy.tensor.stacking import (
        atleast_1d,
        atleast_2d,
        atleast_3d,
        block_diag,
        cartesian_prod,
        column_stack,
        combinations,
        dstack,
        hstack,
        meshgrid,
        vander,
        vstack,
    )
    from burnpy.tensor.statistics import cumulative_trapezoid, std_mean, trapezoid, var_mean

    bfloat16 = float16  # a dtype too

__version__ = "0.1.0"
__all__ = [
    "Autodiff",
    "Backend",
    "BoolTensor",
    "Generator",
    "Gradients",
    "IntTensor",
    "Tensor",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "binary_cross_entropy_with_logits",
    "block_diag",
    "bool_",
    "broadcast_tensors",
    "bucketize",
    "cartesian_prod",
    "cat",
    "cdist",
    "chain_matmul",
    "column_stack",
    "combinations",
    "compiled",
    "cosine_similarity",
    "cross_entropy",
    "cumulative_trapezoid",
    "default_generator",
    "dstack",
    "einsum",
    "errors",
    "float16",
    "float32",
    "float64",
    "gradient",
    "histogramdd",
    "hstack",
    "int8",
    "int16",
    "int32",
    "int64",
    "manual_seed",
    "maximum",
    "meshgrid",
    "minimum",
    "mse_loss",
    "nll_loss",
    "pairwise_distance",
    "pdist",
    "searchsorted",
    "stack",
    "std_mean",
    "tensordot",
    "trapezoid",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "vander",
    "var_mean",
    "vstack",
    "where",
]

_LATER = {
    "burnpy.func.compiling.compilation": ("compiled",),
    "burnpy.tensor.statistics": ("cumulative_trapezoid", "std_mean", "trapezoid", "var_mean"),
    "burnpy.tensor.ordering": ("bucketize", "searchsorted"),
    "burnpy.autodiff.autodiff": ("Autodiff",),
    "burnpy.backend.backend": ("Backend",),
    "burnpy.tensor.einsum": ("chain_matmul", "einsum", "tensordot"),
    "burnpy.tensor.distances": ("cdist", "cosine_similarity", "pairwise_distance", "pdist"),
    "burnpy.tensor.finite_differences": ("gradient",),
    "burnpy.tensor.histograms": ("histogramdd",),
    "burnpy.tensor.generator": ("Generator", "default_generator", "manual_seed"),
    "burnpy.tensor.losses": ("binary_cross_entropy_with_logits", "cross_entropy", "mse_loss", "nll_loss"),
    "burnpy.tensor.gradients": ("Gradients",),
    "burnpy.tensor.stacking": (
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "block_diag",
        "cartesian_prod",
        "column_stack",
        "combinations",
        "dstack",
        "hstack",
        "meshgrid",
        "vander",
        "vstack",
    ),
    **{
        f"burnpy.{room}": ()
        for room in (
            "array_api",
            "data",
            "distributed",
            "distributions",
            "einops",
            "errors",
            "fft",
            "func",
            "interop",
            "linalg",
            "metrics",
            "models",
            "nn",
            "optim",
            "record",
            "special",
            "testing",
            "train",
        )
    },
}
"""Names that are imported at first use, by module, and packages: inference alone needs no differentiation."""


def _bfloat16(name: str) -> Any:
    """Return ``burnpy.bfloat16``, which needs the package ``ml_dtypes``."""
    return dtype_of(name) if name == "bfloat16" else missing(__name__, name)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _LATER, _bfloat16)
