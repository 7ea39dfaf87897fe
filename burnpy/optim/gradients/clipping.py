"""Gradient clipping by value, by norm of each tensor, and by global norm. Each function returns new gradients.

The functions take the `Gradients` of ``backward()`` or `GradientsParams`. Updates of buffers are not clipped.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.backend.errors import ArgumentError, KindError, NonFiniteError, a
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import norm_of, norms_of
from burnpy.optim.settings import number, number_or_tensor
from burnpy.tensor.call_errors import explained
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float

G = TypeVar("G", bound="Gradients[Any] | GradientsParams[Any]")

_EPS = 1e-6
"""The constant that PyTorch adds to the norm."""


@explained
def clip_by_value(grads: G, limit: float | Tensor[Any]) -> G:
    """Clamp every element to [-limit, limit], as `torch.nn.utils.clip_grad_value_`; NaN stays NaN.

    Raises:
        ArgumentError: the limit is negative or NaN.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> clip_by_value((x * x).sum().backward(), 3.0)[x].tolist()
    [2.0, 3.0]
    """
    bound = _limit(grads, limit, "clip_by_value")
    device: Any = grads.device
    if not isinstance(bound, float):
        low, high = [new_tensor(Tensor, device, x) for x in device.on_host(_range, (bound,))]
        return grads.mapped("foreach_clamp", low, high)  # type: ignore[return-value]  # of the same class
    return grads.mapped("foreach_clamp", -bound, bound)  # type: ignore[return-value]  # of the same class


@explained
def clip_by_norm(grads: G, max_norm: float | Tensor[Any], *, p: float = 2.0, error_if_nonfinite: bool = False) -> G:
    """Scale down the gradient of each tensor separately to a norm of at most ``max_norm``.

    Each gradient is multiplied by ``min(1, max_norm / (norm + 1e-6))``, as `torch.nn.utils.clip_grad_norm_` of a single
    tensor. If its norm is infinite, its infinite elements become NaN and the others zero; if NaN, all become NaN.

    Args:
        grads: the gradients.
        max_norm: the maximum norm of each gradient, a number or a 0-d tensor.
        p: the order of the norm; ``math.inf`` for the largest magnitude.
        error_if_nonfinite: raise an error if a norm is infinite or NaN; this synchronizes with the device.

    Raises:
        ArgumentError: ``max_norm`` is negative or NaN, or ``p`` is not positive.
        NonFiniteError: ``error_if_nonfinite``, and a norm is infinite or NaN; the error names the parameters.
    """
    bound = _limit(grads, max_norm, "clip_by_norm")
    norms = norms_of(grads, p)
    if error_if_nonfinite:
        _refuse_nonfinite(grads, "clip_by_norm", norms)
    return grads.mapped("foreach_mul", _factor(norms, bound))  # type: ignore[return-value]  # of the same class


@explained
def clip_by_global_norm(
    grads: G, max_norm: float | Tensor[Any], *, p: float = 2.0, error_if_nonfinite: bool = False
) -> G:
    """Scale down all gradients by a common factor, so that their global norm is at most ``max_norm``.

    All are multiplied by ``min(1, max_norm / (norm + 1e-6))``, as in `torch.nn.utils.clip_grad_norm_`. If the norm is
    infinite, infinite elements become NaN and the others zero; if NaN, all become NaN. ``grads.norm()`` is the norm.

    Source: Pascanu et al., On the difficulty of training recurrent neural networks, 2013.

    Args:
        grads: the gradients.
        max_norm: the maximum global norm, a number or a 0-d tensor.
        p: the order of the norm; ``math.inf`` for the largest magnitude.
        error_if_nonfinite: raise an error if the norm is infinite or NaN; this synchronizes with the device.

    Raises:
        ArgumentError: ``max_norm`` is negative or NaN, or ``p`` is not positive.
        NonFiniteError: ``error_if_nonfinite``, and the norm is infinite or NaN; the error names the parameters.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.5, 2.0]).require_grad()
    >>> [round(g, 3) for g in clip_by_global_norm((x * x).sum().backward(), 1.0)[x].tolist()]
    [0.6, 0.8]
    """
    bound = _limit(grads, max_norm, "clip_by_global_norm")
    device: Any = grads.device
    norm = norm_of(grads, p)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        _refuse_nonfinite(grads, "clip_by_global_norm", norms_of(grads, p))
        raise NonFiniteError(f"clip_by_global_norm() got finite gradients whose norm is {norm.item()}")
    factor: Any
    if device.differentiates or not (device.stands_for or device).eager_checks:
        factor = _factor(norm, bound)
    elif device.stands_for is not None:
        factor = new_tensor(Tensor, device, device.on_host(_read_factor, (norm._primitive, bound))[0])
    else:  # reading the value is cheaper than multiplying by 1
        (factor,) = _read_factor(norm.item(), bound)
        if factor == 1.0:
            return grads
    return grads.mapped("foreach_mul", factor)  # type: ignore[return-value]  # of the same class


def _read_factor(norm: float, bound: float) -> tuple[float]:
    """Return the factor that clips gradients of a norm to the bound."""
    factor = bound / (norm + _EPS)
    return (1.0 if factor >= 1.0 else factor,)


def _range(bound: float) -> tuple[float, float]:
    return -bound, bound


def _factor(norm: Tensor[Any], bound: Any) -> Tensor[Any]:
    device: Any = norm.device
    ((factor,),) = device.foreach(factor_each, ([norm._primitive],), (bound,))
    return new_tensor(Tensor, device, factor)  # type: ignore[no-any-return]  # of that class


def factor_each(b: Any, norm: Float, bound: Any) -> tuple[Float]:
    """Compute the factor that clips gradients to the bound, min(1, bound / (norm + 1e-6)): a formula of lists."""
    limit = bound if hasattr(bound, "dtype") else b.full((), bound, norm.dtype)
    return (b.minimum(b.div(limit, b.add(norm, _EPS)), 1.0),)


def _limit(grads: object, limit: Any, operation: str) -> Any:
    """Return the limit of a clipping as a float; in a recording a tensor as a primitive."""
    if not isinstance(grads, (Gradients, GradientsParams)):
        raise KindError(f"{operation}() takes Gradients or GradientsParams, got {a(type(grads).__name__)}")
    return number_or_tensor(limit, grads.device, f"the limit of {operation}()", _LIMITS[operation])


def _checked_limit(limit: Any, operation: str) -> tuple[float]:
    bound = number(limit, f"the limit of {operation}()")
    if bound < 0:
        raise ArgumentError(f"{operation}() got the limit {limit!r}; expected a number that is not negative")
    return (float(bound),)


_LIMITS: dict[str, Any] = {
    name: partial(_checked_limit, operation=name) for name in ("clip_by_value", "clip_by_norm", "clip_by_global_norm")
}


def _refuse_nonfinite(grads: Any, operation: str, norms: Tensor[Any]) -> None:
    """Check that the norm of every gradient is finite.

    Raises:
        NonFiniteError: a norm is infinite or NaN; the error names the parameters.
    """
    names = [*grads.named()] if isinstance(grads, GradientsParams) else [str(grad.shape) for grad in grads.primitives()]
    nonfinite = [(name, norm) for name, norm in zip(names, norms.tolist(), strict=True) if not math.isfinite(norm)]
    if nonfinite:
        shown = ", ".join(f"{name} ({norm})" for name, norm in nonfinite)
        raise NonFiniteError(f"{operation}() got gradients whose norm is infinite or NaN: {shown}")
