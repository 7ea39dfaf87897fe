"""Adam, AdamW, AdaMax, NAdam, RAdam and LAMB."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, at_least_zero, decay_rates
from burnpy.optim.update_formula import Update, decayed, length, lerp, mean_square, root

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.optim.update_formula import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class Adam(Optimizer):
    """The Adam optimizer, which uses running averages of the gradient and of its square::

        g = grad + weight_decay · p
        m = β₁ · m + (1 - β₁) · g
        v = β₂ · v + (1 - β₂) · g²
        p = p - lr · (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + eps)

    t counts the updates of the parameter, from 1. With ``amsgrad`` the elementwise maximum of v so far replaces v in
    the last line. The results equal those of `torch.optim.Adam`.

    Sources: Kingma and Ba, Adam: A method for stochastic optimization, 2015; Reddi et al., On the convergence of Adam
    and beyond, 2018.

    Args:
        betas: (β₁, β₂), the decay rates of the averages, each in [0, 1).
        eps: added to the divisor to avoid division by zero.
        amsgrad: whether to use the maximum of v so far, so that the divisor never shrinks.
        weight_decay: the coefficient of an L2 penalty, which affects the averages; `AdamW` applies it separately.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), Adam()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 4) for (w,) in optim.step(0.01, model, loss.backward()).weight.value.tolist()]
    [-0.01, 0.01]
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    amsgrad: bool = False

    decoupled: ClassVar[bool] = False
    """True if weight decay is decoupled from the averages, as in `AdamW`."""

    ranges: ClassVar[Ranges] = {"betas": decay_rates, "eps": at_least_zero}

    @property
    def slots(self) -> tuple[str, ...]:
        """The averages of the gradient and of its square; with amsgrad, the maximum of the latter too."""
        return ("m", "v", "vmax") if self.amsgrad else ("m", "v")

    def formula(self, step: Step) -> Update:
        """Return the formula with its numbers and flags."""
        beta1, beta2 = self.betas
        numbers = (*step.numbers(adam_rates, 1, beta1, beta2), 1.0 - beta1, beta2, 1.0 - beta2, self.eps)
        return Update(amsgrad_step if self.amsgrad else adam_step, numbers, decoupled=self.decoupled)


@dataclass(frozen=True, eq=False, kw_only=True)
class AdamW(Adam):
    """`Adam` with decoupled weight decay: p is first multiplied by 1 - lr · weight_decay, and g is grad.

    The results equal those of `torch.optim.AdamW`.

    Source: Loshchilov and Hutter, Decoupled weight decay regularization, 2019.

    Args:
        betas: see `Adam`.
        eps: see `Adam`.
        amsgrad: see `Adam`.
        weight_decay: the decay rate of the weights, multiplied by the learning rate.
        groups: parameters with different settings; biases and scales of norms often have no weight decay::

            AdamW(groups=[Group(lambda path, param: len(param.shape) < 2, weight_decay=0.0)])

        master_weights: whether 16-bit parameters have a float32 copy: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.optim import Group
    >>> AdamW(weight_decay=0.1, groups=[Group("*.bias", weight_decay=0.0)]).groups
    (Group('*.bias', weight_decay=0.0),)
    """

    weight_decay: float = 0.01

    decoupled: ClassVar[bool] = True


def adam_rates(number: int, lr: float, beta1: float, beta2: float) -> tuple[float, float]:
    """Return the bias corrections of an update: the rate lr / (1 - β₁ᵗ), and 1 / √(1 - β₂ᵗ), a factor of √v. Divisions
    and roots take most of a kernel's time, so a factor is better than a divisor."""
    return lr / (1.0 - beta1**number), 1.0 / root(1.0 - beta2**number)


