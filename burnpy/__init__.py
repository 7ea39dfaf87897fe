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

from burnpy.backend import Backend
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
from burnpy.tensor import BoolTensor, IntTensor, Tensor, broadcast_tensors, cat, maximum, minimum, stack, where

if TYPE_CHECKING:
    from burnpy import errors
    from burnpy.autodiff import Autodiff, Gradients
    from burnpy.tensor import (
        Generator,
        binary_cross_entropy_with_logits,
        cross_entropy,
        default_generator,
        manual_seed,
        mse_loss,
        nll_loss,
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


_LATER = {
    "burnpy.autodiff": ("Autodiff", "Gradients"),
    "burnpy.tensor": (
        "Generator",
        "binary_cross_entropy_with_logits",
        "cross_entropy",
        "default_generator",
        "manual_seed",
        "mse_loss",
        "nll_loss",
    ),
}
"""Names that are imported at first use, by package: inference alone needs no differentiation."""


def __getattr__(name: str) -> Any:
    """Return ``burnpy.bfloat16``, which needs the package ``ml_dtypes``, or a name that is imported at first use."""
    if name == "bfloat16":
        from burnpy.backend.dtypes import dtype_of

        return dtype_of("bfloat16")
    if name in ("errors", "func", "metrics", "nn", "optim", "record", "testing", "train"):
        from importlib import import_module

        return import_module(f"burnpy.{name}")
    from burnpy.backend.lazy import opened

    return opened(__name__, _LATER, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
