"""Rprop and Lion, whose steps depend on the signs of gradients only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.backend.errors import ArgumentError
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, at_least_zero, decay_rates
from burnpy.optim.update_formula import Update, decayed, lerp

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.optim.update_formula import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class Rprop(Optimizer):
    """Resilient backpropagation: each element has a step of its own, which only signs of gradients change::

        size = size · η₊ where grad has the sign of the last, size · η₋ where it has the other; within step_sizes
        grad = 0 where it has the other sign
        p = p - size · sign(grad)

    It is for gradients of all examples, not of batches. The learning rate of the first step is the size of all steps
    there; later ones have no effect. The results equal those of `torch.optim.Rprop`.

    Source: Riedmiller and Braun, A direct adaptive method for faster backpropagation learning, 1993.

    Args:
        etas: (η₋, η₊), the factors of the size, with 0 < η₋ < 1 < η₊.
        step_sizes: the smallest and the largest size.
        weight_decay: the share of the parameter that is added to its gradient.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), Rprop()
    >>> for _ in range(3):
    ...     loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -20.0]])).sum()
    ...     model = optim.step(0.1, model, loss.backward())
    >>> [round(w, 3) for (w,) in model.weight.value.tolist()]
    [-0.364, 0.364]
    """

    etas: tuple[float, float] = (0.5, 1.2)
    step_sizes: tuple[float, float] = (1e-6, 50.0)

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        for name, pair in (("etas", self.etas), ("step_sizes", self.step_sizes)):
            value: object = pair
            if not isinstance(value, (tuple, list)) or len(value) != 2:
                raise ArgumentError(f"Rprop({name}=) is {value!r:.80}; expected two numbers")
            for part in pair:
                at_least_zero(part, f"one of Rprop({name}=)")
        if not 0.0 < self.etas[0] < 1.0 < self.etas[1]:
            raise ArgumentError(f"Rprop(etas=) is {self.etas!r}; expected a number between 0 and 1, and one above 1")
        if self.step_sizes[0] > self.step_sizes[1]:
            raise ArgumentError(f"Rprop(step_sizes=) is {self.step_sizes!r}; expected the smaller number first")

    @property
    def slots(self) -> tuple[str, ...]:
        """The last gradient, 0 where its sign had changed, and the size of the step."""
        return ("previous", "size")

    def formula(self, step: Step) -> Update:
        """Return the formula with its numbers and flags."""
        return Update(rprop_step, (*step.numbers(rprop_first, 1), *self.etas, *self.step_sizes))


def rprop_first(number: int, lr: float) -> tuple[float]:
    """Return the size of the first step, and 0 for later ones."""
    return (lr if number == 1 else 0.0,)


def rprop_step(
    b: Any, param: Float, grad: Float, previous: Float, size: Float, first: Any, shorter: Any, longer: Any,
    smallest: Any, largest: Any, decay: Any, *decay_flags: bool,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Update one parameter; ``first`` is added to a size of 0."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    size = b.add(size, first)
    turn = b.mul(b.sign(grad), b.sign(previous))
    turned = b.lt(turn, 0.0)
    size = b.where(b.gt(turn, 0.0), b.mul(size, longer), b.where(turned, b.mul(size, shorter), size))
    size = b.clamp(size, smallest, largest)
    grad = b.where(turned, b.mul(size, 0.0), grad)
    return b.sub(param, b.mul(b.sign(grad), size)), grad, size


@dataclass(frozen=True, eq=False, kw_only=True)
class Lion(Optimizer):
    """The Lion optimizer, which steps by the sign of an average::

        p = p · (1 - lr · weight_decay) - lr · sign(β₁ · m + (1 - β₁) · grad)
        m = β₂ · m + (1 - β₂) · grad

    Its learning rate is a third to a tenth of `AdamW`'s, and its weight decay three to ten times as large.

    Source: Chen et al., Symbolic discovery of optimization algorithms, 2023.

    Args:
        betas: (β₁, β₂), the decay rates of the average in the step and of the average that is kept, each in [0, 1).
        weight_decay: the decay rate of the weights, multiplied by the learning rate.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), Lion()
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, -2.0]])).sum()
    >>> [round(w, 4) for (w,) in optim.step(0.01, model, loss.backward()).weight.value.tolist()]
    [-0.01, 0.01]
    """

    betas: tuple[float, float] = (0.9, 0.99)

    ranges: ClassVar[Ranges] = {"betas": decay_rates}

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of the gradient."""
        return ("m",)

    def formula(self, step: Step) -> Update:
        """Return the formula with its numbers and flags."""
        beta1, beta2 = self.betas
        return Update(lion_step, (step.lr, 1.0 - beta1, 1.0 - beta2), decoupled=True)


def lion_step(
    b: Any, param: Float, grad: Float, mean: Float, lr: Any, share1: Any, share2: Any, decay: Any, *decay_flags: bool
) -> tuple[Float, Float]:
    """Update one parameter, with the shares 1 - β of the gradient."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    sign = b.sign(lerp(b, mean, grad, share1))
    return b.sub(param, b.mul(sign, lr)), lerp(b, mean, grad, share2)
