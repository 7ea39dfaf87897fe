"""Updated copies: ``x.at[key].set(v)``, and the methods that replace a slice or elements by place.

`burnpy.tensor.scattering` replaces elements at indices along a dimension.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, Self

from burnpy.backend.errors import ArgumentError, ImmutableError, KindError, MissingNameError, ShapeError
from burnpy.backend.primitives import Key, Shape, Value
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import WHOLE, dim_of, integer
from burnpy.tensor.index_keys import Indexed, flattened, parsed_key
from burnpy.tensor.levels import OutsideError
from burnpy.tensor.operand_checks import broadcast_shape, in_range, index_of, number, operands, out_of_range, together
from burnpy.tensor.tensor_base import TensorBase, X, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.index_keys import Index
    from burnpy.tensor.tensor_types import Ints


_OTHER_NAMES = {
    "get": "write x[...]",
    "multiply": "write x.at[...].mul(value)",
    "divide": "write x.at[...].mul(1.0 / value)",
    **dict.fromkeys(("sub", "subtract"), "write x.at[...].add(-value)"),
    **dict.fromkeys(("apply", "power"), "write x.at[key].set(f(x[key]))"),
}
"""For JAX's names of updates: what to write."""


_OPERATIONS = {"add": "add", "mul": "mul", "min": "minimum", "max": "maximum"}
_REDUCTIONS = {"mul": "prod", "min": "amin", "max": "amax"}
"""The operations that combine elements with values, and with several values of one place."""


class At(Generic[X, B]):
    """The object ``x.at``, which is indexed like x."""

    __slots__ = ("_x",)

    def __init__(self, x: X) -> None:
        self._x = x

    def __getitem__(self, key: Index[B]) -> AtIndex[X]:
        mask: Any = key
        of_bools = isinstance(mask, TensorBase) and mask.kind == "bool" and mask.ndim
        if of_bools and self._x.shape[: mask.ndim] == mask.shape:
            return AtMask(self._x, mask)
        return AtIndex(self._x, key)

    if not TYPE_CHECKING:  # type checkers reject it

        def __setitem__(self, key, value):
            raise ImmutableError(
                "x.at[...] = v would change the tensor, and tensors are immutable; write x = x.at[...].set(v), or "
                ".add, .mul, .min or .max in place of .set"
            )

        def __getattr__(self, name):
            if name.startswith("_"):  # `copy` and `pickle` look for such names
                raise AttributeError(f"'At' object has no attribute {name!r}", name=name, obj=self)
            called = name if hasattr(AtIndex, name) else "set"
            raise MissingNameError(f"x.at has no {name}; name the elements first, as in x.at[0].{called}(value)")


