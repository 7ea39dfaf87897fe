"""Python's protocols: printing, length, iteration, numbers of one element, copies, pickles, NumPy's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NoReturn, Self

import numpy as np

from burnpy.backend.errors import KindError, ScalarError, ShapeError, a
from burnpy.backend.primitives import INEXACT
from burnpy.tensor.conversion import Conversion
from burnpy.tensor.dim_checks import WHOLE
from burnpy.tensor.host_data import writer
from burnpy.tensor.levels import beneath_levels, levels_of
from burnpy.tensor.tensor_base import TensorBase, new_tensor
from burnpy.typevars import B


class Protocols(Conversion[B]):
    """Python's protocols: printing, containers, numbers, ``copy`` and ``pickle``; and NumPy's of functions."""

    __slots__ = ()

    def __repr__(self) -> str:
        from burnpy.tensor.display import text_of

        return text_of(self)

    def _repr_html_(self) -> str:
        """Return the tensor as a notebook shows it."""
        from burnpy.tensor.display import html_of

        return html_of(self)

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        element: Any = self._only(f"format {spec!r}")
        return format(element, spec)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Handle a NumPy function of tensors: ``ndarray + tensor`` must not become an array of objects."""
        return applied(self, ufunc, method, inputs, options)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """Refuse a function of PyTorch, and say what to write instead."""
        raise not_of_torch(cls, function)

    @property
    def __array_namespace__(self) -> Callable[..., Any]:
        """``x.__array_namespace__()``: the functions of the array API standard, `burnpy.array_api`, on x's device.

        >>> x = Tensor[NumPy].from_data([3.0, 1.0])
        >>> x.__array_namespace__().sort(x).tolist()
        [1.0, 3.0]
        """
        namespaces: Any = import_module("burnpy.array_api.namespace")  # by name: it is made of tensors, and above them
        return namespaces.method_of(self)  # type: ignore[no-any-return]  # of a module by name

    def __len__(self) -> int:
        return self._length("len()")

    def __iter__(self) -> Iterator[Self]:
        return self._rows(self._length("iteration"))

    def _rows(self, count: int) -> Iterator[Self]:
        backend, primitive = self._backend, self._primitive
        rest = (WHOLE,) * (self.ndim - 1)
        for row in range(count):
            yield self._like(backend.slice(primitive, (row, *rest)))

    def _length(self, operation: str) -> int:
        shape = self.shape
        if not shape:
            raise ScalarError(
                f"{operation} got a 0-d {type(self).__name__}, which has no dimensions; .item() is its value"
            )
        return shape[0]

    def __contains__(self, value: object) -> bool:
        compared: Any = self
        equal = compared == value
        return bool(equal._backend.to_numpy(equal._primitive).any())

    def __bool__(self) -> bool:
        if self.numel() != 1:
            x = "x" if self.kind == "bool" else "x.bool()"
            raise ShapeError(
                f"the truth value of {a(type(self).__name__)} with shape {self.shape} is ambiguous; use {x}.any() "
                f"or {x}.all()"
            )
        return bool(self._item("bool()"))

    def __float__(self) -> float:
        return float(self._item("float()"))

    def __int__(self) -> int:
        return int(self._item("int()"))

    def __complex__(self) -> complex:
        return complex(self._item("complex()"))

    def __copy__(self) -> Self:
        if self._device.level:  # in a function of burnpy.func, which differentiates through the copy
            return self
        flags = tracked_levels(self)
        return (
            relifted(type(self), self._device, beneath_levels(self._backend, self._primitive), flags)
            if any(flags)
            else self
        )

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (type(self), self._device, self.to_numpy(), tracked_levels(self))


def tracked_levels(x: Any) -> tuple[bool, ...]:
    """Return a flag for each level of the tensor's device, the outermost first: True if the tensor is tracked there."""
    flags: list[bool] = []
    device, primitive = x._backend, x._primitive
    while device.differentiates:
        flags.append(getattr(primitive, "node", None) is not None)
        device, primitive = device.inner, device.lower(primitive)
    return tuple(flags)


def relifted(cls: type[Any], device: Any, primitive: Any, flags: tuple[bool, ...]) -> Any:
    """Return a tensor from a primitive of the innermost backend; a leaf on the levels whose flag is True."""
    backend = device if cls.kind in INEXACT else device.discrete
    for level, flag in zip(reversed(levels_of(backend)), reversed(flags), strict=True):
        primitive = level.lift(primitive)
        if flag:
            primitive = level.require_grad(primitive)
    return new_tensor(cls, device, primitive)


def restored(cls: type[Any], device: Any, array: Any, flags: tuple[bool, ...]) -> Any:
    """Return an unpickled tensor on the device, as a new leaf if it was tracked. Arrays inside the pickle have no other
    owner and are not copied. Out-of-band buffers (``pickle.loads(..., buffers=)``) belong to the caller, and are copied
    unless they are bytes."""
    backend = device.discrete
    make = backend.adopt_numpy if array.base is None or not writer(array) else backend.from_numpy
    return relifted(cls, device, make(array), flags)


def not_of_torch(cls: type[Any], function: Any) -> KindError:
    """Return the error for a function of PyTorch that got a tensor of class ``cls``."""
    from burnpy.hints.missing_names import row_of

    name = str(getattr(function, "__name__", function))
    row = row_of(name)
    way_out = f"write {row.ours}" if row is not None else f"write x.{name}()" if hasattr(cls, name) else None
    return KindError(
        f"torch.{name}() got {a(cls.__name__)} of burnpy, but computes with PyTorch's tensors; "
        f"{way_out or 'compute with tensors of burnpy, or pass torch.from_dlpack(x)'}"
    )


REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "power": "__rpow__",
    "matmul": "__rmatmul__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "equal": "__eq__",
    "not_equal": "__ne__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
}
"""For each of NumPy's functions that an operator calls, the special method of the tensor on its right."""


def applied(tensor: TensorBase[Any], ufunc: Any, method: str, inputs: tuple[Any, ...], options: Any) -> Any:
    """Return the result of an operator with something of NumPy's on its left, and refuse other functions.

    Args:
        tensor: the first tensor among the inputs.
        ufunc: the function.
        method: how it was called: "__call__", "reduce" and so on.
        inputs: its arguments.
        options: its keyword arguments.

    Raises:
        KindError: the function was called by its name; or the left operand is an array.
    """
    from burnpy.hints.missing_names import row_of

    name = REFLECTED.get(ufunc.__name__)
    if method == "__call__" and name and not options and isinstance(inputs[0], (np.generic, np.ndarray)):
        left: Any = inputs[0]
        left = left if left.ndim else left[()]  # comparisons make a 0-d array of a number
        operator = getattr(inputs[1], name, None)
        result = NotImplemented if operator is None else operator(left)
        if result is not NotImplemented:
            return result
    called = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    row = row_of(ufunc.__name__) if method == "__call__" else None
    what = f"np.{called}() got {a(type(tensor).__name__)} of shape {tensor.shape}, but computes with arrays"
    ours = "x == y" if ufunc.__name__ == "equal" else row.ours if row is not None else None
    if ours and any(isinstance(other, np.ndarray) for other in inputs):
        ours += ", and make tensors of arrays first: Tensor.from_data(array, device=x.device)"
    raise KindError(f"{what}; {f'write {ours}' if ours else 'compute with tensors, or pass x.to_numpy()'}")
