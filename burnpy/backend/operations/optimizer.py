"""Updates of optimizers: from a parameter, its gradient and the optimizer's state to all of them after one step.

Parameters and gradients are left as they are, and new parameters are new memory, so that whoever holds the old ones
still can use them. So are states, but where ``owned``, the last argument, says that nobody else holds the old ones and
nobody needs them: then a backend may write the next states into their memory, and return those very arrays. The
defaults here do not; the numbers are the same.

All floats are of one shape and dtype. The order of the arithmetic is that of PyTorch's ``torch.optim``, so that the
numbers are too. Nothing is differentiated: a step is not part of what was recorded.
"""

from __future__ import annotations

import math

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Float
from burnpy.backend.schema import Algebra, derived

NONE = Algebra.NONDIFFERENTIABLE


class Optimizer(OperationsBase):
    """One step each. ``weight_decay`` adds that much of the parameter to its gradient."""

    @derived(NONE)
    def sgd_update(self, param: Float, grad: Float, lr: float, weight_decay: float) -> Float:
        """param - lr · grad."""
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
        """A step along the velocity momentum · velocity + (1 - dampening) · grad; and that velocity.

        With ``nesterov`` along grad + momentum · velocity. A velocity of zeros without dampening is torch's first step.
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
        """A step along the mean of the gradients over the root of their mean square; and both means.

        ``step`` counts from 1. With ``decoupled`` the parameter itself decays, by lr · weight_decay of it: AdamW.
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
        """`adam_update` over the root of the largest mean square so far, which is the last result.

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
        """A step along the gradient over the root of its mean square; and that mean square.

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
        """`rmsprop_update` with momentum; ``centered`` divides by the standard deviation; and the three states.

        ``average``, the mean of the gradients, stays as it is where it is not needed.
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
        """A step along the gradient over the root of the sum of its squares so far; and that sum.

        ``step`` counts from 1; the rate is lr / (1 + (step - 1) · lr_decay).
        Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods, 2011.
        """
        grad = _decayed(self, param, grad, weight_decay)
        total = self.add(total, self.square(grad))
        rate = lr / (1.0 + (step - 1) * lr_decay)
        return self.sub(param, self.div(self.mul(grad, rate), self.add(self.sqrt(total), eps))), total


def _decayed(b: Optimizer, param: Float, grad: Float, weight_decay: float) -> Float:
    return b.add(grad, b.mul(param, weight_decay)) if weight_decay else grad


def _nearer(b: Optimizer, x: Float, y: Float, share: float) -> Float:
    """x moved toward y by a share of the way."""
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
    """The rate of a step of Adam, and what the root of the mean square is divided by: both correct for the zeros that
    the means began with."""
    return lr / (1.0 - beta1**step), math.sqrt(1.0 - beta2**step)