class AtIndex(Generic[X]):
    """The object ``x.at[key]``, whose methods return a copy of x in which the elements ``x[key]`` are updated.

    Values are numbers, or tensors of x's kind that broadcast to the shape of ``x[key]`` and are cast to x's dtype. All
    methods are differentiable with respect to x and to the value. If the key selects an element more than once, `set`
    uses the last value, which alone gets a gradient; the other methods combine all values.
    """

    __slots__ = ("_basic", "_indexed", "_x", "checked_part")

    def __init__(self, x: X, key: Index[Any]) -> None:
        self._basic: Key | None
        self._indexed: Indexed | None
        try:
            self._basic, self._indexed = parsed_key(x, key)
        except OutsideError as error:
            (x,) = error.lifted([x])
            self._basic, self._indexed = parsed_key(x, key)
        self._x: Any = x
        self.checked_part: Value = x._primitive if self._basic is None else x._backend.slice(x._primitive, self._basic)

    if not TYPE_CHECKING:  # type checkers reject it

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(f"'AtIndex' object has no attribute {name!r}", name=name, obj=self)
            way = _OTHER_NAMES.get(name, "write .set(value), or .add, .mul, .min or .max")
            raise MissingNameError(f"x.at[...] has no {name}; {way}")

    @explained
    def set(self, value: X | float) -> X:
        """Return a copy of x with ``x[key]`` set to ``value``."""
        return self._updated("set", value)

    @explained
    def add(self, value: X | float) -> X:
        """Return a copy of x with ``value`` added to ``x[key]``; if the key repeats an element, all values are
        added."""
        return self._updated("add", value)

    @explained
    def mul(self, value: X | float) -> X:
        """Return a copy of x with ``x[key]`` multiplied by ``value``."""
        return self._updated("mul", value)

    @explained
    def min(self, value: X | float) -> X:
        """Return a copy of x with the minimum of ``x[key]`` and ``value``; the gradient is split evenly among ties."""
        return self._updated("min", value)

    @explained
    def max(self, value: X | float) -> X:
        """Return a copy of x with the maximum of ``x[key]`` and ``value``; the gradient is split evenly among ties."""
        return self._updated("max", value)

    def _updated(self, name: str, value: Any) -> X:
        """Return a copy of x with ``x[key]`` updated by the method of a name."""
        self._need_numbers(name)
        self = self._beside(value, name)
        indexed, b = self._indexed, self._x._backend
        new = self._value(name, value)
        if indexed is None:
            if name == "set":
                return self._x._like(b.slice_scatter(self._x._primitive, self._basic or (), new))  # type: ignore[no-any-return]  # of that class
            return self._back(getattr(b, _OPERATIONS[name])(self.checked_part, new))
        flat, new = flattened(b, self.checked_part, indexed), self._spread(new)
        if name in _REDUCTIONS:
            return self._back(b.index_reduce(flat, indexed.dim, indexed.index, new, _REDUCTIONS[name]))
        write = b.index_put if name == "set" else b.index_add
        return self._back(write(flat, indexed.dim, indexed.index, new))

    def _beside(self, value: Any, name: str) -> Self:
        """Return this object with x lifted to the device of ``value`` if that is a level above x's."""
        x = self._x
        if not isinstance(value, TensorBase) or value._device is x._device:
            return self
        out = object.__new__(type(self))
        out._x, _ = together(f"at[...].{name}", x, value)
        out._basic, out._indexed = self._basic, self._indexed
        lifted = out._x._primitive
        out.checked_part = lifted if self._basic is None else out._x._backend.slice(lifted, self._basic)
        return out

    @property
    def _shape(self) -> Shape:
        """The shape of ``x[key]``."""
        shape: Shape = self.checked_part.shape
        indexed = self._indexed
        if indexed is None:
            return shape
        if indexed.order is not None:
            shape = tuple([shape[d] for d in indexed.order])
        return (*shape[: indexed.dim], *indexed.shape, *shape[indexed.dim + len(indexed.sizes) :])

    def _value(self, name: str, value: Any) -> Value:
        """Return the primitive of a value in x's dtype."""
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
            shape = self.checked_part.shape if order is None else tuple([self.checked_part.shape[d] for d in order])
            if len(indexed.sizes) > 1:
                part = b.reshape(part, shape)
            if order is not None:
                part = b.permute(part, tuple([order.index(d) for d in range(len(order))]))
        out: X = x._like(part if self._basic is None else b.slice_scatter(x._primitive, self._basic, part))
        return out

    def _need_numbers(self, name: str) -> None:
        if self._x.kind == "bool" and name != "set":
            raise KindError(f"at[...].{name}() got a BoolTensor; it has .set(), and &, | and ^")


class AtMask(AtIndex[X]):
    """The object ``x.at[mask]``. One value for all elements of the mask needs no indices, which `vmap` and compiled
    functions do not have."""

    __slots__ = ("_mask",)

    def __init__(self, x: X, mask: TensorBase[Any]) -> None:
        self._x: Any = x
        self._mask: Any = mask

    @property
    def _shape(self) -> Shape:
        """The shape of ``x[key]`` without its first dimension."""
        shape: Shape = self._x.shape
        return shape[self._mask.ndim :]

    def _updated(self, name: str, value: Any) -> X:
        values = [value] if isinstance(value, TensorBase) else []
        rest = self._shape
        if any(broadcast_shape(v.shape, rest) != rest for v in values):
            index: AtIndex[X] = AtIndex(self._x, self._mask)
            return index._updated(name, value)
        self._need_numbers(name)
        x, mask = together(f"at[...].{name}", self._x, self._mask, *values)[:2]
        new, b, old = AtMask(x, mask)._value(name, value), x._backend, x._primitive
        chosen = x._device.discrete.reshape(mask._primitive, (*mask.shape, *[1] * len(rest)))
        if name == "mul":  # where x stays, an infinite value would have a gradient of 0 · ∞
            out = b.mul(old, b.where(chosen, new, 1))
        else:
            out = b.where(chosen, new if name == "set" else getattr(b, _OPERATIONS[name])(old, new), old)
        return x._like(out)  # type: ignore[no-any-return]  # of x's class


