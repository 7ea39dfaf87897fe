"""``x.at[key].set(v)`` and its kin: what assignments are to arrays that change, as functions that give a new tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from burnpy.backend.errors import KindError, ShapeError
from burnpy.backend.primitives import Key, Shape, Value
from burnpy.tensor.base import B, TensorBase
from burnpy.tensor.keys import Indexed, flattened, selection
from burnpy.tensor.operands import broadcast_shape, number, operands, together

if TYPE_CHECKING:
    from burnpy.tensor.keys import Index

T = TypeVar("T", bound=TensorBase[Any])


class At(Generic[T, B]):
    """``x.at``, to be indexed like x."""

    __slots__ = ("_x",)

    def __init__(self, x: T) -> None:
        self._x = x

    def __getitem__(self, key: Index[B]) -> AtIndex[T]:
        return AtIndex(self._x, key)


class AtIndex(Generic[T]):
    """``x.at[key]``: the place ``x[key]``, of which each method makes a new tensor like x with a change there.

    Values are tensors of x's kind, which broadcast to the shape of ``x[key]`` and are cast to x's dtype, or numbers.
    All methods are differentiable, in x and in the value. Where the key names an element more than once, `set` leaves
    the last value, which alone gets a gradient; the other methods take all of them.
    """

    __slots__ = ("_basic", "_indexed", "_part", "_x")

    def __init__(self, x: T, key: Index[Any]) -> None:
        self._x: Any = x
        self._basic: Key | None
        self._indexed: Indexed | None
        self._basic, self._indexed = selection(x, key)
        self._part: Value = x._primitive if self._basic is None else x._backend.slice(x._primitive, self._basic)

    def set(self, value: T | float) -> T:
        """x with ``value`` there."""
        self = self._beside(value, "set")
        indexed, b = self._indexed, self._x._backend
        new = self._value("set", value)
        if indexed is None:
            out: T = self._x._like(b.slice_scatter(self._x._primitive, self._basic or (), new))
            return out
        flat = flattened(b, self._part, indexed)
        return self._back(b.index_put(flat, indexed.dim, indexed.index, self._spread(new)))

    def add(self, value: T | float) -> T:
        """x with ``value`` added there; where the key repeats an element, all are added."""
        self._need_numbers("add")
        self = self._beside(value, "add")
        indexed, b = self._indexed, self._x._backend
        new = self._value("add", value)
        if indexed is None:
            return self._back(b.add(self._part, new))
        flat = flattened(b, self._part, indexed)
        return self._back(b.index_add(flat, indexed.dim, indexed.index, self._spread(new)))

    def mul(self, value: T | float) -> T:
        """x multiplied by ``value`` there."""
        return self._reduced("mul", "mul", "prod", value)

    def min(self, value: T | float) -> T:
        """x with the smaller of it and ``value`` there; the gradient of ties is split evenly among all."""
        return self._reduced("min", "minimum", "amin", value)

    def max(self, value: T | float) -> T:
        """x with the larger of it and ``value`` there; the gradient of ties is split evenly among all."""
        return self._reduced("max", "maximum", "amax", value)

    def _reduced(self, name: str, operation: str, reduce: str, value: Any) -> T:
        """x with the result of a binary operation there; of a repeated element, with that of the reduction."""
        self._need_numbers(name)
        self = self._beside(value, name)
        indexed, b = self._indexed, self._x._backend
        new = self._value(name, value)
        if indexed is None:
            return self._back(getattr(b, operation)(self._part, new))
        flat = flattened(b, self._part, indexed)
        return self._back(b.index_reduce(flat, indexed.dim, indexed.index, self._spread(new), reduce))

    def _beside(self, value: Any, name: str) -> Self:
        """The place in x lifted to the device of ``value``, where that is a level above x's."""
        x = self._x
        if not isinstance(value, TensorBase) or value._device is x._device:
            return self
        out = object.__new__(type(self))
        out._x, _ = together(f"at[...].{name}", x, value)
        out._basic, out._indexed = self._basic, self._indexed
        lifted = out._x._primitive
        out._part = lifted if self._basic is None else out._x._backend.slice(lifted, self._basic)
        return out

    @property
    def _shape(self) -> Shape:
        """The shape of ``x[key]``."""
        shape: Shape = self._part.shape
        indexed = self._indexed
        if indexed is None:
            return shape
        if indexed.order is not None:
            shape = tuple([shape[d] for d in indexed.order])
        return (*shape[: indexed.dim], *indexed.shape, *shape[indexed.dim + len(indexed.sizes) :])

    def _value(self, name: str, value: Any) -> Value:
        """The primitive of a value, in x's dtype."""
        x, b = self._x, self._x._backend
        if not isinstance(value, TensorBase):
            return b.full((), number(x, value, f"at[...].{name}"), x.dtype)
        new = operands(x, value, f"at[...].{name}")[1]
        if broadcast_shape(new.shape, self._shape) != self._shape:
            raise ShapeError(
                f"at[...].{name}() was asked with a value of shape {new.shape} for a place of shape {self._shape}, "
                "to which it does not broadcast"
            )
        return new if new.dtype == x.dtype else b.cast(new, x.dtype)

    def _spread(self, new: Value) -> Value:
        """A value in the shape that belongs to the 1-d index."""
        indexed, b = self._indexed, self._x._backend
        assert indexed is not None
        shape = self._shape
        whole = new if new.shape == shape else b.expand(new, shape)
        rest = shape[indexed.dim + len(indexed.shape) :]
        return b.reshape(whole, (*shape[: indexed.dim], indexed.index.shape[0], *rest))

    def _back(self, part: Value) -> T:
        """A new tensor like x with a changed slice."""
        x, b, indexed = self._x, self._x._backend, self._indexed
        if indexed is not None:
            order = indexed.order
            shape = self._part.shape if order is None else tuple([self._part.shape[d] for d in order])
            if len(indexed.sizes) > 1:
                part = b.reshape(part, shape)
            if order is not None:
                part = b.permute(part, tuple([order.index(d) for d in range(len(order))]))
        out: T = x._like(part if self._basic is None else b.slice_scatter(x._primitive, self._basic, part))
        return out

    def _need_numbers(self, name: str) -> None:
        if self._x.kind == "bool":
            raise KindError(f"at[...].{name}() was asked of a BoolTensor; it has .set(), and &, | and ^")
