"""Tensors of four kinds, generic over their backend, and functions of several tensors."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import NoReturn

from burnpy.backend.lazy import attached
from burnpy.tensor.tensor_base import explain_missing_methods

_NAMES = {
    "burnpy.tensor.joining": "broadcast_tensors cat maximum minimum stack where",
    "burnpy.tensor.tensor": "BoolTensor ComplexTensor IntTensor Tensor",
    "burnpy.tensor.calculus": "cumulative_trapezoid trapezoid",
    "burnpy.tensor.statistics": "std_mean var_mean",
    "burnpy.tensor.ordering": "bucketize searchsorted",
    "burnpy.tensor.generator": "Generator default_generator manual_seed",
    "burnpy.tensor.losses": "binary_cross_entropy_with_logits cross_entropy mse_loss nll_loss",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES, now=("burnpy.tensor.joining", "burnpy.tensor.tensor"))

explain_missing_methods()  # only now are all classes defined


class _Package(ModuleType):
    """The class of this package, which explains a call such as PyTorch's ``torch.tensor(...)``."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        from burnpy.backend.errors import CallError

        raise CallError(
            "burnpy.tensor(...) was called, which is a package; write Tensor.from_data(data, device=device), of ints "
            "IntTensor, of truth values BoolTensor"
        )


sys.modules[__name__].__class__ = _Package
