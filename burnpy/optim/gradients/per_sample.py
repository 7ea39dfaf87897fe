"""Gradients of the single samples of a batch: computed at once, clipped by sample, and summed.

Their norms and influences tell which samples a model learns from. Clipped by sample and summed with noise, they are the
gradients of differentially private training. Source: Abadi et al., Deep Learning with Differential Privacy, 2016.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.func.pytree import map_tree
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import gradient_device
from burnpy.optim.settings import number
from burnpy.tensor.joining import stack
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, new_tensor
from burnpy.typevars import B2, B, I, T

if TYPE_CHECKING:
    from burnpy.batching.batched import Randomness
    from burnpy.nn.module import Module
    from burnpy.optim.gradients.grads_params import ModelOnAutodiff

_EPS = 1e-6
"""The constant that PyTorch adds to norms."""


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
        model: a module, in the mode in which it is. Frozen parameters get no gradient.
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
    from burnpy.func.batches.vmaps import vmap
    from burnpy.func.derivatives.gradients import grad

    device = gradient_device(model)
    own = model.device
    plain = model.valid().train(model.is_training) if own.differentiates else model

    def lowered(leaf: Any) -> Any:
        if not isinstance(leaf, TensorBase) or leaf.device is not own or own is device:
            return leaf
        backend: Any = leaf._backend
        primitive = backend.lower(leaf._primitive) if leaf.kind == "float" else leaf._primitive
        return new_tensor(type(leaf), device, primitive)

    gradients: Any = vmap(grad(loss), in_dims=(None, 0), randomness=randomness, chunk_size=chunk_size)
    of_all: Module[Any] = gradients(plain, map_tree(lowered, batch))
    return GradientsParams.from_module(of_all)


def per_sample_norms(grads: GradientsParams[B]) -> Tensor[B]:
    """Compute the norm of each sample's gradient by all parameters together, of shape (samples,).

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

    def clipped(gradient: Tensor[B]) -> Tensor[B]:
        shape = (gradient.shape[0], *(1,) * (gradient.ndim - 1))
        return gradient * factors.to_dtype(gradient.dtype).reshape(shape)

    return grads.map(clipped)


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
    """Return the number of samples of gradients.

    Raises:
        ArgumentError: there are no gradients.
        ShapeError: they have no common first dimension.
    """
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
