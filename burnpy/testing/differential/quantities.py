"""Quantities of a function at given arguments: values, gradient, tangent, Hessian-vector product; for batches, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burnpy.backend.dtypes import float64
from burnpy.backend.primitives import INEXACT
from burnpy.func import grad, hvp, jvp
from burnpy.tensor.generator import manual_seed
from burnpy.tensor.tensor import Tensor
from burnpy.testing.differential.calls import constant, flat
from burnpy.testing.rounding import restarted

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 7
"""The seed before each computation, so that all draw the same numbers."""
EXAMPLES = 3
"""The number of examples of a batch."""

Arrays: TypeAlias = list["NDArray[Any]"]
Function: TypeAlias = Callable[..., Any]


class Unsuitable(Exception):  # no error: it says that a comparison has no meaning
    """A transformation cannot be compared for a sample, such as differences at a kink."""


@dataclass(frozen=True)
class Traits:
    """The traits of a function by which transformations are chosen and judged."""

    draws: bool = False  #: whether it draws random numbers
    by_value: bool = False  #: whether how many it draws depends on values
    differentiable: bool = True  #: whether derivatives are those of its values: nothing is detached
    narrow: bool = False  #: whether it converts to float32 on the way
    loose: float = 1.0  #: the factor by which rounding errors may exceed those of simple operations


class Case:
    """A function with its arguments, at which quantities are computed and kept.

    Args:
        f: a function of float tensors that returns tensors, one or several.
        inputs: its arguments, as float64 arrays.
        device: the backend.
        traits: the function's traits.
    """

    def __init__(self, f: Function, inputs: Sequence[NDArray[Any]], device: Any, traits: Traits = Traits()) -> None:
        self.given, self.f, self.device = f, restarted(f), device
        self.inputs = [np.asarray(x, float64) for x in inputs]
        self.traits = traits
        self.rng = np.random.default_rng(1)
        self.directions = [
            self.rng.uniform(0.5, 1.5, x.shape) * self.rng.choice([-1.0, 1.0], x.shape) for x in self.inputs
        ]
        self._kept: dict[Any, Arrays] = {}
        out = flat(self.run(self.f, self.tensors()))
        self.float_results = [k for k, x in enumerate(out) if x.kind in INEXACT]
        self.weights = [self.rng.uniform(0.5, 1.5, out[k].shape) for k in self.float_results]

    def arrays(self, variant: int = 0) -> Arrays:
        """Return the arguments, or other values for them: the same numbers, a little smaller and in another order."""
        if not variant:
            return self.inputs
        return [np.roll(x.reshape(-1), variant).reshape(x.shape) * (1 - 0.07 * variant) for x in self.inputs]

    def tensors(self, variant: int = 0, device: Any = None, dtype: str = "float64") -> list[Any]:
        """Return the arguments as tensors."""
        on = self.device if device is None else device
        return [Tensor.from_data(x, dtype=dtype, device=on) for x in self.arrays(variant)]

    def run(self, f: Function, xs: Sequence[Any]) -> Any:
        """Call a function from the same state of the generators."""
        if self.traits.draws:
            manual_seed(SEED)
        return f(*xs)

    def compute(self, f: Function, xs: Sequence[Any] | None = None) -> Arrays:
        """Call a function, and return its results as arrays."""
        return [np.asarray(x.to_numpy()) for x in flat(self.run(f, self.tensors() if xs is None else xs))]

    def loop(self, f: Function, examples: Sequence[Sequence[Any]] | None = None) -> Arrays:
        """Call a function for each example of the batch, and stack the results."""
        given = [self.tensors(k) for k in range(EXAMPLES)] if examples is None else examples
        return _stacked([self.compute(f, xs) for xs in given])

    def eager(self, quantity: str, variant: int = 0) -> Arrays:
        """Return a quantity, computed plainly in float64."""
        key = quantity, variant
        if key not in self._kept:
            self._kept[key] = self.compute(self.functions[quantity], self.tensors(variant))
        return self._kept[key]

    def batch(self, quantity: str) -> Arrays:
        """Return a quantity for each example of a batch, computed in a loop, stacked."""
        return _stacked([self.eager(quantity, k) for k in range(EXAMPLES)])

    def stacked(self, device: Any = None, dims: Sequence[int] | None = None, dtype: str = "float64") -> list[Any]:
        """Return the arguments of the batch."""
        on = self.device if device is None else device
        columns = zip(*[self.arrays(k) for k in range(EXAMPLES)], strict=True)
        at = dims or [0] * len(self.inputs)
        return [Tensor.from_data(np.stack(c, axis=d), dtype=dtype, device=on) for c, d in zip(columns, at, strict=True)]

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The quantities as functions of the arguments."""
        return quantities(self, self.f)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The positions of the arguments."""
        return tuple(range(len(self.inputs)))


def _stacked(each: Sequence[Arrays]) -> Arrays:
    if any(x.shape != y.shape for other in each[1:] for x, y in zip(each[0], other, strict=True)):
        raise Unsuitable("shapes depend on values")
    return [np.stack(column) for column in zip(*each, strict=True)]


def quantities(case: Case, f: Function) -> dict[str, Function]:
    """Return the quantities of a function with the arguments of a case."""

    def loss(*xs: Any) -> Any:
        out = flat(f(*xs))
        terms = [(out[k] * constant(w, out[k])).sum() for k, w in zip(case.float_results, case.weights, strict=True)]
        return sum(terms[1:], terms[0])

    def floats(*xs: Any) -> Any:
        out = flat(f(*xs))
        return tuple([out[k] for k in case.float_results])

    def tangents(xs: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([constant(d, x) for d, x in zip(case.directions, xs, strict=True)])

    return {
        "values": lambda *xs: tuple(flat(f(*xs))),
        "loss": loss,
        "gradient": grad(loss, case.numbers),
        "tangent": lambda *xs: jvp(floats, xs, tangents(xs))[1],
        "hvp": lambda *xs: hvp(loss, xs, tangents(xs))[1],
    }
