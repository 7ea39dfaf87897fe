"""`Gradients`: the immutable result of a backward pass. Creating it changes no tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, final

from burnpy.autodiff.graph import Leaf, conjugated, untracked
from burnpy.backend.devices import Subscriptable
from burnpy.backend.errors import (
    ArgumentError,
    DeviceError,
    ImmutableError,
    KindError,
    MissingGradientError,
    MissingNameError,
    NotTrackedError,
    a,
)
from burnpy.backend.operations.complex_numbers import magnitudes, on_lists
from burnpy.backend.primitives import INEXACT, Float, Inexact
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operand_checks import MOST_FLOAT
from burnpy.tensor.tensor_base import TensorBase, describe, tensor_of
from burnpy.typevars import I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import TensorOnAutodiff


@final
class Gradients(Subscriptable, Mapping["Tensor[Any]", "Tensor[I]"], Generic[I]):
    """The gradients of one backward pass: an immutable mapping from leaves to tensors on the inner backend ``I``.

    Leaves are compared by identity: ``grads[x]`` and ``x.grad(grads)`` need the very tensor that ``require_grad``
    returned. Gradients can be read from any thread, added, scaled and mapped; each such call returns new ones.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> grads = (x * x).sum().backward()
    >>> grads[x].tolist(), (grads + grads)[x].tolist(), len(grads), x in grads
    ([2.0, 4.0], [4.0, 8.0], 1, True)
    """

    __slots__ = ("_device", "_updates", "_values")

    _device: Any
    _updates: dict[str, Float]
    _values: dict[Leaf, Float]

    def __init__(
        self, device: Autodiff[I], values: Mapping[Leaf, Float], updates: Mapping[str, Float] | None = None
    ) -> None:
        """Create gradients from inner primitives.

        Args:
            device: the device of the leaves.
            values: the gradients by leaf. Entries whose leaf belongs to a buffer are moved to the updates.
            updates: the updates of buffers by the buffers' ids.
        """
        own_values = dict(values)
        own_updates = dict(updates) if updates else {}
        for leaf in [leaf for leaf in own_values if leaf.buffer is not None]:
            update, buffer = own_values.pop(leaf), leaf.buffer or ""
            own_updates[buffer] = device.inner.add(own_updates[buffer], update) if buffer in own_updates else update
        object.__setattr__(self, "_device", device)
        object.__setattr__(self, "_updates", own_updates)
        object.__setattr__(self, "_values", own_values)

    @classmethod
    def found(cls, device: Autodiff[I], values: dict[Leaf, Inexact]) -> Gradients[I]:
        """Return the results of a backward pass, with PyTorch's convention for complex gradients: see `graph`."""
        return cls(device, conjugated(device.inner, values))

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise ImmutableError(f"Gradients are immutable: {name} cannot be set or deleted; grads.map(f) makes new ones")

    __delattr__: Any = __setattr__

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report them as errors

        def __getattr__(self, name):
            if name.startswith("_"):  # `copy` and NumPy look for such names
                raise AttributeError(f"'Gradients' object has no attribute {name!r}", name=name, obj=self)
            raise MissingNameError(
                f"Gradients have no {name}; the gradient of a leaf x is x.grad(grads), and of a parameter "
                "model.weight.value.grad(grads)"
            )

        def __setitem__(self, leaf, value):
            raise ImmutableError("Gradients are immutable: grads[x] cannot be set; grads.map(f) makes new ones")

        def __delitem__(self, leaf):
            raise ImmutableError(
                "Gradients are immutable: grads[x] cannot be deleted; grads.without([x]) makes new ones without it, "
                "and x.grad_remove(grads) returns the gradient as well"
            )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise KindError(
            "Gradients cannot be pickled: their keys are leaves of this process; pickle a model's as "
            "GradientsParams.from_grads(grads, model), and others as tensors, such as grads[x]"
        )

    @property
    def device(self) -> I:
        """The device that the gradients are on."""
        return self._device.inner  # type: ignore[no-any-return]  # the device of the leaves is Autodiff[I]

    @property
    def buffer_updates(self) -> Mapping[str, Tensor[I]]:
        """The updates of buffers, such as running statistics, that the forward pass recorded, by the buffers' ids.

        Each is a vector: the flattened sum of the recorded values, followed by the number of recordings. Updates are
        not gradients: they are not counted, mapped, scaled or part of the norm. Adding gradients adds them.
        """
        return MappingProxyType({buffer: self._tensor(update) for buffer, update in self._updates.items()})

    def __getitem__(self, leaf: TensorOnAutodiff[I]) -> Tensor[I]:
        """Return the gradient of a leaf.

        Raises:
            MissingGradientError: (a KeyError) the backward pass did not reach it.
            NotTrackedError: it is not a leaf.
        """
        key = self.key(leaf)
        try:
            return self._tensor(self._values[key])
        except KeyError:
            x: Any = leaf
            raise MissingGradientError(
                f"these gradients hold none for the leaf of shape {x.shape} and dtype {x.dtype}: the loss does not "
                "depend on it; x.grad(grads) gives None instead of this error"
            ) from None

    if not TYPE_CHECKING:  # type checkers read the signatures of Mapping.get

        def get(self, leaf, default=None):
            """Return the gradient of a leaf, or ``default`` if there is none, as for a tensor that is not a leaf."""
            return self._get(leaf, default) if leaf in self else default

    def _get(self, leaf: Any, default: Any = None) -> Any:
        """Return the gradient of a leaf, or ``default`` if the backward pass did not reach it."""
        value = self._values.get(self.key(leaf))
        return default if value is None else self._tensor(value)

    def __contains__(self, leaf: object) -> bool:
        try:
            return _has_gradient(leaf) and self.key(leaf) in self._values
        except (DeviceError, NotTrackedError):  # not a leaf
            return False

    def __iter__(self) -> Iterator[Tensor[Any]]:
        for leaf in self._values:
            tracked = untracked(leaf.value)
            tracked.node = leaf
            yield tensor_of(self._device, tracked)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        shapes = ", ".join(str(value.shape) for value in self._values.values())
        leaves = "1 leaf" if len(self) == 1 else f"{len(self)} leaves"
        return f"Gradients({leaves} of shapes [{shapes}], device={self._device.inner.name})"

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction]  # notebooks call it
        """Return the gradients as a notebook shows them: a table of their shapes, dtypes and norms."""
        from burnpy.tensor.display import html_of_gradients

        return html_of_gradients(self, {f"leaf {k}": value for k, value in enumerate(self.primitives())})

    def remove(self, leaf: TensorOnAutodiff[I]) -> tuple[Tensor[I] | None, Gradients[I]]:
        """Return the gradient of a leaf, or None, and new gradients without it."""
        return self._get(leaf), self.without([leaf])

    @explained
    def without(self, leaves: Iterable[TensorOnAutodiff[I]]) -> Gradients[I]:
        """Return new gradients without those of ``leaves``."""
        dropped = {self.key(leaf) for leaf in leaves}
        remaining = {leaf: v for leaf, v in self._values.items() if leaf not in dropped}
        return Gradients(self._device, remaining, self._updates)

    @explained
    def map(self, f: Callable[[Tensor[I]], Tensor[I]]) -> Gradients[I]:
        """Return new gradients with ``f`` applied to each; ``f`` must preserve shape and dtype.

        Raises:
            ArgumentError: ``f`` returned something else.
        """
        mapped: dict[Leaf, Float] = {}
        for leaf, value in self._values.items():
            result: Any = f(self._tensor(value))
            if (
                not _has_gradient(result)
                or result.device is not self.device
                or (result.shape, result.dtype) != (value.shape, value.dtype)
            ):
                raise ArgumentError(
                    f"map() calls its function with a Tensor of shape {value.shape} and dtype {value.dtype} on "
                    f"{self.device} and expects the same back, but got {describe(result)}"
                )
            mapped[leaf] = result._primitive
        return Gradients(self._device, mapped, self._updates)

    def norm(self) -> Tensor[I]:
        """Return the 2-norm of all gradients together as a 0-d tensor; 0 if there are none.

        The dtype is at least float32; squares neither overflow nor underflow.
        """
        device: Any = self.device
        return self._tensor(device.total_norm(magnitudes(device, self.primitives()), 2.0))

    def __add__(self, other: Gradients[I]) -> Gradients[I]:
        """Add two gradients leaf by leaf; a leaf present in only one is kept. Buffer updates are added as well."""
        if not isinstance(other, Gradients):
            raise KindError(
                f"cannot add {describe(other)} to gradients, only gradients; to change each gradient, use grads.map(f)"
            )
        if other._device is not self._device:
            raise DeviceError(f"cannot add gradients on device {other.device} to gradients on device {self.device}")
        device: Any = self.device
        both = [leaf for leaf in other._values if leaf in self._values]
        sums = device.foreach_add([self._values[leaf] for leaf in both], [other._values[leaf] for leaf in both], 1.0)
        total = {**self._values, **other._values, **dict(zip(both, sums, strict=True))}
        updates = dict(self._updates)
        for buffer, update in other._updates.items():
            updates[buffer] = device.add(updates[buffer], update) if buffer in updates else update
        return Gradients(self._device, total, updates)

    def __radd__(self, other: int) -> Gradients[I]:
        """Return the gradients themselves for ``0 + grads``, with which the built-in ``sum`` begins."""
        operand: Any = other
        return self if operand.__class__ is int and not operand else self + operand

    def __sub__(self, other: Gradients[I]) -> Gradients[I]:
        """Subtract gradients leaf by leaf, as the sum with ``-other``; buffer updates are added."""
        operand: Any = other
        return self + (-operand if isinstance(operand, Gradients) else operand)

    def __neg__(self) -> Gradients[I]:
        """Return the gradients with the opposite sign."""
        return self.mapped("foreach_mul", -1.0)

    def __mul__(self, factor: float) -> Gradients[I]:
        """Multiply every gradient by a number."""
        return self.mapped("foreach_mul", factor) if scales(factor, self) else self.map(lambda grad: grad * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Gradients[I]:
        """Divide every gradient by a number."""
        return self.mapped("foreach_div", divisor) if scales(divisor, self) else self.map(lambda grad: grad / divisor)

    def primitives(self) -> list[Float]:
        """Return the primitives of all gradients, in order."""
        return [*self._values.values()]

    def mapped(self, operation: str, *args: Any) -> Gradients[I]:
        """Return new gradients, with one of the backend's operations on lists, such as ``foreach_mul``, applied to all.

        Tensors among ``args`` are 0-d. Complex gradients are computed as pairs of floats.
        """
        values = on_lists(self.device, operation, self.primitives(), *map(primitive_of, args))
        return Gradients(self._device, dict(zip(self._values, values, strict=True)), self._updates)

    def _tensor(self, value: Float) -> Tensor[I]:
        return tensor_of(self._device.inner, value)  # type: ignore[no-any-return]  # of that class

    def key(self, leaf: Any) -> Leaf:
        """Return the leaf node of a tensor: the key under which its gradient is stored.

        Raises:
            KindError: ``leaf`` is not a float or complex tensor.
            DeviceError: it is not on the device of the leaves.
            NotTrackedError: it is not a leaf.
        """
        if not (isinstance(leaf, TensorBase) and leaf.kind in INEXACT):  # one call less than `_has_gradient`
            hint = "give its .value" if hasattr(leaf, "value") else "only float tensors have any"
            if hasattr(leaf, "with_values"):  # a model
                hint = "GradientsParams.from_grads(grads, model) has those of all parameters"
            what = a(type(leaf).__name__) if hasattr(leaf, "with_values") else describe(leaf)
            raise KindError(f"gradients are found by tensor, got {what}; {hint}")
        if leaf._device is not self._device:
            if leaf.device is self._device.inner:
                raise DeviceError(
                    f"these gradients belong to leaves on {self._device}, got a tensor of shape "
                    f"{leaf.shape} on {leaf.device}, where nothing is tracked; pass the tensor that require_grad() "
                    "returned, or a parameter of the trained model, not of the copy that valid() returned"
                )
            raise DeviceError(
                f"these gradients belong to leaves on {self._device}, got a tensor on {leaf.device}; "
                "pass the tensor that require_grad() returned"
            )
        node = leaf._primitive.node
        if node is None:
            raise NotTrackedError(
                f"the tensor of shape {leaf.shape} and dtype {leaf.dtype} on {leaf.device} is not tracked and has no "
                "gradient; call require_grad() before computing the loss, and pass the tensor that it returned"
            )
        key = node.leaf
        if key is None:
            raise NotTrackedError(
                f"the tensor of shape {leaf.shape} was computed by {node.operation} and is not a leaf; "
                "for its gradient, continue with the result of x.retain_grad()"
            )
        return key  # type: ignore[no-any-return]  # of a tracked primitive


def scales(x: object, grads: Any) -> bool:
    """Return whether x is a number, or a 0-d tensor on the device of gradients, which scales all of them at once."""
    if type(x) is int:
        return abs(x) <= MOST_FLOAT  # the product of a tensor and a larger one explains that it does not fit
    return type(x) is float or (_has_gradient(x) and x.shape == () and x.device is grads.device)  # type: ignore[attr-defined]  # of a tensor


def primitive_of(x: Any) -> Any:
    """Return the primitive of a tensor; anything else unchanged."""
    return x._primitive if isinstance(x, TensorBase) else x


def _has_gradient(x: object) -> bool:
    return isinstance(x, TensorBase) and x.kind in INEXACT
