"""`GradientsAccumulator`: the sum of the gradients of several batches, as a value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, NoReturn, final

from burnpy.backend.devices import Subscriptable
from burnpy.backend.errors import ArgumentError, ImmutableError, KindError, a
from burnpy.func.pytree import register_tree
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.settings import number
from burnpy.tensor.gradients import Gradients
from burnpy.typevars import B


@final
class GradientsAccumulator(Subscriptable, Generic[B]):
    """An immutable sum of the gradients of several micro-batches; `add` returns a new accumulator.

    ``len(accumulator)`` is the number of micro-batches, and an empty accumulator is false, so that incomplete
    accumulations at the end of an epoch can be used::

        accumulator = GradientsAccumulator[NumPy]()
        for x, y in batches:
            grads = GradientsParams.from_grads(loss(model, x, y).backward(), model)
            accumulator = accumulator.add(grads, weight=len(x))
            if len(accumulator) == 4:
                model, accumulator = optim.step(rate, model, accumulator.mean()), GradientsAccumulator[NumPy]()
        if accumulator:
            model = optim.step(rate, model, accumulator.mean())

    A parameter without a gradient in a micro-batch counts as having a zero gradient there. Updates of buffers are
    added without scaling, because they contain weights of their own.

    >>> from burnpy.nn import Linear
    >>> model = Linear(1, 1, device=Autodiff[NumPy])
    >>> accumulator = GradientsAccumulator[NumPy]()
    >>> for batch in ([[1.0], [3.0], [5.0]], [[7.0]]):
    ...     loss = model(Tensor[Autodiff[NumPy]].from_data(batch)).mean()
    ...     grads = GradientsParams.from_grads(loss.backward(), model)
    ...     accumulator = accumulator.add(grads, weight=len(batch))
    >>> accumulator.mean()["weight"].item(), accumulator.weight, len(accumulator)
    (4.0, 4.0, 2)
    """

    __slots__ = ("_count", "_total", "_weight")

    _count: int
    _total: GradientsParams[B] | None
    _weight: float

    def __init__(self, *backend: object) -> None:
        """Create an empty accumulator; ``GradientsAccumulator[NumPy]()`` tells type checkers the backend.

        Raises:
            KindError: gradients were passed; pass them to `add`.
        """
        if any(isinstance(argument, (Gradients, GradientsParams)) for argument in backend):
            raise KindError("an accumulator begins empty: GradientsAccumulator[NumPy]().add(grads)")
        self._set(0, None, 0.0)

    def add(self, grads: GradientsParams[B], weight: float = 1.0) -> GradientsAccumulator[B]:
        """Return an accumulator that includes the gradients of one more micro-batch.

        Args:
            grads: the gradients of the micro-batch; of its mean loss, if `mean` is used.
            weight: the weight of the gradients; with micro-batches of different sizes pass the size, so that `mean` is
                the gradient of the mean over all examples.

        Raises:
            KindError: ``grads`` are not `GradientsParams`.
            DeviceError: they are on another device than earlier ones.
            ShapeError: a parameter's gradient has another shape or dtype than earlier.
            ArgumentError: ``weight`` is not positive and finite.
        """
        argument: object = grads
        if not isinstance(argument, GradientsParams):
            raise KindError(
                f"add() takes GradientsParams, got {a(type(argument).__name__)}; "
                "write GradientsParams.from_grads(grads, model)"
            )
        counts = number(weight, "the weight of a micro-batch")
        if not 0 < counts < math.inf:
            raise ArgumentError(f"the weight of a micro-batch is {weight!r}; expected a positive finite number")
        out: GradientsAccumulator[B] = object.__new__(GradientsAccumulator)
        if self._total is not None:
            total = self._total.plus(grads, float(counts))
        else:
            total = grads if counts == 1 else grads * counts
        out._set(self._count + 1, total, self._weight + float(counts))
        return out

    def sum(self) -> GradientsParams[B]:
        """Return the weighted sum of all gradients.

        Raises:
            ArgumentError: the accumulator is empty.
        """
        if self._total is None:
            raise ArgumentError(
                "the accumulator is empty, and has no sum() or mean(): nothing was added; test it by `if accumulator:`"
            )
        return self._total

    def mean(self) -> GradientsParams[B]:
        """Return the weighted mean of all gradients: `sum` divided by `weight`.

        Raises:
            ArgumentError: the accumulator is empty.
        """
        total = self.sum()
        return total if self._weight == 1 else total / self._weight

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return self._weight

    def __len__(self) -> int:
        return self._count

    def _set(self, count: int, total: GradientsParams[B] | None, weight: float) -> None:
        object.__setattr__(self, "_count", count)
        object.__setattr__(self, "_total", total)
        object.__setattr__(self, "_weight", weight)

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise ImmutableError(
            f"an accumulator never changes: {name} cannot be set or deleted; add(grads) returns the next"
        )

    __delattr__: Any = __setattr__

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._count, self._total, self._weight)

    def __repr__(self) -> str:
        return f"GradientsAccumulator({self._count} micro-batches, weight {self._weight:g})"


def _restored(count: int, total: GradientsParams[Any] | None, weight: float) -> GradientsAccumulator[Any]:
    out: GradientsAccumulator[Any] = object.__new__(GradientsAccumulator)
    out._set(count, total, weight)
    return out


def _flatten(accumulator: GradientsAccumulator[Any]) -> tuple[list[Any], tuple[int, float]]:
    return [accumulator._total], (accumulator._count, accumulator._weight)


def _unflatten(children: Sequence[Any], rest: tuple[int, float]) -> GradientsAccumulator[Any]:
    return _restored(rest[0], children[0], rest[1])


register_tree(GradientsAccumulator, _flatten, _unflatten)
