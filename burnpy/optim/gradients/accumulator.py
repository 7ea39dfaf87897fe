"""`GradientsAccumulator`: the sum of the gradients of several batches, as a value, or in one place of memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, final

from burnpy.autodiff.tools.backward import added_to
from burnpy.backend.devices import Subscriptable
from burnpy.backend.errors import ArgumentError, ImmutableError, KindError, StateError, a
from burnpy.func.compiling.recorded_calls import unshared
from burnpy.func.pytree import register_tree
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import leaves_of, refuse_device, refuse_strangers
from burnpy.optim.settings import number
from burnpy.tensor.backward import inner_of
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.optim.gradients.grads_params import ModelOnAutodiff
    from burnpy.tensor.tensor_types import TensorOnAutodiff


@final
class GradientsAccumulator(Subscriptable, Generic[B], metaclass=Explaining):
    """The sum of the gradients of several micro-batches: `backward` and `add` return the next one.

    ``len(accumulator)`` is the number of micro-batches, and an empty accumulator is false, so that incomplete
    accumulations at the end of an epoch can be used::

        accumulator = GradientsAccumulator[NumPy]()
        for x, y in batches:
            accumulator = accumulator.backward(loss(model, x, y), model, weight=len(x))
            if len(accumulator) == 4:
                model, accumulator = optim.step(rate, model, accumulator.mean()), GradientsAccumulator[NumPy]()
        if accumulator:
            model = optim.step(rate, model, accumulator.mean())

    `add` leaves the accumulator as it is. `backward` gives its memory to the next one, so that there is one copy of all
    gradients, to which products of weights are added as they are computed; gradients that `sum` and `mean` returned
    never change.

    A parameter without a gradient in a micro-batch counts as having a zero gradient there. Updates of buffers are
    added without scaling, because they contain weights of their own.

    >>> from burnpy.nn import Linear
    >>> model = Linear(1, 1, device=Autodiff[NumPy])
    >>> accumulator = GradientsAccumulator[NumPy]()
    >>> for batch in ([[1.0], [3.0], [5.0]], [[7.0]]):
    ...     loss = model(Tensor[Autodiff[NumPy]].from_data(batch)).mean()
    ...     accumulator = accumulator.backward(loss, model, weight=len(batch))
    >>> accumulator.mean()["weight"].item(), accumulator.weight, len(accumulator)
    (4.0, 4.0, 2)
    """

    __slots__ = ("_count", "_total", "_unit", "_weight")

    _count: int
    _total: GradientsParams[B] | None  # the weighted sum divided by the first weight; missing if given away
    _unit: float  # the first weight; with equal weights nothing is multiplied
    _weight: float

    def __init__(self, *backend: object) -> None:
        """Create an empty accumulator; ``GradientsAccumulator[NumPy]()`` tells type checkers the backend.

        Raises:
            KindError: gradients were passed; pass them to `add`.
        """
        if any(isinstance(argument, (Gradients, GradientsParams)) for argument in backend):
            raise KindError(
                "GradientsAccumulator() got gradients; it begins empty: write GradientsAccumulator[NumPy]().add(grads)"
            )
        self._set(0, None, 0.0, 1.0)

    def backward(
        self, loss: TensorOnAutodiff[B], model: ModelOnAutodiff[B], weight: float = 1.0
    ) -> GradientsAccumulator[B]:
        """Run the backward pass of a micro-batch's loss, and return an accumulator that includes its gradients.

        The sums continue in the memory of this accumulator, which cannot be used any more. Nothing has changed after an
        error that is raised before the gradients are computed; after a later one, as in a hook, begin with an empty
        accumulator.

        The values are those of `add`, and have the same bits where the loss uses a parameter once and the weight is a
        power of two times the first one, unless a number underflows or overflows. The gradients of a parameter that is
        used several times are added one after another, as in PyTorch. Hooks see the gradients of this loss, multiplied
        by its weight and divided by the first.

        Args:
            loss: a tensor of one element; the mean loss of the micro-batch, if `mean` is used.
            model: the model that computed the loss.
            weight: the weight of the gradients, as for `add`.

        Raises:
            KindError: ``loss`` is not a `Tensor`, or ``model`` not a module.
            StateError: an earlier pass took the memory of this accumulator.
            ArgumentError: ``weight`` is not positive and finite, or the loss depends on no parameter of the model.
            DeviceError: loss, model and earlier gradients are not of one device.
            NotTrackedError, ShapeError, GraphError: see `Tensor.backward`.
        """
        counts, total = _checked(weight), self._so_far()
        root: Any = loss
        module: Any = model
        if not isinstance(root, Tensor):
            raise KindError(f"backward() takes the loss as a Tensor, got {describe(root)}")
        if total is None:
            return self.add(GradientsParams.from_grads(root.backward(), model), weight)
        for device in (inner_of(root, "backward()"), total.device):
            refuse_device(module, device)
        del total
        memory = _Memory(self, model)
        found = GradientsParams.from_grads(added_to(memory, loss, counts / self._unit), model)
        return self._with(memory.rest.plus(found), counts)

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
            StateError: `backward` took the memory of this accumulator.
        """
        argument: object = grads
        if not isinstance(argument, GradientsParams):
            raise KindError(
                f"add() takes GradientsParams, got {a(type(argument).__name__)}; "
                "write GradientsParams.from_grads(grads, model)"
            )
        counts, total = _checked(weight), self._so_far()
        return self._with(grads if total is None else total.plus(grads, counts / self._unit), counts)

    def sum(self) -> GradientsParams[B]:
        """Return the weighted sum of all gradients.

        Raises:
            ArgumentError: the accumulator is empty.
        """
        total = self._added_up()
        return total if self._unit == 1 else total * self._unit

    def mean(self) -> GradientsParams[B]:
        """Return the weighted mean of all gradients: `sum` divided by `weight`.

        It is a second copy of the gradients, unless there is one micro-batch. Where memory is scarce, divide the losses
        and take the `sum`, which makes none if the first weight is 1.

        Raises:
            ArgumentError: the accumulator is empty.
        """
        total, weight = self._added_up(), self._weight / self._unit
        return total if weight == 1 else total / weight

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return self._weight

    def __len__(self) -> int:
        return self._count

    def _so_far(self) -> GradientsParams[B] | None:
        """Return the sum divided by the first weight; None if nothing was added."""
        try:
            return self._total
        except AttributeError:
            raise _given_away() from None

    def _added_up(self) -> GradientsParams[B]:
        """Return the sum divided by the first weight."""
        total = self._so_far()
        if total is None:
            raise ArgumentError(
                "the accumulator is empty, and has no sum() or mean(): nothing was added; test it by `if accumulator:`"
            )
        return total

    def _with(self, total: GradientsParams[B], weight: float) -> GradientsAccumulator[B]:
        return _restored(self._count + 1, total, self._weight + weight, self._unit if self._count else weight)

    def _give_away(self) -> GradientsParams[B]:
        """Return the sum divided by the first weight, which this accumulator then has no more."""
        total = self._added_up()
        try:
            object.__delattr__(self, "_total")  # by one thread only
        except AttributeError:
            raise _given_away() from None
        return total

    def _set(self, count: int, total: GradientsParams[B] | None, weight: float, unit: float) -> None:
        for name, value in (("_count", count), ("_total", total), ("_weight", weight), ("_unit", unit)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise ImmutableError(
            f"an accumulator never changes: {name} cannot be set or deleted; add(grads) and backward(loss, model) "
            "return the next"
        )

    __delattr__: Any = __setattr__

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._count, self._so_far(), self._weight, self._unit)

    def __repr__(self) -> str:
        return f"GradientsAccumulator({self._count} micro-batches, weight {self._weight:g})"


