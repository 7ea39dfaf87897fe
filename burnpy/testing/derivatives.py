"""Derivatives of one function in three ways: by reverse mode, by forward mode, by central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burnpy.autodiff import Autodiff, Forward
from burnpy.autodiff.return_errors import probable_cause
from burnpy.backend.dtypes import float64
from burnpy.backend.errors import DeviceError, DTypeError, KindError
from burnpy.tensor.base import describe, new_tensor
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

Function: TypeAlias = Callable[..., Any]
"""From float tensors on one device to one such tensor, or a tuple or list of them."""


@dataclass(frozen=True)
class Problem:
    """A function, where to differentiate it, and the weights that make one number of its results."""

    function: Function
    inputs: tuple[Tensor[Any], ...]
    weights: list[Tensor[Any]]  #: one for each result
    before: list[NDArray[Any]]  #: copies of inputs and weights
    eps: float
    generator: np.random.Generator


def results(f: Function, inputs: Sequence[Tensor[Any]]) -> list[Tensor[Any]]:
    """What f returns, as a list.

    Raises:
        KindError: it is neither a float tensor nor a tuple or list of them.
        DeviceError: it is on another device than the inputs.
        DTypeError: it is not float64.
    """
    returned = f(*inputs)
    outs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    for k, out in enumerate(outs):
        if not isinstance(out, Tensor):
            raise KindError(
                f"gradcheck() takes a function that returns float tensors, and result {k} is {describe(out)}"
                f"{probable_cause(out)}"
            )
        if out.device is not inputs[0].device:
            raise DeviceError(f"result {k} is on {out.device}, though the inputs were on {inputs[0].device}")
        if out.dtype != float64:
            raise DTypeError(f"gradcheck() needs float64, and result {k} of the function is {out.dtype}")
    if not outs:
        raise KindError("gradcheck() takes a function that returns float tensors, and this one returned none")
    return outs


def by_reverse(problem: Problem, only: int | None = None) -> list[NDArray[Any]]:
    """The gradient by each input, by one backward pass from all results, or from one; zeros where none arrives."""
    device: Any = Autodiff(problem.inputs[0].device)
    leaves = [Tensor.from_inner(x).require_grad() for x in problem.inputs]
    outs = results(problem.function, leaves)
    roots = [(out._primitive, weight._primitive) for out, weight in zip(outs, problem.weights, strict=True)]
    found = device.gradients(roots if only is None else [roots[only]], retain_graph=False)
    inner = device.inner
    return [
        _array(inner, found[leaf._primitive.node]) if leaf._primitive.node in found else np.zeros(x.shape, x.dtype)
        for x, leaf in zip(problem.inputs, leaves, strict=True)
    ]


def by_forward(problem: Problem, k: int, direction: NDArray[Any]) -> list[NDArray[Any]]:
    """The tangent of each result where input k moves in ``direction``; zeros where none arrives."""
    inner: Any = problem.inputs[0].device
    device: Any = Forward(inner)
    duals = []
    for j, x in enumerate(problem.inputs):
        dual = device.dual(x._primitive, inner.from_numpy(direction)) if j == k else device.lift(x._primitive)
        duals.append(new_tensor(Tensor, device, dual))
    tangents = [(out, out._primitive.tangent) for out in results(problem.function, duals)]
    return [np.zeros(out.shape, out.dtype) if t is None else _array(inner, t) for out, t in tangents]


def by_differences(problem: Problem, k: int, direction: NDArray[Any]) -> float:
    """The derivative of the weighted sum of the results where input k moves in ``direction``."""
    inner: Any = problem.inputs[0].device
    here = problem.inputs[k].to_numpy()
    sides = []
    for step in (problem.eps, -problem.eps):
        moved = problem.inputs[k]._like(inner.from_numpy(here + step * direction))
        outs = results(problem.function, [*problem.inputs[:k], moved, *problem.inputs[k + 1 :]])
        sides.append([out.to_numpy() for out in outs])
    # The difference of each element before the sum: the sum of all would be rounded to the size of the largest.
    parts = zip(*sides, problem.weights, strict=True)
    return float(sum(((up - down) * weight.to_numpy()).sum() for up, down, weight in parts) / (2 * problem.eps))


def _array(device: Any, primitive: Any) -> NDArray[Any]:
    return np.asarray(device.to_numpy(primitive))
