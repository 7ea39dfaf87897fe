"""Stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from burnpy.backend.errors import ArgumentError
from burnpy.backend.operations.optimizer import momentum_step
from burnpy.optim.checks import at_least_zero, fraction
from burnpy.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.backend.operations.optimizer import Step
    from burnpy.optim.optimizer import Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Sgd(Optimizer):
    """Stochastic gradient descent, optionally with momentum::

        g = grad + weight_decay · p
        v = momentum · v + (1 - dampening) · g       initially v = g
        p = p - lr · v                               nesterov: p - lr · (g + momentum · v)

    Without momentum p = p - lr · g, and there is no state. The results equal those of `torch.optim.SGD`.

    Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013.

    Args:
        momentum: the momentum coefficient, in [0, 1).
        dampening: the part of the gradient that is left out of the velocity, in [0, 1].
        nesterov: whether to use Nesterov momentum, which requires a momentum and no dampening.
        weight_decay: the coefficient of an L2 penalty.
        groups: parameters with different settings: see `Group`.
        master_weights: whether 16-bit parameters have a float32 copy: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 1, bias=False, device=Autodiff[NumPy]).map(lambda w: w * 0.0), Sgd(momentum=0.5)
    >>> for _ in range(2):
    ...     loss = model(Tensor[Autodiff[NumPy]].from_data([[1.0, 2.0]])).sum()
    ...     model = optim.step(0.5, model, loss.backward())
    >>> model.weight.value.tolist()
    [[-1.25], [-2.5]]
    """

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False

    gated: ClassVar[bool] = True

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        fraction(self.momentum, "Sgd(momentum=)")
        if at_least_zero(self.dampening, "Sgd(dampening=)") > 1:
            raise ArgumentError(f"Sgd(dampening=) is {self.dampening!r}; expected a number of at most 1")
        if self.nesterov and not (self.momentum > 0 and self.dampening == 0):
            raise ArgumentError(
                f"Sgd(nesterov=True) wants a momentum and no dampening, got momentum={self.momentum} and "
                f"dampening={self.dampening}"
            )

    @property
    def slots(self) -> tuple[str, ...]:
        """The velocity if there is momentum, otherwise nothing."""
        return ("velocity",) if self.momentum else ()

    def update(
        self, device: Backend, params: Floats, grads: Floats, states: tuple[Floats, ...], step: Step
    ) -> tuple[Floats, ...]:
        """Return the new parameters and velocities by the formula of the class."""
        if not self.momentum:
            return (device.sgd_update(params, grads, step),)
        if self.dampening and step.updates is not None:
            numbers = (step.lr, self.momentum, *step.numbers(_share, 0, self.dampening), step.weight_decay)
            flags = (bool(step.weight_decay), step.maximize, self.nesterov)
            return device.foreach(momentum_step, (params, grads, *states), numbers, flags, step.owned, step.found_inf)
        dampening = self.dampening if step.number > 1 else 0.0
        (velocities,) = states
        return device.momentum_update(params, grads, velocities, step, self.momentum, dampening, self.nesterov)


def _share(number: int, lr: float, dampening: float) -> tuple[float]:
    """Return the share of the gradient in the velocity: all of the first."""
    return (1.0 - dampening if number > 1 else 1.0,)
