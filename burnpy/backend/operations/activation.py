"""Activation functions, and the derivatives that a backend may fuse.

Each ``*_backward`` computes grad · f'(x) for arguments of one shape. Its default is composed of differentiable
operations, so that derivatives of higher order exist. Other derivatives are formulas, which ``i.fused`` computes in one
pass over memory if the backend can, and operation by operation if not.

In ``batch=SHIFTED``, `burnpy.func.vmap` may add a leading dimension to the arguments, as no element depends on others.
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.numerics.arithmetic import (
    elu_gradient,
    hardswish_gradient,
    hardtanh_gradient,
    leaky_relu_gradient,
    logistic,
    mish,
    mish_slope,
)
from burnpy.backend.operations import OperationsBase, in_float32
from burnpy.backend.primitives import Float
from burnpy.backend.rules import SHIFTED
from burnpy.backend.schema import POINTWISE, derived


def softplus_gradient(i: Any, g: Float, x: Float, beta: float) -> tuple[Float]:
    """Multiply g by sigmoid(beta · x)."""
    return (in_float32(i, lambda b, g, x: b.mul(g, logistic(b, b.mul(x, beta))[0]), g, x),)


def mish_gradient(i: Any, g: Float, x: Float) -> tuple[Float]:
    """Multiply g by the derivative of `mish`."""
    return (in_float32(i, lambda b, g, x: b.mul(g, mish_slope(b, x)), g, x),)


class Activation(OperationsBase):
    """Activation functions of neural networks, and their gradients."""

    @derived(POINTWISE, vjp=lambda i, g, out: i.relu_backward(g, out), onnx="Relu")
    def relu(self, x: Float) -> Float:
        """Rectified linear unit, max(x, 0); NaN for NaN. The gradient at 0 is 0."""
        return self.maximum(x, 0.0)

    @derived(POINTWISE, elementwise=(), like="out", flops=1, batch=SHIFTED)
    def relu_backward(self, grad: Float, out: Float) -> Float:
        """Gradient of `relu`: grad where ``out``, the result of relu, is positive or NaN, 0 elsewhere."""
        return self.where(self.ne(out, 0.0), grad, 0.0)

    @derived(
        POINTWISE,
        flops=12,
        vjp=lambda i, g, x, approximate: i.gelu_backward(g, x, approximate),
        onnx="elementwise.gelu",
    )
    def gelu(self, x: Float, approximate: bool) -> Float:
        """Gaussian error linear unit, x · Φ(x), with Φ the normal distribution function or its tanh approximation.

        Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
        """
        return self.mul(x, _phi(self, x, approximate)[0])

    @derived(POINTWISE, elementwise=(), like="x", flops=20, batch=SHIFTED)
    def gelu_backward(self, grad: Float, x: Float, approximate: bool) -> Float:
        """Gradient of `gelu`: grad · (Φ(x) + x · φ(x)), φ the normal density; or the approximation's gradient."""
        x = self.clamp(x, -_DENSITY_IS_ZERO, _DENSITY_IS_ZERO)
        phi, rest = _phi(self, x, approximate)
        if not approximate:
            density = self.mul(self.exp(self.mul(self.square(x), -0.5)), 1 / math.sqrt(2 * math.pi))
        else:
            # Φ is sigmoid(2u): its derivative is Φ · (1 - Φ) · 2u'.
            slope = self.mul(self.add(self.mul(self.square(x), 3 * _TANH_CUBIC), 1.0), 2 * _TANH_SCALE)
            density = self.mul(self.mul(phi, rest), slope)
        return self.mul(grad, self.add(phi, self.mul(x, density)))

    @derived(POINTWISE, flops=5, vjp=lambda i, g, x: i.silu_backward(g, x))
    def silu(self, x: Float) -> Float:
        """Sigmoid linear unit (swish): x · sigmoid(x)."""
        return self.mul(x, self.sigmoid(x))

    @derived(POINTWISE, elementwise=(), like="x", flops=9, batch=SHIFTED)
    def silu_backward(self, grad: Float, x: Float) -> Float:
        """Gradient of `silu`: grad · s · (1 + x · (1 - s)), with s = sigmoid(x)."""
        s, rest = logistic(self, x)
        return self.mul(grad, self.mul(s, self.add(self.mul(x, rest), 1.0)))

    @derived(POINTWISE, flops=12, vjp=lambda i, g, x, beta: i.fused(softplus_gradient, (g, x), (beta,))[0])
    def softplus(self, x: Float, beta: float) -> Float:
        """Softplus: log(1 + exp(beta · x)) / beta.

        Computed as relu(x) + log1p(exp(-|beta · x|)) / beta, which does not overflow.
        """
        small = self.log1p(self.exp(self.neg(self.abs(self.mul(x, beta)))))
        return self.add(self.relu(x), self.div(small, beta))

    @derived(
        POINTWISE,
        flops=2,
        vjp=lambda i, g, x, negative_slope: i.fused(leaky_relu_gradient, (g, x), (negative_slope,))[0],
    )
    def leaky_relu(self, x: Float, negative_slope: float) -> Float:
        """Leaky rectified linear unit: x where x > 0, else negative_slope · x. The gradient at 0 is the slope.

        Source: Maas et al., Rectifier Nonlinearities Improve Neural Network Acoustic Models, 2013.
        """
        return self.where(self.gt(x, 0.0), x, self.mul(x, negative_slope))

    @derived(
        POINTWISE,
        flops=6,
        vjp=lambda i, g, x, alpha, scale, input_scale: i.fused(
            elu_gradient, (g, x), (alpha * scale * input_scale, scale, input_scale)
        )[0],
    )
    def elu(self, x: Float, alpha: float, scale: float, input_scale: float) -> Float:
        """Exponential linear unit: scale · x where x > 0, else scale · alpha · (exp(input_scale · x) - 1).

        Source: Clevert et al., Fast and Accurate Deep Network Learning by Exponential Linear Units, 2015.
        """
        curve = self.mul(self.expm1(self.mul(self.clamp(x, None, 0.0), input_scale)), alpha * scale)
        return self.where(self.gt(x, 0.0), self.mul(x, scale), curve)

    @derived(POINTWISE, flops=2, vjp=lambda i, g, x, low, high: i.fused(hardtanh_gradient, (g, x), (low, high))[0])
    def hardtanh(self, x: Float, low: float, high: float) -> Float:
        """Limit x to [low, high]; unlike with `clamp`, the gradient at a bound is 0."""
        return self.clamp(x, low, high)

    @derived(POINTWISE, flops=5, vjp=lambda i, g, x: i.fused(hardswish_gradient, (g, x))[0], onnx="HardSwish")
    def hardswish(self, x: Float) -> Float:
        """Piecewise approximation of silu, x · clamp(x + 3, 0, 6) / 6. The gradient is 0 up to -3 and 1 from 3.

        Source: Howard et al., Searching for MobileNetV3, 2019.
        """
        return self.mul(x, self.mul(self.clamp(self.add(x, 3.0), 0.0, 6.0), 1 / 6))

    @derived(POINTWISE, flops=16, vjp=lambda i, g, x: i.fused(mish_gradient, (g, x))[0], onnx="Mish")
    def mish(self, x: Float) -> Float:
        """Compute x · tanh(softplus(x)). Source: Misra, Mish: A Self Regularized Activation Function, 2019."""
        return in_float32(self, mish, x)


_TANH_SCALE, _TANH_CUBIC = math.sqrt(2 / math.pi), 0.044715
"""The constants of the approximation Φ(x) ≈ ½(1 + tanh(_TANH_SCALE · (x + _TANH_CUBIC · x³)))."""
_DENSITY_IS_ZERO = 40.0
"""The number beyond which normal densities are 0 in float64. The square of a larger number may be infinite."""


def _phi(b: Activation, x: Float, approximate: bool) -> tuple[Float, Float | None]:
    """Return Φ(x), the normal distribution function, and for the approximation also 1 - Φ(x). The approximation ½(1 +
    tanh u) equals sigmoid(2u)."""
    if not approximate:
        return b.mul(b.add(b.erf(b.mul(x, math.sqrt(0.5))), 1.0), 0.5), None
    cubic = b.mul(x, b.add(b.mul(b.square(x), _TANH_CUBIC), 1.0))
    return logistic(b, b.mul(cubic, 2 * _TANH_SCALE))
