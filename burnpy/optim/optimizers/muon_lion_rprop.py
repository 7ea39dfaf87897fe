"""`Muon`, `Lion` and `Rprop`, the size of whose steps does not follow the size of gradients.

The steps of Rprop and Lion depend on signs only. Muon makes the matrices of its momentum orthogonal before each step,
by products of matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import Ranges, at_least_zero, count, decay_rates, fraction, number
from burnpy.optim.update_formula import Update, decayed, length, lerp

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Float
    from burnpy.optim.optimizer import Floats
    from burnpy.optim.update_formula import Step


@dataclass(frozen=True, eq=False, kw_only=True)
class Muon(Optimizer):
    """The Muon optimizer, whose steps of matrices have singular values near 1::

        m = momentum · m + (1 - momentum) · grad
        u = momentum · m + (1 - momentum) · grad         without nesterov u = m
        u = u / max(‖u‖, eps)
        u = a · u + (b · G + c · G²) · u                 ns_steps times, with G = u uᵀ; (a, b, c) = ns_coefficients
        p = p · (1 - lr · weight_decay) - lr · √max(1, outputs / inputs) · u

    A matrix is (inputs, outputs), as the weight of a `burnpy.nn.Linear`. Other parameters, and embeddings and the last
    layer, take another optimizer, in a step of its own from the same gradients::

        others = {path for path, param in model.named_params().items() if param.ndim != 2}
        grads = GradientsParams.from_grads(loss.backward(), model)
        model = muon.step(0.02, model, grads.without(others))
        model = adam.step(3e-4, model, grads.without(model.named_params().keys() - others))

    The results equal those of `torch.optim.Muon`, which multiplies in bfloat16, up to its rounding.

    Sources: Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024; Liu et al., Muon is scalable
    for LLM training, 2025.

    Args:
        momentum: the decay rate of the average of gradients, in [0, 1).
        nesterov: whether to use Nesterov momentum.
        ns_coefficients: the coefficients (a, b, c) of an iteration.
        ns_steps: the number of iterations of Newton and Schulz.
        eps: the least divisor of the average.
        adjust_lr_fn: "original" or None, as above, or "match_rms_adamw" for a factor of 0.2 · √max(inputs, outputs) to
            lr, so that rates of `AdamW` fit.
        weight_decay: the decay rate of the weights, multiplied by the learning rate.
        maximize, groups, master_weights: see `Optimizer`.

    Raises:
        ArgumentError: a setting is out of range.

    >>> from burnpy.nn import Linear
    >>> model, optim = Linear(2, 2, bias=False, device=Autodiff[NumPy]), Muon(weight_decay=0.0)
    >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[3.0, 0.0], [0.0, 1.0]])).square().sum()
    >>> from burnpy.linalg import svdvals
    >>> step = model.weight.value - optim.step(1.0, model, loss.backward()).weight.value
    >>> all(0.6 < s < 1.3 for s in svdvals(step).tolist())
    True
    """

    momentum: float = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315)
    ns_steps: int = 5
    eps: float = 1e-7
    adjust_lr_fn: Literal["original", "match_rms_adamw"] | None = "original"
    weight_decay: float = 0.1

    ranges: ClassVar[Ranges] = {"momentum": fraction, "eps": at_least_zero, "ns_steps": count}
    gated: ClassVar[bool] = True
    takes_complex: ClassVar[bool] = False

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        coefficients: object = self.ns_coefficients
        if not isinstance(coefficients, (tuple, list)) or len(coefficients) != 3:
            raise ArgumentError(f"Muon(ns_coefficients=) is {coefficients!r:.80}; expected three numbers")
        for value in self.ns_coefficients:
            number(value, "one of Muon(ns_coefficients=)")
        if self.adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ArgumentError(
                f"Muon(adjust_lr_fn=) is {self.adjust_lr_fn!r:.80}; expected 'original' or 'match_rms_adamw'"
            )

    @property
    def slots(self) -> tuple[str, ...]:
        """The average of the gradient."""
        return ("m",)

    def update(
        self, device: Backend, params: Floats, grads: Floats, states: tuple[Floats, ...], step: Step
    ) -> tuple[Floats, ...]:
        """Return the new parameters and averages by the formula of the class.

        Raises:
            ShapeError: a parameter is not a matrix.
        """
        for param in params:
            if len(param.shape) != 2:  # in a recording, primitives have no ndim
                raise ShapeError(
                    f"Muon steps matrices, got a parameter of shape {param.shape}; leave it out with "
                    "grads.without(paths), and step it with another optimizer, such as AdamW"
                )
        return super().update(device, params, grads, states, step)

    def formula(self, step: Step) -> Update:
        """Return the formula with its numbers and flags."""
        numbers = (step.lr, 1.0 - self.momentum, self.momentum, *self.ns_coefficients, int(self.ns_steps), self.eps)
        flags = (self.nesterov, self.adjust_lr_fn != "match_rms_adamw")
        return Update(muon_step, numbers, flags, decoupled=True, elementwise=False)


def muon_step(
    b: Any, param: Float, grad: Float, mean: Float, lr: Any, share: Any, momentum: Any, first: Any, third: Any,
    fifth: Any, steps: Any, eps: Any, decay: Any, nesterov: bool, original: bool, *decay_flags: bool,
) -> tuple[Float, Float]:  # fmt: skip
    """Update one parameter, with the share 1 - momentum of the gradient in the average."""
    param, grad = decayed(b, param, grad, decay, *decay_flags)
    mean = lerp(b, mean, grad, share)
    change = lerp(b, grad, mean, momentum) if nesterov else mean
    inputs, outputs = param.shape
    change = _orthogonalized(b, change, (first, third, fifth), steps, eps)
    factor = math.sqrt(max(1.0, outputs / inputs)) if original else 0.2 * math.sqrt(max(inputs, outputs))
    return b.sub(param, b.mul(b.mul(change, factor), lr)), mean


def _orthogonalized(b: Any, x: Float, coefficients: tuple[float, float, float], steps: int, eps: float) -> Float:
    """Return a matrix with the singular vectors of x, and singular values near 1."""
    first, third, fifth = coefficients
    is_tall = x.shape[0] > x.shape[1]
    x = b.mT(x) if is_tall else x
    x = b.div(x, b.clamp(length(b, x), eps, None))
    for _ in range(steps):
        gram = b.matmul_nt(x, x)
        gram = b.add(b.mul(gram, third), b.mul(b.matmul(gram, gram), fifth))
        x = b.add(b.mul(x, first), b.matmul(gram, x))
    return b.mT(x) if is_tall else x


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
