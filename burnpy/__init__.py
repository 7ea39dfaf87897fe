"""burnpy: tensors whose type says where they live and whether they can be differentiated.

>>> from burnpy import Autodiff, Tensor
>>> from burnpy.backend import NumPy
>>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
>>> grads = (x * x).sum().backward()
>>> grads[x].tolist()
[2.0, 4.0]
"""

from __future__ import annotations

from typing import Any

from burnpy.autodiff import Autodiff, Gradients
from burnpy.backend import Backend, errors
from burnpy.backend.dtypes import (
    bool_,
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
from burnpy.tensor import (
    BoolTensor,
    Generator,
    IntTensor,
    Tensor,
    binary_cross_entropy_with_logits,
    broadcast_tensors,
    cat,
    cross_entropy,
    default_generator,
    manual_seed,
    maximum,
    minimum,
    mse_loss,
    nll_loss,
    stack,
    where,
)

__version__ = "0.1.0"
__all__ = [
    "Autodiff",
    "Backend",
    "BoolTensor",
    "Generator",
    "Gradients",
    "IntTensor",
    "Tensor",
    "binary_cross_entropy_with_logits",
    "bool_",
    "broadcast_tensors",
    "cat",
    "cross_entropy",
    "default_generator",
    "errors",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "manual_seed",
    "maximum",
    "minimum",
    "mse_loss",
    "nll_loss",
    "stack",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "where",
]


def __getattr__(name: str) -> Any:
    """``burnpy.bfloat16``, which needs the package ``ml_dtypes``, and the rooms that are opened at first use."""
    if name == "bfloat16":
        from burnpy.backend.dtypes import dtype_of

        return dtype_of("bfloat16")
    if name in ("func", "nn", "optim", "record", "testing"):
        from importlib import import_module

        return import_module(f"burnpy.{name}")
    raise AttributeError(f"module 'burnpy' has no attribute {name!r}")
