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
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.backend.dtypes import int64
from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Float, Int
from burnpy.backend.schema import NONDIFFERENTIABLE, derived

if TYPE_CHECKING:
    from burnpy.backend.operations.update_count import UpdateCount


class Step(NamedTuple):
    """The settings of one update that all optimizers have in common."""

    lr: float  #: the learning rate
    number: int = 1  #: the number of this update of the parameters, from 1
    weight_decay: float = 0.0  #: the coefficient of weight decay
    maximize: bool = False  #: whether to go up the gradient instead of down
    owned: bool = False  #: whether the states may be updated in place
    found_inf: Bool | None = None  #: where true, 0-d, parameters and states stay as they are
    updates: UpdateCount | None = None
    """The updates before this one on the device, if earlier ones may have been skipped; then ``number`` is only the
    highest that is possible, and `numbers` says what depends on it."""

    def numbers(self, formula: Callable[..., tuple[float, ...]], rates: int, *settings: Any) -> list[Any]:
        """Return the results of a formula that depends on the number of this update, for `Backend.foreach`.

        Args:
            formula: a function ``f(number, lr, *settings)`` of a module. It is computed on the host: with `updates`,
                for all numbers that are possible.
            rates: how many of its results are proportional to ``lr``. They are the first ones.
            settings: its other arguments.
        """
        if self.updates is None:
            return [*formula(self.number, self.lr, *settings)]
        device: Any = self.updates.device
        row = self.updates.row(formula, (1.0, *settings), self.number)
        return [device.mul(x, self.lr) if k < rates else x for k, x in enumerate(row)]

    def bias_correction(self, beta: float) -> float:
        """Return 1 - betaᵗ, the sum of the weights in an exponential average after t updates that began with 0."""
        return 1.0 - beta**self.number

    def decay(self, decoupled: bool) -> float:
        """Return ``weight_decay`` or, if it is decoupled, the factor 1 - lr · weight_decay of the parameter."""
        return 1.0 - self.lr * self.weight_decay if decoupled else self.weight_decay

    def gradient(self, device: Any, param: Float, grad: Float) -> Float:
        """Return the gradient to descend: negated if ``maximize``, plus ``weight_decay`` · param."""
        if self.maximize:
            grad = device.neg(grad)
        return device.add(grad, device.mul(param, self.weight_decay)) if self.weight_decay else grad

    def decayed(self, device: Any, param: Float, grad: Float, decoupled: bool) -> tuple[Float, Float]:
        """Return the parameter and the gradient to descend, after weight decay.

        Without ``decoupled``, the decay is in the `gradient`. With it, the parameter is multiplied by
        1 - lr · weight_decay. Source: Loshchilov and Hutter, Decoupled weight decay regularization, 2019.
        """
        if not decoupled:
            return param, self.gradient(device, param, grad)
        shrunk = device.mul(param, self.decay(decoupled=True)) if self.weight_decay else param
        return shrunk, device.neg(grad) if self.maximize else grad


def decayed(
    b: Any, param: Float, grad: Float, decay: Any, decays: bool, maximize: bool, decoupled: bool
) -> tuple[Float, Float]:
    """Return what `Step.decayed` does, of the number `Step.decay` and of flags, as formulas have them.

    ``decays`` is whether there is weight decay.
    """
    if maximize:
        grad = b.neg(grad)
    if decays and decoupled:
        return b.mul(param, decay), grad
    return param, b.add(grad, b.mul(param, decay)) if decays else grad


