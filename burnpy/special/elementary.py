"""Elementary functions under their names in ``torch.special``, and the calls of operations of one to three operands."""

from __future__ import annotations

from typing import Any

from burnpy.backend.errors import KindError, ShapeError
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import DimsLike
from burnpy.tensor.linalg import floating
from burnpy.tensor.operands import broadcast_shape, explain, explain_memory, operands, together
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, new_tensor
from burnpy.typevars import B


def of_one(operation: str, x: Any) -> Any:
    """Return the result of an operation of a float tensor."""
    x = floating(operation, x, "x")
    try:
        return new_tensor(Tensor, x._device, getattr(x._backend, operation)(x._primitive))
    except MemoryError as error:
        explain_memory(error, operation, x)
        raise


def of_two(operation: str, x: Any, y: Any) -> Any:
    """Return the result of an operation of two operands, a float tensor and another or a number."""
    x = first_operand(operation, x, y)
    tensor, value = operands(x, y, operation)
    try:
        return new_tensor(Tensor, tensor._device, getattr(tensor._backend, operation)(tensor._primitive, value))
    except Exception as error:  # of the array library, of any class; it is explained or raised again
        explain(error, operation, x, y)
        raise


def of_three(operation: str, **operands: Any) -> Any:
    """Return the result of an operation of three float tensors or numbers, at least one a tensor."""
    some = next((x for x in operands.values() if isinstance(x, TensorBase)), None)
    if some is None:
        shown = " and ".join(map(describe, operands.values()))
        raise KindError(f"{operation}() takes float Tensors and numbers, at least one Tensor, got {shown}")
    tensors = [
        Tensor.from_data(float(x), dtype=some.dtype, device=some.device)
        if isinstance(x, (int, float))
        else floating(operation, x, name)
        for name, x in operands.items()
    ]
    if broadcast_shape(*[x.shape for x in tensors]) is None:
        shown = " and ".join(str(x.shape) for x in tensors)
        raise ShapeError(f"{operation}() got shapes {shown}, which do not broadcast")
    first, *_ = tensors = list(together(operation, *tensors))
    return first._like(getattr(first._backend, operation)(*[x._primitive for x in tensors]))


def first_operand(operation: str, x: Any, y: Any) -> Any:
    """Return the first operand as a float tensor: a number becomes a 0-d tensor beside y."""
    if isinstance(x, (int, float)) and isinstance(y, TensorBase):
        y = floating(operation, y, "y")
        return Tensor.from_data(float(x), dtype=y.dtype, device=y.device)
    if not isinstance(x, TensorBase):
        raise KindError(f"{operation}() takes a float Tensor or a number beside one, got {describe(x)}")
    return floating(operation, x, "x")


