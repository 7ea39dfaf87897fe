"""burnpy: a tensor framework in which the type of a tensor names its backend and whether it can be differentiated.

>>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
>>> grads = (x * x).sum().backward()
>>> grads[x].tolist()
[2.0, 4.0]

Where to look, with ``help(burnpy.nn)`` and so on:

- Tensors: `Tensor`, `ComplexTensor`, `IntTensor`, `BoolTensor`, whose methods ``dir(burnpy.Tensor)`` lists; functions
  of several tensors, such as `cat`, `where` and `einsum`, are in this module. ``burnpy.linalg``, ``fft``, ``special``
  have more.
- Backends and devices: ``burnpy.backend`` (``NumPy``, ``CuPy``); derivatives: `Autodiff`, ``burnpy.autodiff`` and, as
  functions of functions, ``burnpy.func`` (``grad``, ``jacobian``, ``vmap``, …); plans of whole steps: `compiled`.
- Networks: ``burnpy.nn``, ``optim``, ``data``, ``metrics``, ``train``, ``record`` (files), ``distributed``, ``models``.
- Probability: ``burnpy.distributions``; random numbers: `Generator`, `manual_seed`.
- Others' interfaces: ``burnpy.array_api``, ``einops``, ``interop`` (ONNX). Checks: ``burnpy.testing``, ``errors``.
"""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.lazy import attached, missing

__version__ = "0.1.0"
_PACKAGES = (
    "array_api autodiff backend data distributed distributions einops errors fft func interop linalg "
    "metrics models nn optim record special testing train"
)
_NAMES = {
    "burnpy.backend.dtypes": (
        "bool_ complex64 complex128 float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64"
    ),
    "burnpy.tensor.joining": "broadcast_tensors cat maximum minimum stack where",
    "burnpy.tensor.complex_numbers_lazy": "complex polar view_as_complex view_as_real",
    "burnpy.tensor.tensor": "BoolTensor ComplexTensor IntTensor Tensor",
    "burnpy.autodiff.autodiff": "Autodiff",
    "burnpy.backend.backend": "Backend",
    "burnpy.func.compiling.compilation": "compiled",
    "burnpy.tensor.distances": "cdist cosine_similarity pairwise_distance pdist",
    "burnpy.tensor.einsum": "chain_matmul einsum tensordot",
    "burnpy.tensor.calculus": "cumulative_trapezoid gradient trapezoid",
    "burnpy.tensor.generator": "Generator default_generator manual_seed",
    "burnpy.tensor.gradients": "Gradients",
    "burnpy.tensor.histograms": "histogramdd",
    "burnpy.tensor.losses": "binary_cross_entropy_with_logits cross_entropy mse_loss nll_loss",
    "burnpy.tensor.ordering": "bucketize searchsorted",
    "burnpy.tensor.grids": "cartesian_prod combinations meshgrid vander",
    "burnpy.tensor.joining_lazy": ("atleast_1d atleast_2d atleast_3d block_diag column_stack dstack hstack vstack"),
    "burnpy.tensor.statistics": "std_mean var_mean",
    **{f"burnpy.{package}": "" for package in _PACKAGES.split()},
}
"""The names of the package by module, and packages; ``make generated`` writes them into the stub."""
_NOW = ("burnpy.backend.dtypes", "burnpy.tensor.joining", "burnpy.tensor.tensor")
"""The modules that are imported at once: inference alone needs no differentiation."""


def _bfloat16(name: str) -> Any:
    """Return ``burnpy.bfloat16``, which needs the package ``ml_dtypes``."""
    return dtype_of(name) if name == "bfloat16" else missing(__name__, name)


__getattr__, __dir__, __all__ = attached(__name__, _NAMES, _bfloat16, _NOW)
__all__ += ["errors"]
