"""Saved-tensor hooks: saved tensors are packed when they are recorded, and unpacked when a backward pass needs them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from burnpy.autodiff.modes import observing, using
from burnpy.autodiff.saved_tensors.slots import (
    Saver,
    Stored,
    array_of,
    innermost_saver,
    refuse_where_disabled,
)
from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import ArgumentError, DeviceError, KindError, SavedTensorsError, ShapeError, a
from burnpy.tensor.tensor_base import TensorBase, new_tensor
from burnpy.typevars import T

AnyTensor: TypeAlias = TensorBase[Any]
"""A `Tensor`, `IntTensor` or `BoolTensor` on the innermost device, where nothing is recorded."""


def saved_tensors_hooks(pack: Callable[[Any], T], unpack: Callable[[T], AnyTensor]) -> AbstractContextManager[None]:
    """Return a context manager in which every tensor saved for the backward pass goes through ``pack``.

    ``pack`` is called once for each array that a node saves, as soon as the node is recorded, and may return any
    object; ``unpack`` is called with that object when a backward pass needs the array, once in each pass. The hooks
    belong to the nodes recorded in the block, wherever the backward pass runs. In nested blocks only the innermost pair
    is called. Saved values other than arrays (shapes, dtypes, numbers) are not packed.

    Args:
        pack: takes a `Tensor`, `IntTensor` or `BoolTensor` of any shape on the innermost device (``NumPy`` for
            ``Autodiff[Autodiff[NumPy]]``), parameters included. Its operations are not recorded.
        unpack: returns a tensor of the same kind, shape, dtype and device.

    Raises:
        ArgumentError: one of the two is not callable.
        SavedTensorsError: hooks are disabled here.
        KindError: in the backward pass: ``unpack`` returned no tensor of that kind.
        DeviceError: likewise, on that device.
        ShapeError: likewise, of that shape and dtype.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> with saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
    ...     y = x.exp().sum()
    >>> x.grad(y.backward()).tolist()
    [2.71875, 7.390625]
    """
    for name, function in (("pack", pack), ("unpack", unpack)):
        if not callable(function):
            raise ArgumentError(f"saved_tensors_hooks() got {name}={function!r:.80}, which cannot be called")
    return saving(_Hooks(pack, unpack), "saved_tensors_hooks()")


@contextmanager
def saving(saver: Saver, operation: str) -> Generator[None, None, None]:
    """A block in which a saver is the innermost.

    Raises:
        SavedTensorsError: hooks are disabled here.
    """
    refuse_where_disabled(operation)
    with observing(saver):
        yield


@contextmanager
def disable_saved_tensors_hooks(message: str) -> Generator[None, None, None]:
    """A context manager in which saved-tensor hooks and `checkpoint` raise an error with ``message``.

    Use it for code that cannot work with hooks. It cannot be entered inside of hooks.

    Raises:
        KindError: ``message`` is no str.
        SavedTensorsError: hooks are active already.

    >>> with disable_saved_tensors_hooks("arrays are shared here"):
    ...     with saved_tensors_hooks(str, str):
    ...         pass
    Traceback (most recent call last):
        ...
    burnpy.backend.errors.SavedTensorsError: saved_tensors_hooks() is disabled here ...: arrays are shared here
    """
    text: Any = message
    if not isinstance(text, str):
        raise KindError(f"disable_saved_tensors_hooks(message) takes the text of the errors there, not {text!r:.80}")
    if innermost_saver() is not None:
        raise SavedTensorsError(f"disable_saved_tensors_hooks() was entered where hooks are in force: {message}")
    with using(no_saving=message):
        yield


def tensor_around(device: Any, array: Any) -> AnyTensor:
    """Wrap an innermost array as a tensor of its kind, on the innermost device beneath ``device``."""
    plain = device.discrete
    return new_tensor(TensorBase.kinds[kind_of(array.dtype)], plain, array)  # type: ignore[no-any-return]  # of that class


class _Hooks(Saver):
    """A saver that calls a user's pair of hooks."""

    __slots__ = ("pack", "unpack")

    def __init__(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        self.pack, self.unpack = pack, unpack

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        tensor = tensor_around(device, array_of(x))
        with using(observers=(), takers=()):  # otherwise arrays saved by pack would be packed in turn
            content = self.pack(tensor)
        return _Packed(self.unpack, content, tensor, operation, getattr(type(x), "holding", None))


class _Packed(Stored):
    """The object that ``pack`` returned, with the kind, device, shape and dtype that ``unpack`` must restore."""

    __slots__ = ("content", "device", "dtype_", "holding", "kind", "operation", "shape_", "unpack")

    def __init__(self, unpack: Any, content: Any, tensor: AnyTensor, operation: str, holding: Any) -> None:
        self.unpack, self.content, self.operation, self.holding = unpack, content, operation, holding
        self.kind, self.device, self.shape_, self.dtype_ = type(tensor), tensor.device, tensor.shape, tensor.dtype

    def restored(self) -> Any:
        with using(observers=(), takers=()):
            result = self.unpack(self.content)
        if type(result) is not self.kind or result.device is not self.device:
            error = DeviceError if type(result) is self.kind else KindError
            shown = f"one on {result.device}" if type(result) is self.kind else repr(result)
            raise error(f"{self._asked()} must give back {a(self.kind.__name__)} on {self.device}, not {shown}")
        if (result.shape, result.dtype) != (self.shape_, self.dtype_):
            raise ShapeError(
                f"{self._asked()} must give back shape {self.shape_} and dtype {self.dtype_}, "
                f"not shape {result.shape} and dtype {result.dtype}"
            )
        return result._primitive if self.holding is None else self.holding(result._primitive)

    def _asked(self) -> str:
        return f"saved_tensors_hooks(): unpack(), for a tensor saved by {self.operation},"
