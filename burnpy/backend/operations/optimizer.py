"""Update steps of optimizers: from a parameter, its gradient and the optimizer's state to the new parameter and state.

Parameters and gradients are not changed, and new parameters are newly allocated, so that the old ones stay valid. So
are states, unless ``owned``, the last argument, says that no other reference to the old states exists and that they
are no longer needed: then a backend may update them in place and return the same arrays. The defaults here do not; the
numbers are the same.

All floats have one shape and dtype. The arithmetic has the order of PyTorch's ``torch.optim``, and so gives the same
numbers. Nothing is differentiated: a step is not recorded in the graph.
"""

from __future__ import annotations

import math

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Float
from burnpy.backend.schema import Algebra, derived

NONE = Algebra.NONDIFFERENTIABLE


class Optimizer(OperationsBase):
    """One update step of an optimizer. ``weight_decay`` adds weight_decay · param to the gradient."""

    @derived(NONE)
    def sgd_update(self, param: Float, grad: Float, lr: float, weight_decay: float) -> Float:
        """Stochastic gradient descent: param - lr · grad."""
        return self.sub(param, self.mul(_decayed(self, param, grad, weight_decay), lr))

    @derived(NONE)
    def momentum_update(
        self,
        param: Float,
        grad: Float,
        velocity: Float,
        lr: float,
        momentum: float,
        dampening: float,
        nesterov: bool,
        weight_decay: float,
        owned: bool,
    ) -> tuple[Float, Float]:
        """SGD with momentum: param - lr · v with v = momentum · velocity + (1 - dampening) · grad; and v.

        With ``nesterov``, param - lr · (grad + momentum · v). A velocity of zeros without dampening gives the first
        step of ``torch.optim.SGD``.
        Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013.
        """
        grad = _decayed(self, param, grad, weight_decay)
        velocity = self.add(self.mul(velocity, momentum), self.mul(grad, 1.0 - dampening) if dampening else grad)
        step = self.add(grad, self.mul(velocity, momentum)) if nesterov else velocity
        return self.sub(param, self.mul(step, lr)), velocity

    @derived(NONE)
    def adam_update(
        self,
        param: Float,
        grad: Float,
        mean: Float,
        square: Float,
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
        decoupled: bool,
        step: int,
        owned: bool,
    ) -> tuple[Float, Float, Float]:
        """Adam: param - lr · m̂ / (√v̂ + eps), where m̂, v̂ are the bias-corrected moments; and the new moments.

        The moments are mean = beta1 · mean + (1 - beta1) · grad and square = beta2 · square + (1 - beta2) · grad².
        ``step`` counts from 1. With ``decoupled``, the parameter is multiplied by 1 - lr · weight_decay: AdamW.
        Source: Kingma and Ba, Adam, 2015; Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019.
        """
        if not decoupled:
            grad = _decayed(self, param, grad, weight_decay)
        mean, square = _moments(self, grad, mean, square, beta1, beta2)
        param = self.mul(param, 1.0 - lr * weight_decay) if decoupled and weight_decay else param
        return _adam(self, param, mean, square, lr, beta1, beta2, eps, step), mean, square

    @derived(NONE)
    def amsgrad_update(
        self,
        param: Float,
        grad: Float,
        mean: Float,
        square: Float,
        largest: Float,
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
        decoupled: bool,
        step: int,
        owned: bool,
    ) -> tuple[Float, Float, Float, Float]:
        """AMSGrad: `adam_update` with the elementwise maximum of ``largest`` and the new square, the last result.

        Source: Reddi, Kale and Kumar, On the Convergence of Adam and Beyond, 2018.
        """
        if not decoupled:
            grad = _decayed(self, param, grad, weight_decay)
        mean, square = _moments(self, grad, mean, square, beta1, beta2)
        largest = self.maximum(largest, square)
        param = self.mul(param, 1.0 - lr * weight_decay) if decoupled and weight_decay else param
        return _adam(self, param, mean, largest, lr, beta1, beta2, eps, step), mean, square, largest

    @derived(NONE)
    def rmsprop_update(
        self,
        param: Float,
        grad: Float,
        square: Float,
        lr: float,
        alpha: float,
        eps: float,
        weight_decay: float,
        owned: bool,
    ) -> tuple[Float, Float]:
        """RMSProp: param - lr · grad / (√s + eps) with s = alpha · square + (1 - alpha) · grad²; and s.

        Source: Tieleman and Hinton, Lecture 6.5 of Neural Networks for Machine Learning, 2012.
        """
        grad = _decayed(self, param, grad, weight_decay)
        square = self.add(self.mul(square, alpha), self.mul(self.square(grad), 1.0 - alpha))
        return self.sub(param, self.div(self.mul(grad, lr), self.add(self.sqrt(square), eps))), square

    @derived(NONE)
    def rmsprop_momentum_update(
        self,
        param: Float,
        grad: Float,
        square: Float,
        average: Float,
        velocity: Float,
        lr: float,
        alpha: float,
        eps: float,
        weight_decay: float,
        momentum: float,
        centered: bool,
        owned: bool,
    ) -> tuple[Float, Float, Float, Float]:
        """RMSProp with momentum: param - lr · v with v = momentum · velocity + grad / (√s + eps); and s, average, v.

        s is that of `rmsprop_update`. With ``centered``, average = alpha · average + (1 - alpha) · grad, and average²
        is subtracted from s under the root; otherwise ``average`` is returned unchanged.
        Source of the centered form: Graves, Generating Sequences With Recurrent Neural Networks, 2013.
        """
        grad = _decayed(self, param, grad, weight_decay)
        square = self.add(self.mul(square, alpha), self.mul(self.square(grad), 1.0 - alpha))
        if centered:
            average = _nearer(self, average, grad, 1.0 - alpha)
            scale = self.sqrt(self.sub(square, self.square(average)))
        else:
            average = self.add(average, 0.0)
            scale = self.sqrt(square)
        velocity = self.add(self.mul(velocity, momentum), self.div(grad, self.add(scale, eps)))
        return self.sub(param, self.mul(velocity, lr)), square, average, velocity

    @derived(NONE)
    def adagrad_update(
        self,
        param: Float,
        grad: Float,
        total: Float,
        lr: float,
        lr_decay: float,
        eps: float,
        weight_decay: float,
        step: int,
        owned: bool,
    ) -> tuple[Float, Float]:
        """Adagrad: param - rate · grad / (√s + eps) with s = total + grad²; and s.

        ``step`` counts from 1; rate = lr / (1 + (step - 1) · lr_decay).
        Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods, 2011.
        """
        grad = _decayed(self, param, grad, weight_decay)
        total = self.add(total, self.square(grad))
        rate = lr / (1.0 + (step - 1) * lr_decay)
        return self.sub(param, self.div(self.mul(grad, rate), self.add(self.sqrt(total), eps))), total


