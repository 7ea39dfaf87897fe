"""Modified Bessel functions of the first kind."""

from __future__ import annotations

from burnpy.special.elementwise_calls import of_one
from burnpy.tensor.call_errors import explained
from burnpy.tensor.linalg import floating
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B


@explained
def i0(x: Tensor[B]) -> Tensor[B]:
    """Compute I₀(x), ``x.i0()``; infinite beyond ±713.98 in float64 and ±91.9 in float32.

    >>> print(i0(Tensor[NumPy].from_data([0.25, 0.5, 1.0])).to_numpy().round(3))
    [1.016 1.063 1.266]
    """
    return floating("i0", x, "x").i0()  # type: ignore[no-any-return]  # of a Tensor


@explained
def i0e(x: Tensor[B]) -> Tensor[B]:
    """Compute e^-|x| I₀(x), which is finite everywhere. The gradient at 0 is 0.

    >>> [round(value, 4) for value in i0e(Tensor[NumPy].from_data([0.0, 1.0, 1e4])).tolist()]
    [1.0, 0.4658, 0.004]
    """
    return of_one("i0e", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def i1(x: Tensor[B]) -> Tensor[B]:
    """Compute I₁(x), the derivative of I₀.

    >>> [round(value, 4) for value in i1(Tensor[NumPy].from_data([0.0, 1.0, -1.0])).tolist()]
    [0.0, 0.5652, -0.5652]
    """
    return of_one("i1", x)  # type: ignore[no-any-return]  # a Tensor


@explained
def i1e(x: Tensor[B]) -> Tensor[B]:
    """Compute e^-|x| I₁(x), which is finite everywhere. The gradient at 0 is ½.

    >>> [round(value, 4) for value in i1e(Tensor[NumPy].from_data([0.0, 1.0, 1e4])).tolist()]
    [0.0, 0.2079, 0.004]
    """
    return of_one("i1e", x)  # type: ignore[no-any-return]  # a Tensor
