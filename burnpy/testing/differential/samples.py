"""Samples: random pure functions of tensors, made from the schema, the conformance suite's rows and building blocks.

A `Case` is a function with arguments, and computes its quantities there: values, gradient, tangent and Hessian-vector
product, of one example or of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burnpy.backend import NumPy
from burnpy.backend.dtypes import float64, kind_of
from burnpy.backend.primitives import INEXACT
from burnpy.backend.schema import Algebra
from burnpy.func import grad, hvp, jvp
from burnpy.tensor.generator import manual_seed
from burnpy.tensor.tensor import Tensor
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.blocks import BLOCKS, Block
from burnpy.testing.differential import calls
from burnpy.testing.differential.calls import Applied, array_source, constant, evaluated, flat, mapped, refs, written
from burnpy.testing.rounding import restarted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.entries import Operation

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


@dataclass(frozen=True, eq=False)
class Step:
    """A call of an operation of the schema, or of a building block, and the number of its results."""

    name: str
    args: tuple[Any, ...]
    results: int
    block: Block | None = None

    def of(self, values: Sequence[Any], like: Any) -> list[Any]:
        """Compute the results, with the values of inputs and earlier steps."""
        args = [evaluated(a, values, like) for a in self.args]
        if self.block is None:
            return calls.flat(calls.call(self.name, *args))
        return calls.of_block(self.block, *args)


@dataclass(frozen=True, eq=False)
class Sample:
    """A random function: its arguments as float64 arrays, its steps, and the numbers of the values it returns."""

    inputs: tuple[NDArray[Any], ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    narrow: bool = False  #: whether it converts to float32 on the way
    rough: bool = False  #: whether a row does not compare derivatives of its example

    def __call__(self, *xs: Any) -> Any:
        """Compute the function of tensors; the result is a tuple."""
        values = [*xs]
        for step in self.steps:
            values += step.of(values, xs[0])
        return tuple([values[k] for k in self.outputs])

    @property
    def traits(self) -> Traits:
        """The traits by which transformations are chosen and judged."""
        blocks = [step.block for step in self.steps if step.block is not None]
        names = [step.name for step in self.steps if step.block is None]
        return Traits(
            any(block.draws for block in blocks),
            any(block.by_value for block in blocks),
            not self.rough
            and not any(_detaches(calls.operation(name)) for name in names)
            and not any(block.by_value for block in blocks),
            self.narrow or any(block.narrow for block in blocks),
            max([*[ROWS[name].loose for name in names], *[block.loose for block in blocks]], default=1.0),
        )

    @property
    def names(self) -> list[str]:
        """The operations and building blocks."""
        return [step.name for step in self.steps]

    def has_infinite_slope(self) -> bool:
        """Return whether a step has an infinite value or derivative, so that the chain has 0 · infinity."""
        values = [Tensor.from_data(x, device=reference_device()) for x in self.inputs]
        for step in self.steps:
            floats = sorted({n for n in refs(step.args) if values[n].kind == "float"})

            found = step.of(values, values[0])
            xs = [values[n] for n in floats]
            slopes = grad(partial(_total, step, values, floats), tuple(range(len(xs))))(*xs) if xs else ()
            infinite = [g.isinf() for g in slopes] + [~r.isfinite() for r in found if r.kind == "float"]
            if any(mask.any().item() for mask in infinite):
                return True
            values += found
        return False

    def values_at(self, inputs: Sequence[Any]) -> list[NDArray[Any]]:
        """Return the arrays of all values, in float64."""
        values: list[Any] = [Tensor.from_data(x, device=reference_device()) for x in inputs]
        for step in self.steps:
            values += step.of(values, values[0])
        return [x.to_numpy() for x in values]

    def source(self) -> str:
        """Return the function as Python code."""
        names = [f"x{k}" for k in range(len(self.inputs))]
        lines = [f"def f({', '.join(names)}):"]
        for step in self.steps:
            new = [f"v{len(names) + k}" for k in range(step.results)]
            args = ", ".join(written(a, names) for a in step.args)
            shown = f'call("{step.name}", {args})' if step.block is None else f'block("{step.name}", {args})'
            if step.block is not None and step.name not in BLOCKS:  # of the caller's own
                shown = f"{step.block.function.__name__}({args})"
            lines.append(f"    {', '.join(new)} = {shown if len(new) > 1 else f'flat({shown})[0]'}")
            names += new
        lines.append(f"    return {', '.join(names[k] for k in self.outputs)}{',' if len(self.outputs) == 1 else ''}")
        arrays = [f"np.{np.array2string(x, separator=', ', precision=17, threshold=9999)!s}" for x in self.inputs]
        lines += [f"x{k} = {array_source(x)}" for k, x in enumerate(self.inputs)] if arrays else []
        return "\n".join(lines)

    def smaller(self) -> Iterator[Sample]:
        """Yield simpler functions, each with less in one place."""
        for k in range(len(self.outputs)) if len(self.outputs) > 1 else ():
            yield self._pruned(self.outputs[:k] + self.outputs[k + 1 :])
        values = self._values()
        first = len(self.inputs)
        for number in reversed(range(first, len(values))):  # begin later: a value becomes an argument
            if values[number] is not None and kind_of(values[number].dtype) == "float":
                yield self._with_input(number, values[number])
        for number in reversed(range(first, len(values))):  # leave out a step: another value takes its place
            for other in range(number):
                a, b = values[number], values[other]
                if a is not None and b is not None and a.shape == b.shape and a.dtype == b.dtype:
                    yield self._renumbered(partial(_instead, number, other))
        for number in reversed(range(first, len(values))):  # return earlier
            if number not in self.outputs and values[number] is not None:
                yield self._pruned((number,))
        for k in range(len(self.steps)):
            yield from self._plainer(k)

    def plainer_inputs(self) -> Iterator[Sample]:
        """Yield the sample with inputs of fewer digits, or of fewer elements."""
        for k, x in enumerate(self.inputs):
            for digits in (0, 1, 2):
                if (rounded := np.round(x, digits)).tobytes() != x.tobytes():
                    yield replace(self, inputs=(*self.inputs[:k], rounded, *self.inputs[k + 1 :]))
            for axis, n in enumerate(x.shape):
                if n > 1:
                    half = x.take(np.arange((n + 1) // 2), axis)
                    yield replace(self, inputs=(*self.inputs[:k], half, *self.inputs[k + 1 :]))

    def _plainer(self, k: int) -> Iterator[Sample]:
        step = self.steps[k]
        for j, a in enumerate(step.args):
            if isinstance(a, Applied) and a.function == "within":  # never a shape, which operations do not check
                yield self._replaced(k, replace(step, args=(*step.args[:j], a.args[0], *step.args[j + 1 :])))

    def _replaced(self, k: int, step: Step) -> Sample:
        return replace(self, steps=(*self.steps[:k], step, *self.steps[k + 1 :]))

    def _values(self) -> list[Any]:
        """Return the arrays of all values, in float64; None for those that cannot be computed."""
        values: list[Any] = [Tensor.from_data(x, device=reference_device()) for x in self.inputs]
        for step in self.steps:
            try:
                values += step.of(values, values[0])
            except Exception:
                values += [None] * step.results
        return [None if x is None else x.to_numpy() for x in values]

    def _pruned(self, outputs: tuple[int, ...]) -> Sample:
        """Return the sample with other outputs, without the steps and inputs that they do not need."""
        needed, number = set(outputs), len(self.inputs) + sum(step.results for step in self.steps)
        kept: list[Step] = []
        for step in reversed(self.steps):
            number -= step.results
            if needed & set(range(number, number + step.results)):
                kept.insert(0, step)
                needed |= set(refs(step.args))
        inputs = [k for k in range(len(self.inputs)) if k in needed] or [0]
        new = {k: n for n, k in enumerate(inputs)}
        number, total = len(self.inputs), len(inputs)
        steps = []
        for step in self.steps:
            if any(step is s for s in kept):
                new |= {number + k: total + k for k in range(step.results)}
                total += step.results
            number += step.results
        steps = [replace(step, args=mapped(step.args, lambda n: new.get(n, 0))) for step in kept]
        return Sample(
            tuple(self.inputs[k] for k in inputs), tuple(steps), tuple(new[k] for k in outputs), self.narrow, self.rough
        )

    def _with_input(self, number: int, array: Any) -> Sample:
        """Return the sample with a value as a further argument."""
        first = len(self.inputs)
        shifted = self._renumbered(lambda n: n if n < first else n + 1, prune=False)
        shifted = replace(shifted, inputs=(*self.inputs, array))
        return shifted._renumbered(lambda n: first if n == number + 1 else n)

    def _renumbered(self, mapping: Callable[[int], int], prune: bool = True) -> Sample:
        steps = tuple(replace(step, args=mapped(step.args, mapping)) for step in self.steps)
        found = replace(self, steps=steps, outputs=tuple(dict.fromkeys(map(mapping, self.outputs))))
        return found._pruned(found.outputs) if prune else found


def reference_device() -> Any:
    """Return the device on which samples are made, so that a seed gives the same on all backends."""
    return NumPy()


def _total(step: Step, values: Sequence[Any], floats: Sequence[int], *xs: Any) -> Any:
    """Return the sum of a step's results, of other values in place of some."""
    given = [*values]
    for n, x in zip(floats, xs, strict=True):
        given[n] = x
    return sum([r.sum() for r in step.of(given, xs[0]) if r.kind == "float"], xs[0].sum() * 0.0)


def _instead(number: int, other: int, n: int) -> int:
    return other if n == number else n


def _detaches(op: Operation) -> bool:
    return op.algebra is Algebra.NONDIFFERENTIABLE and any(op.float_results) and any(a.floats for a in op.arguments)