def _decayed(b: Optimizer, param: Float, grad: Float, weight_decay: float) -> Float:
    return b.add(grad, b.mul(param, weight_decay)) if weight_decay else grad


def _nearer(b: Optimizer, x: Float, y: Float, share: float) -> Float:
    """Interpolate: x + share · (y - x)."""
    return b.add(x, b.mul(b.sub(y, x), share))


def _moments(b: Optimizer, grad: Float, mean: Float, square: Float, beta1: float, beta2: float) -> tuple[Float, Float]:
    square = b.add(b.mul(square, beta2), b.mul(b.square(grad), 1.0 - beta2))
    return _nearer(b, mean, grad, 1.0 - beta1), square


def _adam(
    b: Optimizer, param: Float, mean: Float, square: Float, lr: float, beta1: float, beta2: float, eps: float, step: int
) -> Float:
    rate, root = adam_rates(lr, beta1, beta2, step)
    return b.sub(param, b.div(b.mul(mean, rate), b.add(b.div(b.sqrt(square), root), eps)))


def adam_rates(lr: float, beta1: float, beta2: float, step: int) -> tuple[float, float]:
    """Return Adam's bias corrections: the learning rate lr / (1 - beta1**step), and √(1 - beta2**step), the divisor of
    the root of the second moment."""
    return lr / (1.0 - beta1**step), math.sqrt(1.0 - beta2**step)