def _given_away() -> StateError:
    return StateError(
        "a backward pass took the memory of this accumulator and continued in it; use the accumulator that backward() "
        "returned, or an empty one if it raised an error"
    )


class _Memory:
    """Gives the sums of an accumulator to a backward pass: see `burnpy.autodiff.engine.Sums`."""

    def __init__(self, accumulator: GradientsAccumulator[Any], model: Any) -> None:
        self._accumulator, self._model = accumulator, model
        self.rest: GradientsParams[Any]
        """The gradients that stay: those of other and of complex parameters, and the updates of buffers."""

    def __call__(self, reached: Iterable[Any]) -> tuple[dict[Any, Any], set[Any]]:
        """Return the sums of the learned parameters by leaf, and the leaves whose sums nobody else holds."""
        leaves = leaves_of(self._model)
        refuse_strangers(reached, leaves.values(), self._model)
        total = self._accumulator._give_away()
        given = [ident for ident, grad in total._values.items() if ident in leaves and grad.dtype.kind == "f"]
        arrays = [total._values[ident]._primitive for ident in given]
        self.rest = total.without(given)
        del total
        owned = {leaves[ident] for k, ident in enumerate(given) if unshared(arrays, k) and _is_whole(arrays[k])}
        return {leaves[ident]: x for ident, x in zip(given, arrays, strict=True)}, owned


def _is_whole(x: Any) -> bool:
    """Return whether a primitive is an array with memory of its own, no view and nothing that is recorded."""
    return getattr(x, "base", x) is None


def _checked(weight: float) -> float:
    counts = number(weight, "the weight of a micro-batch")
    if not 0 < counts < math.inf:
        raise ArgumentError(f"the weight of a micro-batch is {weight!r}; expected a positive finite number")
    return float(counts)


def _restored(
    count: int, total: GradientsParams[Any] | None, weight: float, unit: float = 1.0
) -> GradientsAccumulator[Any]:
    out: GradientsAccumulator[Any] = object.__new__(GradientsAccumulator)
    out._set(count, total, weight, unit)
    return out


def _flatten(accumulator: GradientsAccumulator[Any]) -> tuple[list[Any], tuple[int, float, float]]:
    return [accumulator._so_far()], (accumulator._count, accumulator._weight, accumulator._unit)


def _unflatten(children: Sequence[Any], rest: tuple[int, float, float]) -> GradientsAccumulator[Any]:
    count, *weights = rest
    return _restored(count, children[0], *weights)


register_tree(GradientsAccumulator, _flatten, _unflatten)
