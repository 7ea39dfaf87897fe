"""Examples of negative dims, which tensors normalize before they call a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.tensor.joining import cat, stack
from burnpy.tensor.tensor import IntTensor, Tensor

SHAPE = (2, 3, 4)


def _method(name: str) -> Callable[[Any, int], Any]:
    return lambda x, dim: getattr(x, name)(dim)


_CALLS: dict[str, Callable[[Any, int], Any]] = {
    **{
        name: _method(name)
        for name in (
            "sum",
            "prod",
            "mean",
            "var",
            "std",
            "amax",
            "amin",
            "logsumexp",
            "softmax",
            "log_softmax",
            "cumsum",
        )
    },
    **{name: _method(name) for name in ("argmax", "argmin", "unbind", "flip")},
    "max": lambda x, dim: tuple(x.max(dim)),
    "min": lambda x, dim: tuple(x.min(dim)),
    "any": lambda x, dim: (x > 0).any(dim),
    "all": lambda x, dim: (x > 0).all(dim),
    "sum of two": lambda x, dim: x.sum((dim, 0 if dim in (1, -2) else 1)),
    "cat": lambda x, dim: cat([x, x], dim),
    "stack": lambda x, dim: stack([x, x], dim) if dim >= 0 else stack([x, x], dim - 1),
    "transpose": lambda x, dim: x.transpose(dim, 0 if dim >= 0 else -3),
    "split": lambda x, dim: x.split(2, dim),
    "index_select": lambda x, dim: x.index_select(dim, IntTensor.from_data([1, 0], device=x.device)),
    "gather": lambda x, dim: x.gather(dim, x.argmax(dim, keepdim=True)),
}
NEGATIVE_DIMS = list(_CALLS)
"""The names of the tested methods of tensors."""


def check_negative_dims(device: Any, name: str) -> None:
    """Check for every dim that dim and dim - ndim give the same result."""
    values = np.random.default_rng(0).uniform(-2, 2, SHAPE)
    x: Tensor[Any] = Tensor.from_data(values, device=device)
    for dim in range(len(SHAPE)):
        front, back = _CALLS[name](x, dim), _CALLS[name](x, dim - len(SHAPE))
        pairs = list(zip(front, back, strict=True)) if isinstance(front, (tuple, list)) else [(front, back)]
        for x_front, x_back in pairs:
            where = f"{name} along {dim} and along {dim - len(SHAPE)} of shape {SHAPE}"
            a, b = x_front.to_numpy(), x_back.to_numpy()
            assert a.shape == b.shape, f"{where}: shapes {a.shape} and {b.shape}"
            assert np.array_equal(a, b), f"{where}:\n{a}\nand\n{b}"
