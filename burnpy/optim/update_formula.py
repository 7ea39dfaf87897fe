"""The frame of all updates: the common settings of a step, weight decay, and the call of an optimizer's formula.

A *formula* computes the next value and the next states of one parameter. It is a function of a module that takes a
backend; then arrays: the parameter, its gradient and its states; then numbers, which change from step to step and may
be 0-d primitives; then flags, which decide what is computed::

    def momentum_step(b, param, grad, velocity, lr, momentum, decay, nesterov, *decay_flags):
        param, grad = decayed(b, param, grad, decay, *decay_flags)
        ...
        return new_param, new_velocity

An `Update` is a formula with its numbers and flags. `Optimizer.update` adds the last number and the last flags, which
`decayed` takes, and computes it. A backend traces a program of the formula that
takes the numbers at each call, and computes all parameters in one kernel (`burnpy.backend.Backend.foreach`). The
arithmetic has the order of PyTorch's ``torch.optim``, and so gives the same numbers.

`UpdateCount`: a number of updates that only the device knows, as it does not count those that a scaler skipped.

Numbers that depend on the number of an update, such as Adam's bias corrections, are computed on the host for all
possible updates, and the device picks a row of that table. So nothing waits for the device. In a recording all counts
are values on the device, and the rate may be one. They may be any numbers in a replay, so that the formula itself is
recorded (`burnpy.backend.Backend.on_host`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.backend.primitives import Bool, Float, Int
from burnpy.tensor.call_errors import explained

if TYPE_CHECKING:
    from burnpy.backend.operations.programs import Formula

_SHORTEST_TABLE = 1024  #: tables are of this length or twice as long as the last, so that few are made


class UpdateCount:
    """The number of updates before a step, as a value on the device."""

    __slots__ = ("_following", "device", "value")

    def __init__(self, device: Any, value: Int) -> None:
        self.device = device
        self.value = value  #: 0-d
        self._following: Int | None = None

    @property
    def following(self) -> Int:
        """The number of the next update."""
        if self._following is None:
            self._following = self.device.discrete.add(self.value, 1)
        return self._following

    def read(self) -> int:
        """Return the count, for which the device is synchronized."""
        return int(self.device.discrete.to_numpy(self.value).item())

    def row(self, formula: Callable[..., tuple[float, ...]], settings: tuple[Any, ...], most: int) -> list[Float]:
        """Return ``formula(number, *settings)`` of the update after the count, as 0-d float64 primitives.

        Args:
            formula: a function of a module, so that it is known by identity.
            settings: its other arguments.
            most: the highest number that is possible.
        """
        length = max(_SHORTEST_TABLE, 1 << (most - 1).bit_length())
        table, width = _table(self.device, formula, settings, length)
        row = self.device.index_select(table, 0, self.device.discrete.reshape(self.value, (1,)))
        return [self.device.slice(row, (0, k)) for k in range(width)]


class UpdateCounts:
    """The counts of one step. Parameters with equal counts before it share one after it, and so one kernel.

    Args:
        device: the device of the update.
        skipped: 0-d; where it is true, the step does not count. None if every step counts.
    """

    def __init__(self, device: Any, skipped: Bool | None) -> None:
        self._device = device
        self._skipped = skipped
        self._known: dict[int, UpdateCount] = {}
        self._after: dict[UpdateCount, UpdateCount] = {}

    def known(self, number: int) -> UpdateCount:
        """Return the count of a number of updates that the host knows."""
        count = self._known.get(number)
        if count is None:
            value = self._device.discrete.full((), number, int64)
            count = self._known[number] = UpdateCount(self._device, value)
        return count

    def after(self, count: UpdateCount) -> UpdateCount:
        """Return the count after the step."""
        new = self._after.get(count)
        if new is None:
            value = count.following
            if self._skipped is not None:
                value = self._device.discrete.where(self._skipped, count.value, value)
            new = self._after[count] = UpdateCount(self._device, value)
        return new


@lru_cache(maxsize=64)
def _table(
    device: Any, formula: Callable[..., tuple[float, ...]], settings: tuple[Any, ...], length: int
) -> tuple[Float, int]:
    """Return the results of a formula of the numbers from 1 to ``length`` by row, and how many there are in a row."""
    rows = np.array([formula(number, *settings) for number in range(1, length + 1)], np.float64)
    return device.from_numpy(rows), rows.shape[1]


class Step(NamedTuple):
    """The settings of one update that all optimizers have in common."""

    lr: Any  #: the learning rate; in a recording perhaps a 0-d primitive
    number: int = 1  #: the number of this update of the parameters, from 1
    weight_decay: float = 0.0  #: the coefficient of weight decay
    maximize: bool = False  #: whether to go up the gradient instead of down
    owned: bool = False  #: whether the states may be updated in place
    found_inf: Bool | None = None  #: where true, 0-d, parameters and states stay as they are
    updates: UpdateCount | None = None
    """The updates before this one on the device, if earlier ones may have been skipped; then ``number`` is only the
    highest that is possible, and `numbers` computes the values that depend on it."""
    recorder: Any = None
    """The device, if it records; then ``number`` means nothing, and ``updates`` has the count."""

    def numbers(self, formula: Callable[..., tuple[float, ...]], rates: int | None, *settings: Any) -> list[Any]:
        """Return the results of a formula that depends on the number of this update, for `Backend.foreach`.

        Args:
            formula: a function ``f(number, lr, *settings)`` of a module. It is computed on the host: with `updates`,
                for all numbers that are possible, or in each replay of a recording.
            rates: how many of its results are proportional to ``lr``, the first ones; None if they depend on it
                otherwise, so that a table of all numbers is for one rate.
            settings: its other arguments.
        """
        if self.updates is None:
            return [*formula(self.number, self.lr, *settings)]
        if self.recorder is not None:
            return [*self.computed(formula, self.updates.following, self.lr, *settings)]
        device: Any = self.updates.device
        if rates is None:
            return self.updates.row(formula, (self.lr, *settings), self.number)
        row = self.updates.row(formula, (1.0, *settings), self.number)
        return [device.mul(x, self.lr) if k < rates else x for k, x in enumerate(row)]

    def bias_correction(self, beta: float) -> float:
        """Return 1 - betaᵗ, the sum of the weights in an exponential average after t updates that began with 0."""
        return 1.0 - beta**self.number

    def computed(self, formula: Callable[..., tuple[float, ...]], *numbers: Any) -> Sequence[Any]:
        """Return the results of a formula of numbers; 0-d primitives if one of these is a primitive of a recording."""
        if self.recorder is None or not any(hasattr(x, "dtype") for x in numbers):
            return formula(*numbers)
        return self.recorder.on_host(formula, numbers)  # type: ignore[no-any-return]  # as declared

    def decay(self, decoupled: bool) -> Any:
        """Return ``weight_decay`` or, if it is decoupled, the factor 1 - lr · weight_decay of the parameter."""
        if not decoupled:
            return self.weight_decay
        if self.recorder is None:
            return 1.0 - self.lr * self.weight_decay  # without a call more
        return self.computed(_shrinkage, self.lr, self.weight_decay)[0]

    def gradient(self, device: Any, param: Float, grad: Float) -> Float:
        """Return the gradient to descend: negated if ``maximize``, plus ``weight_decay`` · param."""
        return self.decayed(device, param, grad, decoupled=False)[1]

    def decayed(self, device: Any, param: Float, grad: Float, decoupled: bool) -> tuple[Float, Float]:
        """Return the parameter and the gradient to descend, after weight decay.

        Without ``decoupled``, the decay is in the `gradient`. With it, the parameter is multiplied by
        1 - lr · weight_decay. Source: Loshchilov and Hutter, Decoupled weight decay regularization, 2019.
        """
        return decayed(device, param, grad, self.decay(decoupled), bool(self.weight_decay), self.maximize, decoupled)


def root(x: Any) -> Any:
    """Return the square root of a number in a formula, which a backend may trace."""
    return x.sqrt() if hasattr(x, "sqrt") else math.sqrt(x)


def _shrinkage(lr: float, weight_decay: float) -> tuple[float]:
    """Return the factor of a parameter with decoupled weight decay."""
    return (1.0 - lr * weight_decay,)


class Update(NamedTuple):
    """How an optimizer updates parameters."""

    formula: Formula  #: of one parameter: see the module
    numbers: Sequence[Any]  #: of the formula, but the last, the `Step.decay`
    flags: tuple[bool, ...] = ()  #: of the formula, but the last three, which `decayed` takes
    decoupled: bool = False  #: whether weight decay is decoupled from the gradient
    elementwise: bool = True  #: False for a formula with norms or products, computed for one parameter after another


def length(b: Any, x: Float) -> Float:
    """Return the Euclidean norm of all elements, 0-d."""
    return b.vector_norm(x, 2.0, tuple(range(len(x.shape))), False)


def decayed(
    b: Any, param: Float, grad: Float, decay: Any, decays: bool, maximize: bool, decoupled: bool
) -> tuple[Float, Float]:
    """Return the parameter and the gradient to descend, after weight decay: the beginning of each formula.

    Args:
        b: the backend.
        param: the parameter.
        grad: its gradient.
        decay: the number `Step.decay`.
        decays: whether there is weight decay.
        maximize: whether to go up the gradient instead of down.
        decoupled: whether weight decay shrinks the parameter, and does not change the gradient.
    """
    if maximize:
        grad = b.neg(grad)
    if decays and decoupled:
        return b.mul(param, decay), grad
    return param, b.add(grad, b.mul(param, decay)) if decays else grad


def lerp(b: Any, x: Float, y: Float, weight: Any) -> Float:
    """Interpolate: x + weight · (y - x)."""
    return b.add(x, b.mul(b.sub(y, x), weight))


def mean_square(b: Any, square: Float, x: Float, rate: Any, share: Any) -> Float:
    """Return the next average of squares: rate · square + share · x²."""
    return b.add(b.mul(square, rate), b.mul(b.square(x), share))


@explained
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
