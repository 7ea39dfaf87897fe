"""Formulas as users write them by hand, of functions that every peer has, for `benchmarks.compiled`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Formula: TypeAlias = Callable[..., Any]

STEPS = 200
"""The steps of the recurrent network."""


@dataclass(frozen=True)
class Functions:
    """The functions of a peer that formulas call."""

    exp: Formula
    log: Formula
    sin: Formula
    sqrt: Formula
    tanh: Formula
    total: Formula  #: the sum of all elements
    row_sum: Formula  #: along the last dim, which is kept
    row_mean: Formula
    row_max: Formula
    pick: Formula  #: the element of each row at an index, along the last dim
    grad: Formula  #: the gradient of a function with a 0-d result
    scan: Formula  #: all carries of a function of carry and slice that returns the new carry, stacked


def gelu(f: Functions, x: Any) -> Any:
    """Return GELU in its approximation by a hyperbolic tangent."""
    return x * 0.5 * (1.0 + f.tanh((x + x * x * x * 0.044715) * 0.7978845608028654))


def layer_norm(f: Functions, x: Any, weight: Any, bias: Any) -> Any:
    """Return rows with mean 0 and variance 1, scaled and shifted."""
    centred = x - f.row_mean(x)
    return centred / f.sqrt(f.row_mean(centred * centred) + 1e-5) * weight + bias


def residual(f: Functions, x: Any, a: Any) -> Any:
    """Return the squared residual of u″ + u u′ = sin u, for u = a tanh(x) sin(x)."""

    def u(x: Any) -> Any:
        return a * f.tanh(x) * f.sin(x)

    first = f.grad(lambda x: f.total(u(x)))
    second = f.grad(lambda x: f.total(first(x)))
    value = u(x)
    r = second(x) + value * first(x) - f.sin(value)
    return r * r


def cross_entropy(f: Functions, logits: Any, labels: Any) -> Any:
    """Return the negative logarithm of the softmax at the labels."""
    shifted = logits - f.row_max(logits)
    return f.log(f.row_sum(f.exp(shifted))) - f.pick(shifted, labels)


def leapfrog(f: Functions, q: Any, p: Any, a: Any) -> Any:
    """Return position and energy after ten leapfrog steps of Hamiltonian Monte Carlo."""

    def potential(q: Any) -> Any:
        return f.total(q * (a @ q)) * 0.5 + f.total(q * q * q * q) * 0.1

    slope = f.grad(potential)
    p = p - slope(q) * 0.05
    for _ in range(10):
        q = q + p * 0.1
        p = p - slope(q) * 0.1
    return q + (potential(q) + f.total(p * p) * 0.5)


def recurrent(f: Functions, xs: Any, h: Any, wx: Any, wh: Any, b: Any) -> Any:
    """Return all states of a recurrent network, by a loop that is one operation where the peer has one.

    With the last state alone, most gradients would be subnormal numbers, which processors take long to compute with.
    """
    return f.scan(lambda h, x: f.tanh(x @ wx + h @ wh + b), h, xs)


@dataclass(frozen=True)
class Case:
    """A formula with arguments, and the positions of those by which it is differentiated."""

    formula: Formula
    arguments: Sequence[Array]
    leaves: Sequence[int]
    both: bool = True  #: whether it is measured with gradients, too
    compiles: bool = True  #: whether a peer that unrolls loops compiles it within minutes


def cases(small: bool) -> dict[str, Case]:
    """Return the cases by name; ``small`` ones only show that everything runs."""
    rng = np.random.default_rng(0)

    def x(*shape: int, scale: float = 1.0) -> Array:
        return (rng.normal(size=shape) * scale).astype(np.float32)

    made: dict[str, Case] = {}
    sizes = {"10⁴": 10**4, "10⁵": 10**5, "10⁶": 10**6}
    for name, n in ({"10³": 10**3} if small else sizes).items():
        made[f"GELU, {name}"] = Case(gelu, [x(n)], [0])
        made[f"layer norm, {name}"] = Case(layer_norm, [x(n // 250, 250), x(250), x(250)], [0, 1, 2])
        if n != 10**5:
            made[f"PDE with u″, {name}"] = Case(residual, [x(n), x(n)], [1])
    rows, classes = (4, 10) if small else (1024, 1000)
    labels = rng.integers(0, classes, (rows, 1))
    made[f"cross entropy, {rows} × {classes}"] = Case(cross_entropy, [x(rows, classes), labels], [0])
    made["HMC, 10 leapfrogs, d = 10"] = Case(leapfrog, [x(10), x(10), np.eye(10, dtype=np.float32) + 0.1], [], False)
    steps = 3 if small else STEPS
    weights = [x(16, 64, scale=0.1), x(32, 64, scale=0.1), x(64, 64, scale=0.1), x(64)]
    made[f"RNN, {steps} steps"] = Case(recurrent, [x(steps, 16, 32), *weights], [2, 3, 4], compiles=False)
    return made
