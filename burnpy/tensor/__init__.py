"""Tensors of three kinds, generic over their backend, and functions of several tensors."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from burnpy.backend.lazy import lazy_attributes
from burnpy.tensor.joining import broadcast_tensors, cat, maximum, minimum, stack, where
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import explain_missing_methods

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator, default_generator, manual_seed
    from burnpy.tensor.losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss
    from burnpy.tensor.ordering import bucketize, searchsorted
    from burnpy.tensor.statistics import cumulative_trapezoid, std_mean, trapezoid, var_mean

__all__ = [
    "BoolTensor",
    "Generator",
    "IntTensor",
    "Tensor",
    "binary_cross_entropy_with_logits",
    "broadcast_tensors",
    "bucketize",
    "cat",
    "cross_entropy",
    "cumulative_trapezoid",
    "default_generator",
    "manual_seed",
    "maximum",
    "minimum",
    "mse_loss",
    "nll_loss",
    "searchsorted",
    "stack",
    "std_mean",
    "trapezoid",
    "var_mean",
    "where",
]

_LATER = {
    "burnpy.tensor.statistics": ("cumulative_trapezoid", "std_mean", "trapezoid", "var_mean"),
    "burnpy.tensor.ordering": ("bucketize", "searchsorted"),
    "burnpy.tensor.generator": ("Generator", "default_generator", "manual_seed"),
    "burnpy.tensor.losses": ("binary_cross_entropy_with_logits", "cross_entropy", "mse_loss", "nll_loss"),
}
"""Names that are imported at first use, by the module that defines them."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _LATER)


explain_missing_methods()  # only now are all three classes defined


class _Package(ModuleType):
    """The class of this package, which explains a call such as PyTorch's ``torch.tensor(...)``."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        from burnpy.backend.errors import CallError

        raise CallError(
            "burnpy.tensor(...) was called, which is a package; write Tensor.from_data(data, device=device), of ints "
            "IntTensor, of truth values BoolTensor"
        )


sys.modules[__name__].__class__ = _Package