def adam_step(
    b: Any, param: Float, grad: Float, mean: Float, square: Float, rate: Any, scale: Any, share1: Any, beta2: Any,
    share2: Any, eps: Any, decay: Any, *decay_flags: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the `adam_rates` and the shares 1 - β of the gradient in the averages."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    square = mean_square(b, square, grad, beta2, share2)
    mean = lerp(b, mean, grad, share1)
    return b.sub(param, _change(b, mean, square, rate, scale, eps)), mean, square


def amsgrad_step(
    b: Any, param: Float, grad: Float, mean: Float, square: Float, largest: Float, rate: Any, scale: Any, share1: Any,
    beta2: Any, share2: Any, eps: Any, decay: Any, *decay_flags: bool,
) -> tuple[Float, Float, Float, Float]:  # fmt: skip
    """Update one parameter as `adam_step` does, with the maximum of the averages of the square so far."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    square = mean_square(b, square, grad, beta2, share2)
    mean = lerp(b, mean, grad, share1)
    largest = b.maximum(largest, square)
    return b.sub(param, _change(b, mean, largest, rate, scale, eps)), mean, square, largest


def _change(b: Any, mean: Float, square: Float, rate: Any, scale: Any, eps: Any) -> Float:
    return b.div(b.mul(mean, rate), b.add(b.mul(b.sqrt(square), scale), eps))


@dataclass(frozen=True, eq=False, kw_only=True)
class Adamax(Optimizer):
    """The Adamax optimizer, `Adam` with the infinity norm of past gradients in place of the 2-norm::

        g = grad + weight_decay · p
        m = β₁ · m + (1 - β₁) · g
        u = max(β₂ · u, |g| + eps)
        p = p - lr / (1 - β₁ᵗ) · m / u

    t counts the updates of the parameter, from 1. The results equal those of `torch.optim.Adamax`.

    Source: Kingma and Ba, Adam: A method for stochastic optimization, 2015, section 7.1.

    Args:
        betas: (β₁, β₂), the decay rates of the average and of the norm, each in [0, 1).
        eps: added to the magnitude of the gradient to avoid division by zero.
        weight_decay: the coefficient of an L2 penalty.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), Adamax()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 4) for (w,) in optim.step(0.01, model, loss.backward()).weight.value.tolist()]
    [-0.01, 0.01]
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    ranges: ClassVar[Ranges] = {"betas": decay_rates, "eps": at_least_zero}

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of the gradient, and the norm."""
        return ("m", "u")

    def formula(self, step: Step) -> Update:
        """Return the formula with its numbers and flags."""
        beta1, beta2 = self.betas
        return Update(adamax_step, (*step.numbers(adamax_rate, 1, beta1), 1.0 - beta1, beta2, self.eps))


def adamax_rate(number: int, lr: float, beta1: float) -> tuple[float]:
    """Return the corrected rate of an update."""
    return (lr / (1.0 - beta1**number),)


def adamax_step(
    b: Any, param: Float, grad: Float, mean: Float, norm: Float, rate: Any, share1: Any, beta2: Any, eps: Any,
    decay: Any, *decay_flags: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the corrected rate and the share 1 - β₁ of the gradient."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    mean = lerp(b, mean, grad, share1)
    norm = b.maximum(b.mul(norm, beta2), b.add(b.abs(grad), eps))
    return b.sub(param, b.div(b.mul(mean, rate), norm)), mean, norm


@dataclass(frozen=True, eq=False, kw_only=True)
class NAdam(Optimizer):
    """The NAdam optimizer, `Adam` with Nesterov momentum::

        g = grad + weight_decay · p
        μₜ = β₁ · (1 - ½ · 0.96^(t · momentum_decay))
        m = β₁ · m + (1 - β₁) · g
        v = β₂ · v + (1 - β₂) · g²
        d = √(v / (1 - β₂ᵗ)) + eps
        p = p - lr · ((1 - μₜ) / (1 - μ₁ ⋯ μₜ) · g + μₜ₊₁ / (1 - μ₁ ⋯ μₜ₊₁) · m) / d

    t counts the updates of the parameter, from 1. The results equal those of `torch.optim.NAdam`.

    Source: Dozat, Incorporating Nesterov momentum into Adam, 2016.

    Args:
        betas: (β₁, β₂), the decay rates of the averages, each in [0, 1).
        eps: added to the divisor to avoid division by zero.
        momentum_decay: how fast μ rises from half of β₁ to β₁.
        decoupled_weight_decay: whether p is multiplied by 1 - lr · weight_decay instead, as in `AdamW`.
        weight_decay: the coefficient of an L2 penalty, or the decay rate of the weights.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), NAdam()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 4) for (w,) in optim.step(0.01, model, loss.backward()).weight.value.tolist()]
    [-0.0106, 0.0106]
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    momentum_decay: float = 4e-3
    decoupled_weight_decay: bool = False

    ranges: ClassVar[Ranges] = {"betas": decay_rates, "eps": at_least_zero, "momentum_decay": at_least_zero}

    @property
    def slots(self) -> tuple[str, ...]:
        """The averages of the gradient and of its square."""
        return ("m", "v")

    def formula(self, step: Step) -> Update:
        """Return the formula with its numbers and flags."""
        beta1, beta2 = self.betas
        rates = step.numbers(nadam_rates, 2, beta1, beta2, self.momentum_decay)
        numbers = (*rates, 1.0 - beta1, beta2, 1.0 - beta2, self.eps)
        return Update(nadam_step, numbers, decoupled=self.decoupled_weight_decay)


