"""Clipping of gradients by value and by norm, and gradients of the single samples of a batch, clipped by sample.

Each function returns new gradients. Updates of buffers are not clipped. The norms of samples tell which of them a model
learns from; clipped by sample and summed with noise, gradients are those of differentially private training. Source:
Abadi et al., Deep Learning with Differential Privacy, 2016.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from burnpy.backend.errors import ArgumentError, KindError, NonFiniteError, ShapeError, a, class_name
from burnpy.backend.primitives import INEXACT
from burnpy.func.pytree import map_tree
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import gradient_device, norm_of, norms_of
from burnpy.optim.settings import number, number_or_tensor
from burnpy.tensor.call_errors import explained
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.joining import stack
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, new_tensor
from burnpy.typevars import B2, B, I, T

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.batching.batched import Randomness
    from burnpy.nn.module import Module
    from burnpy.optim.gradients.grads_params import ModelOnAutodiff

G = TypeVar("G", bound="Gradients[Any] | GradientsParams[Any]")

_EPS = 1e-6
"""The constant that PyTorch adds to norms."""


@explained
def clip_by_value(grads: G, limit: float | Tensor[Any]) -> G:
    """Clamp every element to [-limit, limit], as `torch.nn.utils.clip_grad_value_`; NaN stays NaN.

    Of complex gradients the real and imaginary parts are clamped.

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
        raise KindError(f"{operation}() takes Gradients or GradientsParams, got {a(class_name(grads))}")
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
    """Check that the norm of every gradient is finite."""
    names = [*grads.named()] if isinstance(grads, GradientsParams) else [str(grad.shape) for grad in grads.primitives()]
    nonfinite = [(name, norm) for name, norm in zip(names, norms.tolist(), strict=True) if not math.isfinite(norm)]
    if nonfinite:
        shown = ", ".join(f"{name} ({norm})" for name, norm in nonfinite)
        raise NonFiniteError(f"{operation}() got gradients whose norm is infinite or NaN: {shown}")