@explained
def entr(x: Tensor[B]) -> Tensor[B]:
    """Compute -x · log(x), which is 0 at 0 and -inf for negative x. The gradient at 0 is inf.

    >>> entr(Tensor[NumPy].from_data([-1.0, 0.0, 0.5])).tolist()[:2]
    [-inf, 0.0]
    """
    return of_one("entr", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def xlog1py(x: Tensor[B] | float, y: Tensor[B] | float) -> Tensor[B]:
    """Compute x · log(1 + y), which is 0 at x = 0 unless y is NaN. One of both may be a Python number.

    >>> xlog1py(Tensor[NumPy].from_data([0.0, 2.0]), Tensor[NumPy].from_data([-1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    return of_two("xlog1py", x, y)  # type: ignore[no-any-return]  # a Tensor


@explained
def xlogy(x: Tensor[B] | float, y: Tensor[B] | float) -> Tensor[B]:
    """Compute x · log(y), ``x.xlogy(y)``, which is 0 at x = 0 unless y is NaN. One of both may be a Python number.

    >>> print(xlogy(Tensor[NumPy].from_data([0.25, 0.5, 1.0]), 2.0).to_numpy().round(3))
    [0.173 0.347 0.693]
    """
    return first_operand("xlogy", x, y).xlogy(y)  # type: ignore[no-any-return]  # of a Tensor


@explained
def exp2(x: Tensor[B]) -> Tensor[B]:
    """Compute 2ˣ, ``x.exp2()``.

    >>> print(exp2(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [1.189 1.414 2.   ]
    """
    return floating("exp2", x, "x").exp2()  # type: ignore[no-any-return]  # of a Tensor


@explained
def expm1(x: Tensor[B]) -> Tensor[B]:
    """Compute exp(x) - 1, ``x.expm1()``.

    >>> print(expm1(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [0.284 0.649 1.718]
    """
    return floating("expm1", x, "x").expm1()  # type: ignore[no-any-return]  # of a Tensor


@explained
def log1p(x: Tensor[B]) -> Tensor[B]:
    """Compute log(1 + x), ``x.log1p()``.

    >>> print(log1p(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [0.223 0.405 0.693]
    """
    return floating("log1p", x, "x").log1p()  # type: ignore[no-any-return]  # of a Tensor


@explained
def expit(x: Tensor[B]) -> Tensor[B]:
    """Compute the logistic sigmoid, ``x.sigmoid()``.

    >>> print(expit(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [0.562 0.622 0.731]
    """
    return floating("expit", x, "x").sigmoid()  # type: ignore[no-any-return]  # of a Tensor


@explained
def logit(x: Tensor[B], eps: float | None = None) -> Tensor[B]:
    """Compute the inverse of `expit`, ``x.logit(eps)``; see `burnpy.Tensor.logit`.

    >>> print(logit(Tensor[NumPy].from_data([0.25, 0.5, 0.75])).to_numpy().round(3))
    [-1.099  0.     1.099]
    """
    return floating("logit", x, "x").logit(eps)  # type: ignore[no-any-return]  # of a Tensor


@explained
def sinc(x: Tensor[B]) -> Tensor[B]:
    """Compute sin(πx) / (πx), ``x.sinc()``.

    >>> print(sinc(Tensor[NumPy].from_data([0.0, 0.25, 0.5])).to_numpy().round(3))
    [1.    0.9   0.637]
    """
    return floating("sinc", x, "x").sinc()  # type: ignore[no-any-return]  # of a Tensor


@explained
def round(x: Tensor[B], *, decimals: int = 0) -> Tensor[B]:
    """Round to a number of decimals, ``x.round(decimals)``; halves to the even neighbour.

    >>> round(Tensor[NumPy].from_data([0.5, 1.5, -2.5])).tolist()
    [0.0, 2.0, -2.0]
    """
    return floating("round", x, "x").round(decimals)  # type: ignore[no-any-return]  # of a Tensor


@explained
def softmax(x: Tensor[B], dim: int) -> Tensor[B]:
    """Compute exponentials divided by their sum, ``x.softmax(dim)``.

    >>> print(softmax(Tensor[NumPy].from_data([0.25, 0.5, 1.0]), dim=0).to_numpy().round(3))
    [0.227 0.292 0.481]
    """
    return floating("softmax", x, "x").softmax(dim)  # type: ignore[no-any-return]  # of a Tensor


@explained
def log_softmax(x: Tensor[B], dim: int) -> Tensor[B]:
    """Compute the logarithm of `softmax`, ``x.log_softmax(dim)``.

    >>> print(log_softmax(Tensor[NumPy].from_data([0.25, 0.5, 1.0]), dim=0).to_numpy().round(3))
    [-1.482 -1.232 -0.732]
    """
    return floating("log_softmax", x, "x").log_softmax(dim)  # type: ignore[no-any-return]  # of a Tensor


@explained
def logsumexp(x: Tensor[B], dim: DimsLike, keepdim: bool = False) -> Tensor[B]:
    """Compute the logarithm of the sum of exponentials, ``x.logsumexp(dim, keepdim)``.

    >>> print(logsumexp(Tensor[NumPy].from_data([0.25, 0.5, 1.0]), dim=0).to_numpy().round(3))
    1.732
    """
    return floating("logsumexp", x, "x").logsumexp(dim, keepdim)  # type: ignore[no-any-return]  # of a Tensor