def nadam_rates(number: int, lr: float, beta1: float, beta2: float, decay: float) -> tuple[float, float, float]:
    """Return the rates of the gradient and of its average in an update, and 1 / √(1 - β₂ᵗ), a factor of √v."""
    product = _momentum_product(beta1, decay, number)
    momentum, following = _momentum(beta1, decay, number), _momentum(beta1, decay, number + 1)
    grad_rate = lr * (1.0 - momentum) / (1.0 - product)
    return grad_rate, lr * following / (1.0 - product * following), 1.0 / math.sqrt(1.0 - beta2**number)


def nadam_step(
    b: Any, param: Float, grad: Float, mean: Float, square: Float, grad_rate: Any, mean_rate: Any, scale: Any,
    share1: Any, beta2: Any, share2: Any, eps: Any, decay: Any, *decay_flags: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the `nadam_rates` and the shares 1 - β of the gradient in the averages."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    mean = lerp(b, mean, grad, share1)
    square = mean_square(b, square, grad, beta2, share2)
    change = b.add(b.mul(grad, grad_rate), b.mul(mean, mean_rate))
    return b.sub(param, b.div(change, b.add(b.mul(b.sqrt(square), scale), eps))), mean, square


_products: dict[tuple[float, float], tuple[int, float]] = {}
"""The last number and product of `_momentum_product`, by its other arguments: a cache, so that a step is one factor."""


def _momentum(beta: float, decay: float, number: int) -> float:
    return beta * (1.0 - 0.5 * math.pow(0.96, number * decay))


def _momentum_product(beta: float, decay: float, number: int) -> float:
    known, product = _products.get((beta, decay), (0, 1.0))
    if known > number:
        known, product = 0, 1.0
    for k in range(known + 1, number + 1):
        if not product:  # as are all that follow
            break
        product *= _momentum(beta, decay, k)
    _products[beta, decay] = number, product
    return product


@dataclass(frozen=True, eq=False, kw_only=True)
class RAdam(Optimizer):
    """The RAdam optimizer, `Adam` without the division by √v as long as v is too uncertain::

        g = grad + weight_decay · p
        m = β₁ · m + (1 - β₁) · g
        v = β₂ · v + (1 - β₂) · g²
        ρ = ρ∞ - 2 · t · β₂ᵗ / (1 - β₂ᵗ)                             with ρ∞ = 2 / (1 - β₂) - 1
        r = √((ρ - 4) · (ρ - 2) · ρ∞ / ((ρ∞ - 4) · (ρ∞ - 2) · ρ))
        p = p - lr · m / (1 - β₁ᵗ) · r · √(1 - β₂ᵗ) / (√v + eps)     if ρ > 5
        p = p - lr · m / (1 - β₁ᵗ)                                   otherwise

    t counts the updates of the parameter, from 1. The results equal those of `torch.optim.RAdam`.

    Source: Liu et al., On the variance of the adaptive learning rate and beyond, 2020.

    Args:
        betas: (β₁, β₂), the decay rates of the averages, each in [0, 1).
        eps: added to the divisor to avoid division by zero.
        decoupled_weight_decay: whether p is multiplied by 1 - lr · weight_decay instead, as in `AdamW`.
        weight_decay: the coefficient of an L2 penalty, or the decay rate of the weights.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), RAdam()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 4) for (w,) in optim.step(0.01, model, loss.backward()).weight.value.tolist()]
    [-0.01, 0.02]
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    decoupled_weight_decay: bool = False

    ranges: ClassVar[Ranges] = {"betas": decay_rates, "eps": at_least_zero}

    @property
    def slots(self) -> tuple[str, ...]:
        """The averages of the gradient and of its square."""
        return ("m", "v")

    def formula(self, step: Step) -> Update:
        """Return the formula with its numbers and flags."""
        beta1, beta2 = self.betas
        rate, scale = step.numbers(radam_rates, 1, beta1, beta2)
        numbers, counted = (rate, scale, 1.0 - beta1, beta2, 1.0 - beta2, self.eps), step.updates is not None
        flags = (counted or scale > 0.0, counted)
        return Update(radam_step, numbers, flags, decoupled=self.decoupled_weight_decay)


def radam_rates(number: int, lr: float, beta1: float, beta2: float) -> tuple[float, float]:
    """Return the corrected rate of an update, and r · √(1 - β₂ᵗ); 0 as long as ρ is at most 5."""
    correction = 1.0 - beta2**number
    limit = 2.0 / (1.0 - beta2) - 1.0
    length, rate = limit - 2.0 * number * beta2**number / correction, lr / (1.0 - beta1**number)
    if length <= 5.0:
        return rate, 0.0
    ratio = (length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length)
    return rate, math.sqrt(ratio) * math.sqrt(correction)


def radam_step(
    b: Any, param: Float, grad: Float, mean: Float, square: Float, rate: Any, scale: Any, share1: Any, beta2: Any,
    share2: Any, eps: Any, decay: Any, rectified: bool, counted: bool, *decay_flags: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the `radam_rates` and the shares 1 - β of the gradient in the averages. If
    ``counted``, the device decides whether the update is rectified: where the rectification is not 0."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    mean = lerp(b, mean, grad, share1)
    square = mean_square(b, square, grad, beta2, share2)
    change = b.mul(mean, rate)
    if rectified:
        number = scale if hasattr(scale, "dtype") else b.full((), scale, param.dtype)
        scaled = b.mul(change, b.div(number, b.add(b.sqrt(square), eps)))
        change = b.where(b.ne(number, 0.0), scaled, change) if counted else scaled
    return b.sub(param, change), mean, square


@dataclass(frozen=True, eq=False, kw_only=True)
class Lamb(Optimizer):
    """The Lamb optimizer, `Adam` whose step has the length of the parameter, for large batches::

        m = β₁ · m + (1 - β₁) · grad
        v = β₂ · v + (1 - β₂) · grad²
        u = (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + eps) + weight_decay · p
        p = p - lr · ‖p‖ / ‖u‖ · u                       p - lr · u if a norm is 0

    t counts the updates of the parameter, from 1.

    Source: You et al., Large batch optimization for deep learning: Training BERT in 76 minutes, 2020.

    Args:
        betas: (β₁, β₂), the decay rates of the averages, each in [0, 1).
        eps: added to the divisor to avoid division by zero.
        weight_decay: the share of the parameter in the step.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0 + 1.0), Lamb()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 4) for (w,) in optim.step(0.01, model, loss.backward()).weight.value.tolist()]
    [0.99, 1.01]
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6

    ranges: ClassVar[Ranges] = {"betas": decay_rates, "eps": at_least_zero}

    @property
    def slots(self) -> tuple[str, ...]:
        """The averages of the gradient and of its square."""
        return ("m", "v")

    def formula(self, step: Step) -> Update:
        """Return the formula with its numbers and flags."""
        beta1, beta2 = self.betas
        corrections = step.numbers(lamb_corrections, 0, beta1, beta2)
        numbers = (step.lr, *corrections, 1.0 - beta1, beta2, 1.0 - beta2, self.eps)
        return Update(lamb_step, numbers, elementwise=False)


