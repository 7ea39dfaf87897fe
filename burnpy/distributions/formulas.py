"""How densities are computed: as formulas of a backend, which are one pass over the memory, see `Backend.fused`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import KindError, ShapeError
from burnpy.backend.numerics.stirling import log_split
from burnpy.backend.primitives import Bool, Float
from burnpy.tensor.operands import broadcast_shape, together
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe, new_tensor
from burnpy.typevars import B

EULER = 0.5772156649015329
_LARGE = 2048
"""The number of elements from which one pass over expanded operands is faster than several passes that broadcast."""


def computed(called: str, formula: Callable[..., tuple[Float, ...]], *operands: Tensor[B]) -> Tensor[B]:
    """Return the tensor that a formula gives for float tensors that broadcast.

    Args:
        called: the method, for messages: "Normal.log_prob".
        formula: a function ``f(b, *primitives)`` of a backend, elementwise, which returns a tuple of one result.
        operands: the tensors, a value first.

    Raises:
        KindError: the value is no float tensor.
        ShapeError: the shapes do not broadcast.
        DeviceError: they are on different devices.
    """
    if not isinstance(operands[0], Tensor):
        raise KindError(f"{called}() got {describe(operands[0])}; expected a float Tensor")
    tensors = together(called, *operands)
    device: Any = tensors[0]._device
    primitives = device.promote(*[x._primitive for x in tensors])
    dtype = primitives[0].dtype
    if dtype.itemsize < 4:
        primitives = [device.cast(x, float32) for x in primitives]
    shapes = [x.shape for x in primitives]
    shape = broadcast_shape(*shapes)
    if shape is None:
        raise ShapeError(
            f"{called}() got a value of shape {shapes[0]}, which does not broadcast with parameters of shapes "
            f"{', '.join(map(str, shapes[1:]))}"
        )
    if math.prod(shape) >= _LARGE and not device.fuses(primitives):
        expanded = [x if x.shape == shape else device.expand(x, shape) for x in primitives]
        primitives = expanded if device.fuses(expanded) else primitives
    (out,) = device.fused(formula, primitives)
    return new_tensor(Tensor, device, out if out.dtype == dtype else device.cast(out, dtype))  # type: ignore[no-any-return]  # of that class


def replaced(b: Any, condition: Bool, x: Float, number: float) -> Float:
    """Return x with a number where a condition holds, through which no gradient passes there."""
    return b.where(b.discrete.bitwise_not(condition), x, number)


def impossible(b: Any, condition: Bool, x: Float) -> Float:
    """Return x, a logarithm of a density, with -inf where a condition holds."""
    return replaced(b, condition, x, -math.inf)


def whole(b: Any, x: Float) -> Bool:
    """Return where x is a whole number, 0 or larger."""
    return b.discrete.bitwise_and(b.ge(x, 0.0), b.eq(x, b.floor(x)))


def log_binomial(b: Any, successes: Float, failures: Float, p: Float, q: Float, log_p: Float, log_q: Float) -> Float:
    """Compute log(pˢ · qᶠ · Γ(s + f + 1) / (Γ(s + 1) · Γ(f + 1))) for numbers s and f, 0 or larger, and q = 1 - p."""
    none, all_ = b.eq(successes, 0.0), b.eq(failures, 0.0)
    s, f = replaced(b, none, successes, 1.0), replaced(b, all_, failures, 1.0)
    size = b.log(b.mul(b.div(s, b.add(s, f)), b.mul(f, 2.0 * math.pi)))
    inside = b.sub(log_split(b, s, f, p, q, log_p, log_q), b.mul(size, 0.5))
    return b.where(none, times_log(b, failures, log_q), b.where(all_, times_log(b, successes, log_p), inside))


def times_log(b: Any, x: Float, logarithm: Float) -> Float:
    """Compute x · logarithm, which is 0 for x = 0."""
    none = b.eq(x, 0.0)
    return b.mul(x, replaced(b, none, logarithm, 0.0))


def log1p_of_square(b: Any, x: Float) -> Float:
    """Compute log(1 + x²) without overflow."""
    size = b.maximum(b.abs(x), 1.0)
    least = b.where(b.le(b.abs(x), 1.0), x, b.reciprocal(size))
    return b.add(b.log1p(b.mul(least, least)), b.mul(b.log(size), 2.0))
