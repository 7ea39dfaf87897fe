"""`Batched[B]`: a backend whose primitives may have a batch dimension that the code above does not see."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Generic, Literal, TypeAlias, final

import numpy as np

from burnpy.autodiff.autodiff import MethodAtFirstUse
from burnpy.backend.backend import Backend
from burnpy.backend.devices import Itself, Subscriptable, device_of
from burnpy.backend.errors import BatchedError
from burnpy.backend.operations.programs import Formula
from burnpy.backend.primitives import Float, Value
from burnpy.backend.schema import declarations
from burnpy.batching.batch_methods import BatchedValue, batch_method
from burnpy.typevars import I_co

Randomness: TypeAlias = Literal["error", "same", "different"]
"""The setting for random numbers within `burnpy.func.vmap`: an error, the same for all examples, or drawn for each."""


@final
class Batched(Subscriptable, Backend, Generic[I_co]):
    """A backend that computes with the inner backend ``I`` for many examples at once.

    Its primitives, ints and bools too, show the shape of one example. An inner primitive with a batch dimension holds
    a value for each example; one without is shared by all. `burnpy.func.vmap` makes a device for each call.
    """

    differentiates = True
    discrete: Any = Itself()
    lifts_discrete = True
    in_place_updates = False
    eager_checks = False

    def __init__(self, inner: I_co | type[I_co]) -> None:
        self.inner: I_co = device_of(inner)
        self.api = "vmap"  #: the function that made the device, for messages
        self.size = 0  #: the number of examples
        self.randomness: Randomness = "error"
        self.draws: list[Value] | None = None  #: what earlier chunks of the batch drew, if all are to draw the same
        self.drawn = 0

    @classmethod
    def canonical(cls, inner: Any) -> tuple[Any, ...]:
        """Return the key of the singleton: the inner device, however it was named."""
        return (device_of(inner),)

    @property
    def name(self) -> str:
        """The name with the inner device's in brackets, such as ``Batched[NumPy]``."""
        return f"Batched[{self.inner.name}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Batched, (self.inner,)

    def lift(self, value: Value) -> BatchedValue:
        """Wrap an inner primitive of any kind as one that all examples share."""
        return BatchedValue(self, value, False)

    def lower(self, x: Any) -> Value:
        """Return the inner primitive of x, which must be the same for all examples.

        Raises:
            BatchedError: it is not.
        """
        x = self.own(x)
        if x.batched:
            raise BatchedError(self.unreadable(x))
        return x.value

    def own(self, x: Any) -> BatchedValue:
        """Return x as a primitive of this device; a primitive of a device beneath is shared by all examples."""
        if x.__class__ is BatchedValue:
            if x.device is self:
                return x
            if x.device is self.stands_for:
                return self.entry(x.device, x)  # type: ignore[no-any-return]  # set with ``stands_for``
        return BatchedValue(self, x, False)

    def batched(self, value: Value) -> BatchedValue:
        """Wrap an inner primitive whose first dimension is the batch."""
        return BatchedValue(self, value, True)

    def inner_of(self, x: Any) -> Any:
        """Return the device beneath of a primitive: ``inner`` for floats, ``inner.discrete`` for ints and bools."""
        return self.inner.discrete if x.dtype.kind in "iub" else self.inner

    def spread(self, x: BatchedValue) -> Value:
        """Return the inner primitive of x with the batch dimension, expanded if x is shared."""
        if x.batched:
            return x.value
        i = self.inner_of(x)
        return i.expand(i.reshape(x.value, (1, *x.shape)), (self.size, *x.shape))

    def aligned(self, x: BatchedValue, ndim: int) -> Value:
        """Return the inner primitive of x so that it broadcasts with batches of ``ndim`` more dimensions."""
        missing = ndim - len(x.shape)
        if not x.batched or not missing:
            return x.value
        return self.inner_of(x).reshape(x.value, (self.size, *(1,) * missing, *x.shape))

    def ranked(self, x: BatchedValue, ndim: int) -> Value:
        """Return the inner primitive of x with 1 + ``ndim`` dimensions; the first is of size 1 if x is shared."""
        shape = (self.size if x.batched else 1, *(1,) * (ndim - len(x.shape)), *x.shape)
        return x.value if x.value.shape == shape else self.inner_of(x).reshape(x.value, shape)

    def shared_draw(self, draw: Callable[[], Value]) -> BatchedValue:
        """Return random numbers for all examples: those of ``draw``, or those that an earlier chunk drew here."""
        if self.draws is None:
            return BatchedValue(self, draw(), False)
        if self.drawn == len(self.draws):
            self.draws.append(draw())
        self.drawn += 1
        return BatchedValue(self, self.draws[self.drawn - 1], False)

    def is_require_grad(self, x: Float) -> bool:
        """Return whether x is tracked on a device beneath."""
        x = self.own(x)
        return x.dtype.kind not in "iub" and self.inner.is_require_grad(x.value)

    def wants_rule_context(self) -> bool:
        """Return whether the inner device needs to know which rule is running."""
        return self.inner.wants_rule_context()

    def to_numpy(self, x: Value) -> np.ndarray[Any, Any]:
        """Return the values of x, if all examples share them.

        Raises:
            BatchedError: they do not.
        """
        return self.inner_of(x).to_numpy(self.lower(x))  # type: ignore[no-any-return]  # as declared

    def unreadable(self, x: BatchedValue) -> str:
        """Return the message of the error for reading a tensor that differs between examples."""
        if self.api == "vmap":
            hint = "choose between values with burnpy.where(...) or burnpy.func.cond(...), or return the tensor"
        else:
            hint = "compute with operations on tensors, or take jacrev() or jacfwd() with chunk_size=1"
        return (
            f"a tensor of shape {x.shape} cannot be read in a function under {self.api}(), as its values differ "
            f"between the {self.size} examples; {hint}"
        )

    def defer_check(self, values: tuple[Value, ...], error: Callable[..., Exception | None]) -> None:
        """Check the values of each example; on an inner device that defers checks, it does so for each."""
        owned, inner = [self.own(x) for x in values], self.inner.discrete
        if not inner.eager_checks:
            for row in self._rows(inner, owned):
                inner.defer_check(row, error)
            return
        columns = []
        for x in owned:
            if x.batched:
                columns.append(self.inner_of(x).to_numpy(x.value).tolist())
            else:
                columns.append([self.inner_of(x).to_numpy(x.value).item()] * self.size)
        for row in zip(*columns, strict=True):
            exception = error(*map(int, row))
            if exception is not None:
                raise exception

    def _rows(self, inner: Any, xs: Sequence[BatchedValue]) -> Iterator[tuple[Value, ...]]:
        """Yield the 0-d values of each example; of a single bool the least and the greatest, which are all."""
        if not any(x.batched for x in xs):
            yield tuple([x.value for x in xs])
        elif len(xs) == 1 and xs[0].dtype.kind == "b":
            yield (inner.all(xs[0].value, (0,), False),)
            yield (inner.any(xs[0].value, (0,), False),)
        else:
            for k in range(self.size):
                yield tuple([inner.slice(x.value, (k,)) if x.batched else x.value for x in xs])

    def fuses(self, xs: Sequence[Float]) -> bool:
        """Ask the inner device, for arguments of one shape."""
        owned = [self.own(x) for x in xs]
        return len({x.shape for x in owned}) == 1 and self.inner.fuses([self.spread(x) for x in owned])

    def fused(self, formula: Formula, xs: Sequence[Float], numbers: tuple[float, ...] = ()) -> tuple[Float, ...]:
        """Compute a formula of arguments of one shape as the inner device does."""
        owned = [self.own(x) for x in xs]
        if not any(x.batched for x in owned):
            results = self.inner.fused(formula, [x.value for x in owned], numbers)
            return tuple([BatchedValue(self, value, False) for value in results])
        if any(x.shape != owned[0].shape for x in owned):
            return formula(self, *owned, *numbers)
        results = self.inner.fused(formula, [self.spread(x) for x in owned], numbers)
        return tuple([BatchedValue(self, value, True) for value in results])

    def storage_of(self, x: Value) -> tuple[Hashable, int]:
        """Return the identity and size of the memory of x on the inner device."""
        return self.inner.storage_of(self.own(x).value)


for _name in declarations(Backend):
    if _name not in vars(Batched):
        setattr(Batched, _name, MethodAtFirstUse(_name, batch_method))