def lamb_corrections(number: int, lr: float, beta1: float, beta2: float) -> tuple[float, float]:
    """Return the bias corrections of an update: 1 / (1 - β₁ᵗ), and 1 / √(1 - β₂ᵗ), a factor of √v."""
    return 1.0 / (1.0 - beta1**number), 1.0 / root(1.0 - beta2**number)


def lamb_step(
    b: Any, param: Float, grad: Float, mean: Float, square: Float, lr: Any, correction: Any, scale: Any, share1: Any,
    beta2: Any, share2: Any, eps: Any, decay: Any, decays: bool, maximize: bool, decoupled: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter, with the `lamb_corrections` and the shares 1 - β of the gradient in the averages."""
    _, grad = decayed(b, param, grad, decay, False, maximize, decoupled)
    mean = lerp(b, mean, grad, share1)
    square = mean_square(b, square, grad, beta2, share2)
    change = b.div(b.mul(mean, correction), b.add(b.mul(b.sqrt(square), scale), eps))
    if decays:
        change = b.add(change, b.mul(param, decay))
    of_param, of_change = length(b, param), length(b, change)
    some = b.discrete.bitwise_and(b.gt(of_param, 0.0), b.gt(of_change, 0.0))
    ratio = b.where(some, b.div(of_param, of_change), 1.0)
    return b.sub(param, b.mul(change, b.mul(ratio, lr))), mean, square
