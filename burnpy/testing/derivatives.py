"""Derivatives of a function computed in reverse mode, in forward mode and by central differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burnpy.autodiff import Autodiff, Forward
from burnpy.autodiff.tools.user_code import probable_cause
from burnpy.backend.dtypes import complex128, float64
from burnpy.backend.errors import DeviceError, DTypeError, KindError
from burnpy.tensor.tensor import DIFFERENTIABLE, Tensor
from burnpy.tensor.tensor_base import describe, tensor_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

Function: TypeAlias = Callable[..., Any]
"""A function of float tensors on one device that returns such a tensor, or a tuple or list of them."""


@dataclass(frozen=True)
class Problem:
    """A function, the inputs at which to differentiate it, and the weights of the sum of its results."""

    function: Function
    inputs: tuple[Tensor[Any], ...]
    results: list[Tensor[Any]]  #: its results for them
    weights: list[Tensor[Any]]  #: one weight, of the same shape, for each result
    before: list[NDArray[Any]]  #: copies of inputs and weights, to detect changes in place
    eps: float
    generator: np.random.Generator


def results(f: Function, inputs: Sequence[Tensor[Any]]) -> list[Tensor[Any]]:
    """Call f, and return its results as a list.

    Raises:
        KindError: the result is neither a float tensor nor a tuple or list of them.
        DeviceError: a result is on another device than the inputs.
        DTypeError: a result is neither float64 nor complex128.
    """
    returned = f(*inputs)
    outs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    for k, out in enumerate(outs):
        if not isinstance(out, DIFFERENTIABLE):
            raise KindError(
                f"gradcheck() takes a function that returns float tensors, and result {k} is {describe(out)}"
                f"{probable_cause(out)}"
            )
        if out.device is not inputs[0].device:
            raise DeviceError(f"result {k} is on {out.device}, though the inputs were on {inputs[0].device}")
        if out.dtype not in (float64, complex128):
            raise DTypeError(f"gradcheck() needs float64 or complex128, and result {k} of the function is {out.dtype}")
    if not outs:
        raise KindError("gradcheck() takes a function that returns float tensors, and this one returned none")
    return outs


def by_reverse(problem: Problem, only: int | None = None) -> list[NDArray[Any]]:
    """Compute the gradient of each input by a backward pass from all results, or ``only`` one; zeros if not reached."""
    device: Any = Autodiff(problem.inputs[0].device)
    leaves: list[Any] = [type(x).from_inner(x).require_grad() for x in problem.inputs]
    outs = results(problem.function, leaves)
    roots = [(out._primitive, weight._primitive) for out, weight in zip(outs, problem.weights, strict=True)]
    gradients = device.gradients(roots if only is None else [roots[only]], retain_graph=False)
    inner = device.inner
    return [
        _array(inner, gradients[leaf._primitive.node])
        if leaf._primitive.node in gradients
        else np.zeros(x.shape, x.dtype)
        for x, leaf in zip(problem.inputs, leaves, strict=True)
    ]


def by_forward(problem: Problem, directions: Mapping[int, NDArray[Any]]) -> list[NDArray[Any]]:
    """Compute the tangent of each result for tangents of the inputs at some positions; zeros if it has none."""
    inner: Any = problem.inputs[0].device
    device: Any = Forward(inner)
    duals = []
    for j, x in enumerate(problem.inputs):
        tangent = inner.from_numpy(directions[j]) if j in directions else None
        dual = device.lift(x._primitive) if tangent is None else device.dual(x._primitive, tangent)
        duals.append(tensor_of(device, dual))
    tangents = [(out, out._primitive.tangent) for out in results(problem.function, duals)]
    return [np.zeros(out.shape, out.dtype) if t is None else _array(inner, t) for out, t in tangents]


def by_differences(problem: Problem, directions: Mapping[int, NDArray[Any]]) -> float:
    """Compute the derivative of the weighted sum of the results, along directions of the inputs at some positions."""
    inner: Any = problem.inputs[0].device
    sides = []
    for step in (problem.eps, -problem.eps):
        moved = list(problem.inputs)
        for k, direction in directions.items():
            moved[k] = moved[k]._like(inner.from_numpy(moved[k].to_numpy() + step * direction))
        sides.append([out.to_numpy() for out in results(problem.function, moved)])
    # Subtract before summing, since the rounding error of each sum is as large as its largest element's.
    parts = zip(*sides, problem.weights, strict=True)
    return float(sum(((up - down) * weight.to_numpy()).sum().real for up, down, weight in parts) / (2 * problem.eps))


def _array(device: Any, primitive: Any) -> NDArray[Any]:
    return np.asarray(device.to_numpy(primitive))
