"""``x.at[key].set(v)`` and similar methods: indexed updates that return a new tensor instead of assigning in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self

from burnpy.backend.errors import KindError, ShapeError
from burnpy.backend.primitives import Key, Shape, Value
from burnpy.tensor.call_errors import explained
from burnpy.tensor.keys import Indexed, flattened, parsed_key
from burnpy.tensor.levels import OutsideError
from burnpy.tensor.operands import broadcast_shape, number, operands, together
from burnpy.tensor.tensor_base import TensorBase, X
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.keys import Index


class At(Generic[X, B]):
    """The object ``x.at``, which is indexed like x."""

    __slots__ = ("_x",)

    def __init__(self, x: X) -> None:
        self._x = x

    def __getitem__(self, key: Index[B]) -> AtIndex[X]:
        return AtIndex(self._x, key)


class AtIndex(Generic[X]):
    """The object ``x.at[key]``, whose methods return a copy of x in which the elements ``x[key]`` are updated.

    Values are numbers, or tensors of x's kind that broadcast to the shape of ``x[key]`` and are cast to x's dtype. All
    methods are differentiable with respect to x and to the value. If the key selects an element more than once, `set`
    uses the last value, which alone gets a gradient; the other methods combine all values.
    """

    __slots__ = ("_basic", "_indexed", "_part", "_x")

    def __init__(self, x: X, key: Index[Any]) -> None:
        self._basic: Key | None
        self._indexed: Indexed | None
        try:
            self._basic, self._indexed = parsed_key(x, key)
        except OutsideError as error:
            (x,) = error.lifted([x])
            self._basic, self._indexed = parsed_key(x, key)
        self._x: Any = x
        self._part: Value = x._primitive if self._basic is None else x._backend.slice(x._primitive, self._basic)

    @explained
    def set(self, value: X | float) -> X:
        """Return a copy of x with ``x[key]`` set to ``value``."""
        self = self._beside(value, "set")
        indexed, b = self._indexed, self._x._backend
        new = self._value("set", value)
        if indexed is None:
            out: X = self._x._like(b.slice_scatter(self._x._primitive, self._basic or (), new))
            return out
        flat = flattened(b, self._part, indexed)
        return self._back(b.index_put(flat, indexed.dim, indexed.index, self._spread(new)))

    @explained
    def add(self, value: X | float) -> X:
        """Return a copy of x with ``value`` added to ``x[key]``; if the key repeats an element, all values are
        added.
        """
        self._need_numbers("add")
        self = self._beside(value, "add")
        indexed, b = self._indexed, self._x._backend
        new = self._value("add", value)
        if indexed is None:
            return self._back(b.add(self._part, new))
        flat = flattened(b, self._part, indexed)
        return self._back(b.index_add(flat, indexed.dim, indexed.index, self._spread(new)))

    @explained
    def mul(self, value: X | float) -> X:
        """Return a copy of x with ``x[key]`` multiplied by ``value``."""
        return self._reduced("mul", "mul", "prod", value)

    @explained
    def min(self, value: X | float) -> X:
        """Return a copy of x with the minimum of ``x[key]`` and ``value``; the gradient is split evenly among ties."""
        return self._reduced("min", "minimum", "amin", value)

    @explained
    def max(self, value: X | float) -> X:
        """Return a copy of x with the maximum of ``x[key]`` and ``value``; the gradient is split evenly among ties."""
        return self._reduced("max", "maximum", "amax", value)

    def _reduced(self, name: str, operation: str, reduce: str, value: Any) -> X:
        """Return a copy of x with a binary operation applied to ``x[key]``, or the reduction if the key is indices."""
        self._need_numbers(name)
        self = self._beside(value, name)
        indexed, b = self._indexed, self._x._backend
        new = self._value(name, value)
        if indexed is None:
            return self._back(getattr(b, operation)(self._part, new))
        flat = flattened(b, self._part, indexed)
        return self._back(b.index_reduce(flat, indexed.dim, indexed.index, self._spread(new), reduce))

    def _beside(self, value: Any, name: str) -> Self:
        """Return this object with x lifted to the device of ``value`` if that is a level above x's."""
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
        """Return the primitive of a value in x's dtype.

        Raises:
            ShapeError: it does not broadcast to the shape of ``x[key]``.
        """
        x, b = self._x, self._x._backend
        if not isinstance(value, TensorBase):
            return b.full((), number(x, value, f"at[...].{name}"), x.dtype)
        new = operands(x, value, f"at[...].{name}")[1]
        if broadcast_shape(new.shape, self._shape) != self._shape:
            raise ShapeError(
                f"at[...].{name}() got a value of shape {new.shape} for elements of shape {self._shape}, "
                "which do not broadcast"
            )
        return new if new.dtype == x.dtype else b.cast(new, x.dtype)

    def _spread(self, new: Value) -> Value:
        """Return a value expanded to ``x[key]``, with its indexed dimensions flattened to match the 1-d index."""
        indexed, b = self._indexed, self._x._backend
        assert indexed is not None
        shape = self._shape
        whole = new if new.shape == shape else b.expand(new, shape)
        rest = shape[indexed.dim + len(indexed.shape) :]
        return b.reshape(whole, (*shape[: indexed.dim], indexed.index.shape[0], *rest))

    def _back(self, part: Value) -> X:
        """Return a new tensor like x from the updated slice, whose dimensions are put back in order."""
        x, b, indexed = self._x, self._x._backend, self._indexed
        if indexed is not None:
            order = indexed.order
            shape = self._part.shape if order is None else tuple([self._part.shape[d] for d in order])
            if len(indexed.sizes) > 1:
                part = b.reshape(part, shape)
            if order is not None:
                part = b.permute(part, tuple([order.index(d) for d in range(len(order))]))
        out: X = x._like(part if self._basic is None else b.slice_scatter(x._primitive, self._basic, part))
        return out

    def _need_numbers(self, name: str) -> None:
        if self._x.kind == "bool":
            raise KindError(f"at[...].{name}() got a BoolTensor; it has .set(), and &, | and ^")
