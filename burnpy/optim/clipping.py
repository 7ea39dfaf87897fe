"""Clipping: gradients of which none, or all together, are too large. Each function returns new gradients.

They take what ``backward()`` returns as well as `GradientsParams`. Updates of buffers are left as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.autodiff.gradients import Gradients
from burnpy.backend.errors import ArgumentError, KindError, NonFiniteError, a
from burnpy.optim.checks import number
from burnpy.optim.grads_params import GradientsParams
from burnpy.optim.norms import norm_of
from burnpy.tensor.call_errors import explained

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

G = TypeVar("G", bound="Gradients[Any] | GradientsParams[Any]")

_EPS = 1e-6
"""What PyTorch adds to the norm."""


@explained
def clip_by_value(grads: G, limit: float) -> G:
    """Every element clamped to [-limit, limit]; NaN stays NaN. As `torch.nn.utils.clip_grad_value_`.

    Raises:
        ArgumentError: the limit is negative or NaN.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> clip_by_value((x * x).sum().backward(), 3.0)[x].tolist()
    [2.0, 3.0]
    """
    bound = _limit(grads, limit, "clip_by_value")
    return _mapped(grads, lambda grad: grad.clamp(-bound, bound))


@explained
def clip_by_norm(grads: G, max_norm: float, *, p: float = 2.0, error_if_nonfinite: bool = False) -> G:
    """The gradient of each tensor by itself scaled down to a norm of at most ``max_norm``.

    Each times ``min(1, max_norm / (norm + 1e-6))``, as `torch.nn.utils.clip_grad_norm_` of one tensor. A norm that is
    infinite or NaN makes that gradient zero and NaN, or NaN, as there.

    Args:
        grads: the gradients.
        max_norm: the norm that none exceeds.
        p: which norm; ``math.inf`` for the largest magnitude.
        error_if_nonfinite: refuse norms that are infinite or NaN; their values are waited for.

    Raises:
        ArgumentError: ``max_norm`` is negative or NaN, or ``p`` is not positive.
        NonFiniteError: ``error_if_nonfinite``, and a norm is infinite or NaN; names the parameters.
    """
    bound = _limit(grads, max_norm, "clip_by_norm")
    device: Any = grads.device
    if error_if_nonfinite:
        _refuse_nonfinite(grads, "clip_by_norm", p)

    def scaled(grad: Tensor[Any]) -> Tensor[Any]:
        return grad * _factor(norm_of([grad], device, p), bound)

    return _mapped(grads, scaled)


@explained
def clip_by_global_norm(grads: G, max_norm: float, *, p: float = 2.0, error_if_nonfinite: bool = False) -> G:
    """All gradients scaled down by one factor, so that their norm together is at most ``max_norm``.

    All times ``min(1, max_norm / (norm + 1e-6))``: what `torch.nn.utils.clip_grad_norm_` does. A norm that is infinite
    makes them zero, and what was infinite NaN; one that is NaN makes all NaN. ``grads.norm()`` is the norm itself.

    Source: Pascanu et al., On the difficulty of training recurrent neural networks, 2013.

    Args:
        grads: the gradients.
        max_norm: the norm that they together do not exceed.
        p: which norm; ``math.inf`` for the largest magnitude.
        error_if_nonfinite: refuse a norm that is infinite or NaN; its value is waited for.

    Raises:
        ArgumentError: ``max_norm`` is negative or NaN, or ``p`` is not positive.
        NonFiniteError: ``error_if_nonfinite``, and the norm is infinite or NaN; names the parameters.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[Autodiff[NumPy]].from_data([1.5, 2.0]).require_grad()
    >>> [round(g, 3) for g in clip_by_global_norm((x * x).sum().backward(), 1.0)[x].tolist()]
    [0.6, 0.8]
    """
    bound = _limit(grads, max_norm, "clip_by_global_norm")
    device: Any = grads.device
    norm = norm_of(grads.values(), device, p)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        _refuse_nonfinite(grads, "clip_by_global_norm", p)
        raise NonFiniteError(f"clip_by_global_norm() was given finite gradients whose norm is {norm.item()}")
    factor = _factor(norm, bound)
    if device.eager_checks and factor.item() == 1.0:  # a look at the value costs less than to multiply by 1
        return grads
    return _mapped(grads, lambda grad: grad * factor)


def _mapped(grads: G, f: Callable[[Tensor[Any]], Tensor[Any]]) -> G:
    return grads.map(f)  # type: ignore[return-value]  # of the same class


def _factor(norm: Tensor[Any], bound: float) -> Tensor[Any]:
    return (bound / (norm + _EPS)).clamp(max=1.0)


def _limit(grads: object, limit: float, operation: str) -> float:
    if not isinstance(grads, (Gradients, GradientsParams)):
        raise KindError(f"{operation}() takes Gradients or GradientsParams, and was given {a(type(grads).__name__)}")
    found = number(limit, f"the limit of {operation}()")
    if found < 0:
        raise ArgumentError(f"{operation}() was given the limit {limit!r}; it is not negative")
    return float(found)


def _refuse_nonfinite(grads: Any, operation: str, p: float) -> None:
    """Name what has a norm that is infinite or NaN.

    Raises:
        NonFiniteError: something has.
    """
    named = grads.named() if isinstance(grads, GradientsParams) else {str(g.shape): g for g in grads.values()}
    found = {}
    for path, grad in named.items():
        norm = norm_of([grad], grads.device, p).item()
        if not math.isfinite(norm):
            found[path] = norm
    if found:
        shown = ", ".join(f"{path} ({norm})" for path, norm in found.items())
        raise NonFiniteError(f"{operation}() was given gradients whose norm is infinite or NaN: {shown}")
