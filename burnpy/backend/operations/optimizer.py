"""Update steps of optimizers: from parameters, their gradients and the optimizer's states to new parameters and states.

Every operation takes lists with one entry per parameter, so that a backend may update all parameters in one kernel, and
returns lists in the same order: the new parameters, then each of the states. The gradient and the states of a parameter
have its shape and dtype; parameters may differ in both. What all optimizers have in common is in one `Step`.

Parameters and gradients are not changed, and new parameters are newly allocated, so that the old ones stay valid. So
are states, unless ``step.owned`` says that no other reference to the old states exists and that they are no longer
needed: then a backend may update them in place and return the same arrays. The defaults here do not; the numbers are
the same.

The arithmetic has the order of PyTorch's ``torch.optim``, and so gives the same numbers. Nothing is differentiated: a
step is not recorded in the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Float
from burnpy.backend.schema import Algebra, derived

NONE = Algebra.NONDIFFERENTIABLE


class Step(NamedTuple):
    """The settings of one update that all optimizers have in common."""

    lr: float  #: the learning rate
    number: int = 1  #: the number of this update of the parameters, from 1
    weight_decay: float = 0.0  #: the coefficient of weight decay
    maximize: bool = False  #: whether to go up the gradient instead of down
    owned: bool = False  #: whether the states may be updated in place

    def bias_correction(self, beta: float) -> float:
        """Return 1 - betaᵗ, the sum of the weights in an exponential average after t updates that began with 0."""
        return 1.0 - beta**self.number

    def gradient(self, device: Any, param: Float, grad: Float) -> Float:
        """Return the gradient to descend: negated if ``maximize``, plus ``weight_decay`` · param."""
        if self.maximize:
            grad = device.neg(grad)
        return device.add(grad, device.mul(param, self.weight_decay)) if self.weight_decay else grad


def for_each_param(f: Callable[..., tuple[Float, ...]], *lists: Sequence[Float]) -> tuple[list[Float], ...]:
    """Call ``f(param, grad, *states)`` for each parameter; return lists of the new parameters and of each new state.

    Args:
        f: a function that returns the new parameter and the new states.
        lists: parameters, gradients, and each of the states.

    >>> for_each_param(lambda param, grad, total: (param - grad, total + grad), [1.0, 2.0], [0.5, 1.0], [0.0, 0.0])
    ([0.5, 1.0], [0.5, 1.0])
    """
    rows = [f(*row) for row in zip(*lists, strict=True)]
    return tuple(map(list, zip(*rows, strict=True))) if rows else tuple([] for _ in lists[1:])


class Optimizer(OperationsBase):
    """One update step of an optimizer, over lists of parameters. `Step.weight_decay` is added as an L2 penalty."""

    @derived(NONE)
    def sgd_update(self, params: Sequence[Float], grads: Sequence[Float], step: Step) -> list[Float]:
        """Stochastic gradient descent: param - lr · grad."""
        return for_each_param(
            lambda param, grad: (self.sub(param, self.mul(step.gradient(self, param, grad), step.lr)),), params, grads
        )[0]

    @derived(NONE)
    def momentum_update(
        self,
        params: Sequence[Float],
        grads: Sequence[Float],
        velocities: Sequence[Float],
        step: Step,
        momentum: float,
        dampening: float,
        nesterov: bool,
    ) -> tuple[list[Float], list[Float]]:
        """SGD with momentum: param - lr · v with v = momentum · velocity + (1 - dampening) · grad; and v.

        With ``nesterov``, param - lr · (grad + momentum · v). A velocity of zeros without dampening gives the first
        step of ``torch.optim.SGD``.
        Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013.
        """

        def update(param: Float, grad: Float, velocity: Float) -> tuple[Float, ...]:
            grad = step.gradient(self, param, grad)
            velocity = self.add(self.mul(velocity, momentum), self.mul(grad, 1.0 - dampening) if dampening else grad)
            change = self.add(grad, self.mul(velocity, momentum)) if nesterov else velocity
            return self.sub(param, self.mul(change, step.lr)), velocity

        return for_each_param(update, params, grads, velocities)  # type: ignore[return-value]  # as many lists

    @derived(NONE)
    def adam_update(
        self,
        params: Sequence[Float],
        grads: Sequence[Float],
        means: Sequence[Float],
        squares: Sequence[Float],
        step: Step,
        beta1: float,
        beta2: float,
        eps: float,
        decoupled: bool,
    ) -> tuple[list[Float], list[Float], list[Float]]:
        """Adam: param - lr · m̂ / (√v̂ + eps), where m̂, v̂ are the bias-corrected moments; and the new moments.

        The moments are mean = beta1 · mean + (1 - beta1) · grad and square = beta2 · square + (1 - beta2) · grad².
        With ``decoupled``, the parameter is multiplied by 1 - lr · weight_decay: AdamW.
        Source: Kingma and Ba, Adam, 2015; Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019.
        """

        def update(param: Float, grad: Float, mean: Float, square: Float) -> tuple[Float, ...]:
            param, grad = _decayed(self, param, grad, step, decoupled)
            mean, square = _moments(self, grad, mean, square, beta1, beta2)
            return _adam(self, param, mean, square, step, beta1, beta2, eps), mean, square

        return for_each_param(update, params, grads, means, squares)  # type: ignore[return-value]  # as many lists

    @derived(NONE)
    def amsgrad_update(
        self,
        params: Sequence[Float],
        grads: Sequence[Float],
        means: Sequence[Float],
        squares: Sequence[Float],
        largest: Sequence[Float],
        step: Step,
        beta1: float,
        beta2: float,
        eps: float,
        decoupled: bool,
    ) -> tuple[list[Float], list[Float], list[Float], list[Float]]:
        """AMSGrad: `adam_update` with the elementwise maximum of ``largest`` and the new square, the last result.

        Source: Reddi, Kale and Kumar, On the Convergence of Adam and Beyond, 2018.
        """

        def update(param: Float, grad: Float, mean: Float, square: Float, most: Float) -> tuple[Float, ...]:
            param, grad = _decayed(self, param, grad, step, decoupled)
            mean, square = _moments(self, grad, mean, square, beta1, beta2)
            most = self.maximum(most, square)
            return _adam(self, param, mean, most, step, beta1, beta2, eps), mean, square, most

        return for_each_param(update, params, grads, means, squares, largest)  # type: ignore[return-value]  # as above

    @derived(NONE)
    def rmsprop_update(
        self,
        params: Sequence[Float],
        grads: Sequence[Float],
        squares: Sequence[Float],
        step: Step,
        alpha: float,
        eps: float,
    ) -> tuple[list[Float], list[Float]]:
        """RMSProp: param - lr · grad / (√s + eps) with s = alpha · square + (1 - alpha) · grad²; and s.

        Source: Tieleman and Hinton, Lecture 6.5 of Neural Networks for Machine Learning, 2012.
        """

        def update(param: Float, grad: Float, square: Float) -> tuple[Float, ...]:
            grad = step.gradient(self, param, grad)
            square = self.add(self.mul(square, alpha), self.mul(self.square(grad), 1.0 - alpha))
            return self.sub(param, self.div(self.mul(grad, step.lr), self.add(self.sqrt(square), eps))), square

        return for_each_param(update, params, grads, squares)  # type: ignore[return-value]  # as many lists

    @derived(NONE)
    def rmsprop_momentum_update(
        self,
        params: Sequence[Float],
        grads: Sequence[Float],
        squares: Sequence[Float],
        averages: Sequence[Float],
        velocities: Sequence[Float],
        step: Step,
        alpha: float,
        eps: float,
        momentum: float,
        centered: bool,
    ) -> tuple[list[Float], list[Float], list[Float], list[Float]]:
        """RMSProp with momentum: param - lr · v with v = momentum · velocity + grad / (√s + eps); and s, average, v.

        s is that of `rmsprop_update`. With ``centered``, average = alpha · average + (1 - alpha) · grad, and average²
        is subtracted from s under the root; otherwise ``averages`` are returned unchanged.
        Source of the centered form: Graves, Generating Sequences With Recurrent Neural Networks, 2013.
        """

        def update(param: Float, grad: Float, square: Float, average: Float, velocity: Float) -> tuple[Float, ...]:
            grad = step.gradient(self, param, grad)
            square = self.add(self.mul(square, alpha), self.mul(self.square(grad), 1.0 - alpha))
            if centered:
                average = _nearer(self, average, grad, 1.0 - alpha)
                scale = self.sqrt(self.sub(square, self.square(average)))
            else:
                average = self.add(average, 0.0)
                scale = self.sqrt(square)
            velocity = self.add(self.mul(velocity, momentum), self.div(grad, self.add(scale, eps)))
            return self.sub(param, self.mul(velocity, step.lr)), square, average, velocity

        return for_each_param(update, params, grads, squares, averages, velocities)  # type: ignore[return-value]  # as above

    @derived(NONE)
    def adagrad_update(
        self,
        params: Sequence[Float],
        grads: Sequence[Float],
        totals: Sequence[Float],
        step: Step,
        lr_decay: float,
        eps: float,
    ) -> tuple[list[Float], list[Float]]:
        """Adagrad: param - rate · grad / (√s + eps) with s = total + grad²; and s.

        With t = ``step.number``, rate = lr / (1 + (t - 1) · lr_decay).
        Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods, 2011.
        """
        rate = step.lr / (1.0 + (step.number - 1) * lr_decay)

        def update(param: Float, grad: Float, total: Float) -> tuple[Float, ...]:
            grad = step.gradient(self, param, grad)
            total = self.add(total, self.square(grad))
            return self.sub(param, self.div(self.mul(grad, rate), self.add(self.sqrt(total), eps))), total

        return for_each_param(update, params, grads, totals)  # type: ignore[return-value]  # as many lists


def _decayed(b: Optimizer, param: Float, grad: Float, step: Step, decoupled: bool) -> tuple[Float, Float]:
    """Return the parameter and the gradient after weight decay: decoupled, of the parameter; else in the gradient."""
    if not decoupled:
        return param, step.gradient(b, param, grad)
    shrunk = b.mul(param, 1.0 - step.lr * step.weight_decay) if step.weight_decay else param
    return shrunk, b.neg(grad) if step.maximize else grad


def _nearer(b: Optimizer, x: Float, y: Float, share: float) -> Float:
    """Interpolate: x + share · (y - x)."""
    return b.add(x, b.mul(b.sub(y, x), share))


def _moments(b: Optimizer, grad: Float, mean: Float, square: Float, beta1: float, beta2: float) -> tuple[Float, Float]:
    square = b.add(b.mul(square, beta2), b.mul(b.square(grad), 1.0 - beta2))
    return _nearer(b, mean, grad, 1.0 - beta1), square


def _adam(
    b: Optimizer, param: Float, mean: Float, square: Float, step: Step, beta1: float, beta2: float, eps: float
) -> Float:
    rate, root = adam_rates(step, beta1, beta2)
    return b.sub(param, b.div(b.mul(mean, rate), b.add(b.div(b.sqrt(square), root), eps)))


def adam_rates(step: Step, beta1: float, beta2: float) -> tuple[float, float]:
    """Return Adam's bias corrections: the learning rate lr / (1 - beta1ᵗ), and √(1 - beta2ᵗ), the divisor of the root
    of the second moment."""
    return step.lr / step.bias_correction(beta1), math.sqrt(step.bias_correction(beta2))