def lerp(device: Any, x: Float, y: Float, weight: float) -> Float:
    """Interpolate: x + weight · (y - x)."""
    return device.add(x, device.mul(device.sub(y, x), weight))


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

    @derived(NONDIFFERENTIABLE, flops=2)
    def sgd_update(self, params: Sequence[Float], grads: Sequence[Float], step: Step) -> list[Float]:
        """Stochastic gradient descent: param - lr · grad."""
        numbers, flags = (step.lr, step.weight_decay), (bool(step.weight_decay), step.maximize)
        return self.foreach(sgd_step, (params, grads), numbers, flags, False, step.found_inf)[0]  # type: ignore[no-any-return]  # a list

    @derived(NONDIFFERENTIABLE, consumes="velocities", flops=5)
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
        numbers = (step.lr, momentum, 1.0 - dampening, step.weight_decay)
        flags = (bool(step.weight_decay), step.maximize, nesterov)
        return self.foreach(momentum_step, (params, grads, velocities), numbers, flags, step.owned, step.found_inf)  # type: ignore[no-any-return]  # as many lists

    @derived(NONDIFFERENTIABLE, consumes=("means", "squares"), flops=13)
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
        numbers = adam_numbers(step, beta1, beta2, eps, decoupled)
        flags = (bool(step.weight_decay), step.maximize, decoupled)
        return self.foreach(adam_step, (params, grads, means, squares), numbers, flags, step.owned, step.found_inf)  # type: ignore[no-any-return]  # as many lists

    @derived(NONDIFFERENTIABLE, consumes=("means", "squares", "largest"), flops=14)
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
        numbers = adam_numbers(step, beta1, beta2, eps, decoupled)
        flags = (bool(step.weight_decay), step.maximize, decoupled)
        lists = (params, grads, means, squares, largest)
        return self.foreach(amsgrad_step, lists, numbers, flags, step.owned, step.found_inf)  # type: ignore[no-any-return]  # as many lists

    @derived(NONDIFFERENTIABLE, consumes="squares", flops=8)
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
        numbers = (step.lr, alpha, 1.0 - alpha, eps, step.weight_decay)
        flags = (bool(step.weight_decay), step.maximize)
        return self.foreach(rmsprop_step, (params, grads, squares), numbers, flags, step.owned, step.found_inf)  # type: ignore[no-any-return]  # as many lists

    @derived(NONDIFFERENTIABLE, consumes=("squares", "averages", "velocities"), flops=13)
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

        For s, see `rmsprop_update`. With ``centered``, average = alpha · average + (1 - alpha) · grad, and average² is
        subtracted from s under the root; otherwise ``averages`` are returned unchanged.
        Source of the centered form: Graves, Generating Sequences With Recurrent Neural Networks, 2013.
        """
        numbers = (step.lr, alpha, 1.0 - alpha, eps, momentum, step.weight_decay)
        flags = (bool(step.weight_decay), step.maximize, centered)
        lists = (params, grads, squares, averages, velocities)
        return self.foreach(rmsprop_momentum_step, lists, numbers, flags, step.owned, step.found_inf)  # type: ignore[no-any-return]  # as many lists

    @derived(NONDIFFERENTIABLE, consumes="totals", flops=7)
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
        numbers = (*step.numbers(adagrad_rate, 1, lr_decay), eps, step.weight_decay)
        flags = (bool(step.weight_decay), step.maximize)
        return self.foreach(adagrad_step, (params, grads, totals), numbers, flags, step.owned, step.found_inf)  # type: ignore[no-any-return]  # as many lists

    @derived(NONDIFFERENTIABLE, flops=4)
    def average_update(self, averages: Sequence[Float], totals: Sequence[Float], share: float) -> list[Float]:
        """Running averages of buffers: average · (1 - share) + mean · share.

        Each total is a vector: the sum of some values, flat, and then their number. The mean is the one by the other.
        """
        new = []
        for average, total in zip(averages, totals, strict=True):
            values, number = split_total(self, total)
            mean = self.reshape(self.div(values, number), average.shape)
            new.append(self.add(self.mul(average, 1.0 - share), self.mul(mean, share)))
        return new

    @derived(NONDIFFERENTIABLE, flops=2)
    def count_update(self, count: Int, total: Float) -> Int:
        """Add the number of values of a total, as in `average_update`, to a 0-d count of int64, rounded to an int."""
        number = self.reshape(split_total(self, total)[1], ())
        return self.discrete.add(count, self.to_int(self.round(number), int64))


def split_total(b: Any, total: Float) -> tuple[Float, Float]:
    """Return the sum of values, which is flat, and their number, of shape (1,), from one vector of both."""
    size = total.shape[0] - 1
    return b.slice(total, (slice(0, size, 1),)), b.slice(total, (slice(size, size + 1, 1),))


def sgd_step(
    b: Any, param: Float, grad: Float, lr: Any, weight_decay: Any, decays: bool, maximize: bool
) -> tuple[Float]:
    """Update one parameter as `Optimizer.sgd_update` does.

    This and the other functions of one parameter take first the arrays; then numbers, which change from step to step
    and may be 0-d primitives; then flags, which decide what is computed. So a program can be traced of them that takes
    the numbers at each call. ``decays`` is whether there is weight decay.
    """
    _, grad = decayed(b, param, grad, weight_decay, decays, maximize, decoupled=False)
    return (b.sub(param, b.mul(grad, lr)),)


def momentum_step(
    b: Any,
    param: Float,
    grad: Float,
    velocity: Float,
    lr: Any,
    momentum: Any,
    share: Any,
    weight_decay: Any,
    decays: bool,
    maximize: bool,
    nesterov: bool,
) -> tuple[Float, Float]:
    """Update one parameter as `Optimizer.momentum_update` does, with the share 1 - dampening of the gradient."""
    _, grad = decayed(b, param, grad, weight_decay, decays, maximize, decoupled=False)
    velocity = b.add(b.mul(velocity, momentum), b.mul(grad, share))
    change = b.add(grad, b.mul(velocity, momentum)) if nesterov else velocity
    return b.sub(param, b.mul(change, lr)), velocity


def adam_step(b: Any, param: Float, grad: Float, mean: Float, square: Float, *rest: Any) -> tuple[Float, Float, Float]:
    """Update one parameter as `Optimizer.adam_update` does; ``rest`` are the `adam_numbers` and the flags."""
    param, mean, square = _moments(b, param, grad, mean, square, *rest)
    return _adam(b, param, mean, square, *rest), mean, square


def amsgrad_step(
    b: Any, param: Float, grad: Float, mean: Float, square: Float, largest: Float, *rest: Any
) -> tuple[Float, Float, Float, Float]:
    """Update one parameter as `Optimizer.amsgrad_update` does; ``rest`` are the `adam_numbers` and the flags."""
    param, mean, square = _moments(b, param, grad, mean, square, *rest)
    largest = b.maximum(largest, square)
    return _adam(b, param, mean, largest, *rest), mean, square, largest


def rmsprop_step(
    b: Any,
    param: Float,
    grad: Float,
    square: Float,
    lr: Any,
    alpha: Any,
    share: Any,
    eps: Any,
    weight_decay: Any,
    decays: bool,
    maximize: bool,
) -> tuple[Float, Float]:
    """Update one parameter as `Optimizer.rmsprop_update` does, with the share 1 - alpha of the new square."""
    _, grad = decayed(b, param, grad, weight_decay, decays, maximize, decoupled=False)
    square = b.add(b.mul(square, alpha), b.mul(b.square(grad), share))
    return b.sub(param, b.div(b.mul(grad, lr), b.add(b.sqrt(square), eps))), square


def rmsprop_momentum_step(
    b: Any,
    param: Float,
    grad: Float,
    square: Float,
    average: Float,
    velocity: Float,
    lr: Any,
    alpha: Any,
    share: Any,
    eps: Any,
    momentum: Any,
    weight_decay: Any,
    decays: bool,
    maximize: bool,
    centered: bool,
) -> tuple[Float, Float, Float, Float]:
    """Update one parameter as `Optimizer.rmsprop_momentum_update` does, with the share 1 - alpha of the new square."""
    _, grad = decayed(b, param, grad, weight_decay, decays, maximize, decoupled=False)
    square = b.add(b.mul(square, alpha), b.mul(b.square(grad), share))
    if centered:
        average = lerp(b, average, grad, share)
        scale = b.sqrt(b.sub(square, b.square(average)))
    else:
        average = b.add(average, 0.0)
        scale = b.sqrt(square)
    velocity = b.add(b.mul(velocity, momentum), b.div(grad, b.add(scale, eps)))
    return b.sub(param, b.mul(velocity, lr)), square, average, velocity


def adagrad_step(
    b: Any,
    param: Float,
    grad: Float,
    total: Float,
    rate: Any,
    eps: Any,
    weight_decay: Any,
    decays: bool,
    maximize: bool,
) -> tuple[Float, Float]:
    """Update one parameter as `Optimizer.adagrad_update` does, with the `adagrad_rate`."""
    _, grad = decayed(b, param, grad, weight_decay, decays, maximize, decoupled=False)
    total = b.add(total, b.square(grad))
    return b.sub(param, b.div(b.mul(grad, rate), b.add(b.sqrt(total), eps))), total


def adam_numbers(step: Step, beta1: float, beta2: float, eps: float, decoupled: bool) -> tuple[Any, ...]:
    """Return the numbers of `adam_step`: the `adam_rates`, 1 - beta1, beta2, 1 - beta2, eps, and the weight decay or,
    where it is decoupled, the factor by which it shrinks the parameter."""
    return *step.numbers(adam_rates, 1, beta1, beta2), 1.0 - beta1, beta2, 1.0 - beta2, eps, step.decay(decoupled)


def adagrad_rate(number: int, lr: float, lr_decay: float) -> tuple[float]:
    """Return Adagrad's rate of an update."""
    return (lr / (1.0 + (number - 1) * lr_decay),)


def _moments(
    b: Any,
    param: Float,
    grad: Float,
    mean: Float,
    square: Float,
    rate: Any,
    root: Any,
    share1: Any,
    beta2: Any,
    share2: Any,
    eps: Any,
    decay: Any,
    decays: bool,
    maximize: bool,
    decoupled: bool,
) -> tuple[Float, Float, Float]:
    """Apply weight decay; return the parameter and the new moments."""
    param, grad = decayed(b, param, grad, decay, decays, maximize, decoupled)
    square = b.add(b.mul(square, beta2), b.mul(b.square(grad), share2))
    return param, lerp(b, mean, grad, share1), square


def _adam(b: Any, param: Float, mean: Float, square: Float, rate: Any, root: Any, *rest: Any) -> Float:
    eps = rest[3]
    return b.sub(param, b.div(b.mul(mean, rate), b.add(b.div(b.sqrt(square), root), eps)))


def adam_rates(number: int, lr: float, beta1: float, beta2: float) -> tuple[float, float]:
    """Return Adam's bias corrections: the learning rate lr / (1 - beta1ᵗ), and √(1 - beta2ᵗ), the divisor of the root
    of the second moment."""
    return lr / (1.0 - beta1**number), math.sqrt(1.0 - beta2**number)