@overload
def per_sample_gradients(
    model: ModelOnAutodiff[I],
    loss: Callable[[Any, T], Tensor[Any]],
    batch: T,
    *,
    randomness: Randomness = "different",
    chunk_size: int | None = None,
) -> GradientsParams[I]: ...
@overload
def per_sample_gradients(
    model: Module[B2],
    loss: Callable[[Any, T], Tensor[Any]],
    batch: T,
    *,
    randomness: Randomness = "different",
    chunk_size: int | None = None,
) -> GradientsParams[B2]: ...
@explained
def per_sample_gradients(
    model: Any,
    loss: Callable[[Any, T], Tensor[Any]],
    batch: T,
    *,
    randomness: Randomness = "different",
    chunk_size: int | None = None,
) -> GradientsParams[Any]:
    """Compute the gradient of each sample's loss by a model's parameters, all at once with `burnpy.func.vmap`.

    Args:
        model: a module, in training or evaluation mode. Frozen parameters get no gradient.
        loss: called with the model, on its plain device, and one sample; returns the loss, 0-d. A sample has the
            structure of the batch, and tensors without the first dimension; ``x.unsqueeze(0)`` is a batch of one.
        batch: a tensor or a tree of tensors; the first dimension of all numbers the samples.
        randomness: whether dropout and the like draw for each sample, "different", or the "same" for all.
        chunk_size: the number of samples to compute at a time; None computes all at once.

    Returns:
        Gradients of shape (samples, …) for a parameter of shape (…).

    Raises:
        ArgumentError: the model records running statistics, as `BatchNorm` in training mode.
        ShapeError: the tensors of the batch differ in their first size, or a loss has several elements.

    >>> from burnpy.nn import Linear
    >>> model, x = Linear(2, 1, device=Autodiff[NumPy]), Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> grads = per_sample_gradients(model, lambda model, x: model(x).sum(), x)
    >>> grads["weight"].squeeze(2).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    from burnpy.func.gradients_and_hessians import grad
    from burnpy.func.vectorization import vmap

    device = gradient_device(model)
    own = model.device
    plain = model.valid().train(model.is_training) if own.differentiates else model

    def lowered(leaf: Any) -> Any:
        if not isinstance(leaf, TensorBase) or leaf.device is not own or own is device:
            return leaf
        backend: Any = leaf._backend
        primitive = backend.lower(leaf._primitive) if leaf.kind in INEXACT else leaf._primitive
        return new_tensor(type(leaf), device, primitive)

    gradients: Any = vmap(grad(loss), in_dims=(None, 0), randomness=randomness, chunk_size=chunk_size)
    of_all: Module[Any] = gradients(plain, map_tree(lowered, batch))
    return GradientsParams.from_module(of_all)


@explained
def per_sample_norms(grads: GradientsParams[B]) -> Tensor[B]:
    """Compute the norm of each sample's gradients of all parameters together, of shape (samples,).

    Raises:
        ArgumentError: there are no gradients.
        ShapeError: they have no common first dimension, as those of `per_sample_gradients` have.

    >>> from burnpy.nn import Linear
    >>> model, x = Linear(1, 1, device=NumPy), Tensor[NumPy].from_data([[0.0], [0.75]])
    >>> per_sample_norms(per_sample_gradients(model, lambda model, x: model(x).sum(), x)).tolist()
    [1.0, 1.25]
    """
    samples = _samples(grads, "per_sample_norms")
    norms = [g.reshape((samples, g.numel() // max(samples, 1))).norm(dim=1) for g in grads.values()]
    return stack([norm.to_dtype(norms[0].dtype) for norm in norms], dim=1).norm(dim=1)


@explained
def clip_per_sample(grads: GradientsParams[B], max_norm: float) -> GradientsParams[B]:
    """Scale down each sample's gradient so that its norm over all parameters is at most ``max_norm``.

    Args:
        grads: the result of `per_sample_gradients`.
        max_norm: the largest norm, which bounds the influence of a sample.

    Raises:
        ArgumentError: ``max_norm`` is negative or NaN, or there are no gradients.
        ShapeError: the gradients have no common first dimension.
    """
    bound = number(max_norm, "the limit of clip_per_sample()")
    if bound < 0:
        raise ArgumentError(f"clip_per_sample() got the limit {max_norm!r}; expected a number that is not negative")
    factors = (bound / (per_sample_norms(grads) + _EPS)).clamp(max=1.0)

    def clipped(gradient: Any) -> Any:
        shape = (gradient.shape[0], *(1,) * (gradient.ndim - 1))
        factor = factors.reshape(shape)
        return gradient * (factor.complex() if gradient.kind == "complex" else factor).to_dtype(gradient.dtype)

    return grads.map(clipped)


@explained
def sum_of_samples(grads: GradientsParams[B]) -> GradientsParams[B]:
    """Sum gradients over the samples: those of the sum of the losses, as `burnpy.optim.Optimizer.step` takes them.

    Raises:
        ArgumentError: there are no gradients.
        ShapeError: the gradients have no common first dimension.

    >>> from burnpy.nn import Linear
    >>> model, x = Linear(2, 1, device=NumPy), Tensor[NumPy].ones((5, 2))
    >>> grads = per_sample_gradients(model, lambda model, x: model(x).sum(), x)
    >>> sum_of_samples(clip_per_sample(grads, 1e3))["bias"].tolist()
    [5.0]
    """
    _samples(grads, "sum_of_samples")
    return grads._of({ident: gradient.sum(0) for ident, gradient in grads.items()})


def _samples(grads: GradientsParams[Any], operation: str) -> int:
    """Return the number of samples of gradients."""
    given: object = grads
    if not isinstance(given, GradientsParams):
        raise KindError(
            f"{operation}() takes GradientsParams, got {a(type(given).__name__)}; give it the result of "
            "per_sample_gradients()"
        )
    if not grads:
        raise ArgumentError(f"{operation}() got no gradients; give it the result of per_sample_gradients()")
    sizes = {gradient.shape[:1] for gradient in grads.values()}
    if len(sizes) > 1 or () in sizes:
        shapes = ", ".join(f"{path} {gradient.shape}" for path, gradient in [*grads.named().items()][:3])
        raise ShapeError(
            f"{operation}() got gradients without a common first dimension for the samples ({shapes}); give it the "
            "result of per_sample_gradients()"
        )
    return int(sizes.pop()[0])