class SliceUpdates(TensorBase[B]):
    """Copies of x with a part replaced by a tensor ``src`` of x's kind and of the part's shape, cast to x's dtype.

    Gradients go to ``src`` for the part, and to x for the rest.
    """

    __slots__ = ()

    def select_scatter(self, src: Self, dim: int, index: int) -> Self:
        """Return a copy of x with the slice at ``index`` along ``dim`` replaced by ``src``, as
        ``x.at[index].set(src)``.

        Raises:
            ShapeError: ``src`` does not have the shape of ``x.select(dim, index)``.
            IndexRangeError: the index is out of range.

        >>> x = IntTensor[NumPy].zeros((2, 2))
        >>> x.select_scatter(IntTensor[NumPy].from_data([1, 2]), 1, -1).tolist()
        [[0, 1], [0, 2]]
        """
        shape = self.shape
        place, number = dim_of(dim, len(shape), "select_scatter"), integer(index, "index", "select_scatter")
        size = shape[place]
        if not -size <= number < size:
            raise out_of_range(number, size, True, "select_scatter()", place, shape)
        self, value = checked_part("select_scatter", self, src, (*shape[:place], *shape[place + 1 :]))
        key: Key = (*(WHOLE,) * place, number % size)
        return self._like(self._backend.slice_scatter(self._primitive, key, value))

    def slice_scatter(
        self, src: Self, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
    ) -> Self:
        """Return a copy of x with the slices ``start:end:step`` along ``dim`` replaced by ``src``.

        Args:
            src: the new slices.
            dim: the dimension.
            start: the first slice; None for 0. As in Python, negative numbers count from the end, and numbers beyond
                the ends are the ends.
            end: the slice after the last; None for the size.
            step: the distance of the slices, at least 1.

        Raises:
            ShapeError: ``src`` does not have the shape of these slices.
            ArgumentError: the step is below 1.

        >>> IntTensor[NumPy].zeros((4,)).slice_scatter(IntTensor[NumPy].from_data([1, 2]), start=1, step=2).tolist()
        [0, 1, 0, 2]
        """
        shape = self.shape
        place, every = dim_of(dim, len(shape), "slice_scatter"), integer(step, "step", "slice_scatter")
        if every < 1:
            raise ArgumentError(f"slice_scatter() got step={every}; give 1 or more")
        low, high = (
            None if each is None else integer(each, name, "slice_scatter")
            for name, each in (("start", start), ("end", end))
        )
        first, last, _ = slice(low, high, every).indices(shape[place])
        last = max(first, last)
        count = len(range(first, last, every))
        self, value = checked_part("slice_scatter", self, src, (*shape[:place], count, *shape[place + 1 :]))
        key: Key = (*(WHOLE,) * place, slice(first, last, every))
        return self._like(self._backend.slice_scatter(self._primitive, key, value))

    def put(self, index: Ints[B], source: Self, accumulate: bool = False) -> Self:
        """Return a copy of x with elements replaced by those of ``source``, at places in x flattened in row-major
        order.

        If a place repeats, the last element is written, and gets the gradient.

        Args:
            index: the places, of any shape; negative ones count from the end.
            source: as many elements as there are places, cast to x's dtype.
            accumulate: whether to add the elements instead, all those of a place.

        Raises:
            ShapeError: ``source`` has another number of elements.
            IndexRangeError: a place is out of range; on a GPU at the next synchronization.
            KindError: x is a `BoolTensor`, and elements are to be added.

        >>> x, index = Tensor[NumPy].zeros((2, 2)), IntTensor[NumPy].from_data([3, 0])
        >>> x.put(index, Tensor[NumPy].from_data([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 1.0]]
        """
        if accumulate and self.kind == "bool":
            raise KindError("put() got accumulate=True for a BoolTensor; it adds numbers: convert with x.int()")
        places = index_of(self, index, "put")
        shape, count = self.shape, math.prod(places.shape)
        if not isinstance(source, TensorBase):
            raise KindError(f"put() got {describe(source)} as source; expected a tensor")
        self, value = operands(self, source, "put")
        if math.prod(value.shape) != count:
            raise ShapeError(f"put() got a source of shape {value.shape} for an index of shape {places.shape}")
        b, size = self._backend, math.prod(shape)
        flat_places = self.device.discrete.reshape(places, (count,))
        flat_places = in_range(self.device, flat_places, size, True, "put()", 0, (size,))
        value = b.reshape(value if value.dtype == self.dtype else b.cast(value, self.dtype), (count,))
        write = b.index_add if accumulate else b.index_put
        return self._like(b.reshape(write(b.reshape(self._primitive, (size,)), 0, flat_places, value), shape))


def checked_part(operation: str, x: Any, src: Any, shape: Shape) -> tuple[Any, Value]:
    """Return x and the primitive of a part of the given shape, on one device and of one dtype."""
    if not isinstance(src, TensorBase):
        raise KindError(f"{operation}() got {describe(src)} as src; expected a tensor: for a number use x.at[…].set()")
    x, value = operands(x, src, operation)
    if value.shape != shape:
        raise ShapeError(f"{operation}() got src of shape {value.shape} for x of shape {x.shape}; expected {shape}")
    return x, value if value.dtype == x.dtype else x._backend.cast(value, x.dtype)
