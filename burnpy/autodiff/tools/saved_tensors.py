"""Savers of tensors that the graph keeps: hooks that pack and unpack them, and their storage in other memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4
from weakref import WeakValueDictionary, finalize, ref

import numpy as np

from burnpy.autodiff.graph import Leaf, is_array, mapped, with_relays
from burnpy.autodiff.recording import current_mode, observing, using
from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import (
    ArgumentError,
    DeviceError,
    KindError,
    SavedTensorsError,
    ShapeError,
    a,
    raised_by_other_code,
)
from burnpy.backend.primitives import Float
from burnpy.backend.rules import Vjp
from burnpy.tensor.call_errors import explained
from burnpy.tensor.levels import plain_device
from burnpy.tensor.tensor_base import TensorBase, new_tensor
from burnpy.typevars import T

AnyTensor: TypeAlias = TensorBase[Any]
"""A `Tensor`, `IntTensor` or `BoolTensor` on the innermost device, where nothing is recorded."""


@explained
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
    """Return a context manager in which a saver is the innermost."""
    refuse_where_disabled(operation)
    with observing(saver):
        yield


@contextmanager
@explained
def disable_saved_tensors_hooks(message: str) -> Generator[None, None, None]:
    """Return a context manager in which saved-tensor hooks and `checkpoint` raise an error with ``message``.

    Use it for code that cannot work with hooks. It cannot be entered inside of hooks.

    Raises:
        KindError: ``message`` is not a str.
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


_PLAIN = frozenset({int, float, bool, tuple, slice, type(None)})
"""Classes of saved values that are not arrays, for a fast check."""


class Stored:
    """A placeholder for a saved array until a vjp needs the array."""

    __slots__ = ()

    def restored(self) -> Any:
        """Return the array."""
        raise NotImplementedError


class Saver:
    """An observer that replaces the saved arrays of nodes."""

    __slots__ = ()

    leaves = True  #: whether the values of leaves, which the graph keeps alive anyway, are replaced too

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        """Return the placeholder for ``x``, an innermost array or deferred primitive; or ``x`` to leave it in place."""
        raise NotImplementedError

    def of_leaf(self, x: Any) -> Any:
        """Return the placeholder for the value of a leaf, if these are not replaced: by default the value itself."""
        return x

    def handed(self, device: Any, x: Any) -> Any:
        """Return the placeholder for an array of an argument of `checkpoint`; called on the innermost saver."""
        return self.swapped(device, "checkpoint", x)

    def __call__(self, device: Any, node: Any) -> None:
        """Replace the arrays of a node that was just recorded, and of its relays."""
        operation = node.operation
        held = () if self.leaves else _arrays_of_leaves(node)
        for part in with_relays(node):
            part.vjp0, part.saved0 = self._replaced(device, operation, held, part.vjp0, part.saved0)
            if part.parent1 is not None:
                part.vjp1, part.saved1 = self._replaced(device, operation, held, part.vjp1, part.saved1)

    def _replaced(self, device: Any, operation: str, held: Sequence[Any], vjp: Vjp, kept: Any) -> tuple[Vjp, Any]:
        if kept.__class__ is not tuple:
            new = self._with(device, operation, held, kept)
            return (vjp, kept) if new is kept else (partial(_with_restored, vjp), new)
        changed = False
        members: list[Any] = []
        for x in kept:
            y = x if x.__class__ in _PLAIN else self._with(device, operation, held, x)
            changed = changed or y is not x
            members.append(y)
        return (partial(_with_restored, vjp), tuple(members)) if changed else (vjp, kept)

    def _with(self, device: Any, operation: str, held: Sequence[Any], x: Any) -> Any:
        """Return a saved value with its arrays replaced."""
        if hasattr(x, "mapped"):
            return x.mapped(partial(self._with, device, operation, held))
        if not is_array(x):
            return x
        for array in held:
            if x is array:
                return self.of_leaf(x)
        return self.swapped(device, operation, x)


def innermost_saver() -> Saver | None:
    """Return the innermost saver of this context, or None."""
    mode = current_mode()
    observers = () if mode is None else mode.observers
    return next((observer for observer in observers if isinstance(observer, Saver)), None)


def refuse_where_disabled(operation: str) -> None:
    """Raise an error inside of `disable_saved_tensors_hooks`."""
    mode = current_mode()
    if mode is not None and mode.no_saving is not None:
        raise SavedTensorsError(f"{operation} is disabled here by disable_saved_tensors_hooks(): {mode.no_saving}")


def restored(x: Any) -> Any:
    """Return the array for a placeholder; other values are returned unchanged."""
    return x.restored() if isinstance(x, Stored) else x


def array_of(x: Any) -> Any:
    """Return the array of a deferred primitive; an array is returned unchanged."""
    return x.peek() if hasattr(x, "peek") else x


def _arrays_of_leaves(node: Any) -> Sequence[Any]:
    arrays: list[Any] = []
    for part in with_relays(node):
        for parent in (part.parent0, part.parent1):
            leaf = parent if parent is None or isinstance(parent, Leaf) else parent.target
            if isinstance(leaf, Leaf):
                value = leaf.value
                if hasattr(value, "mapped"):
                    mapped(lambda x: arrays.append(array_of(x)), value)
                else:
                    arrays.append(array_of(value))
    return arrays


def opened(vjp: Vjp, kept: tuple[Any, ...]) -> tuple[Vjp, tuple[Any, ...]]:
    """Return a vjp and its saved values without the wrappers and placeholders of savers."""
    while isinstance(vjp, partial) and vjp.func is _with_restored:
        (vjp,), kept = vjp.args, tuple([mapped(restored, x) for x in kept])
    return vjp, kept


def _with_restored(vjp: Vjp, inner: Any, grad: Float, *kept: Any) -> Any:
    return vjp(
        inner,
        grad,
        *[x.restored() if isinstance(x, Stored) else x if x.__class__ in _PLAIN else mapped(restored, x) for x in kept],
    )


def tensor_around(device: Any, array: Any) -> AnyTensor:
    """Wrap an innermost array as a tensor of its kind, on the innermost device beneath ``device``."""
    plain = plain_device(device).discrete
    return new_tensor(TensorBase.kinds[kind_of(array.dtype)], plain, array)  # type: ignore[no-any-return]  # of that class


class _Hooks(Saver):
    """A saver that calls a user's pair of hooks."""

    __slots__ = ("pack", "unpack")

    def __init__(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        self.pack, self.unpack = pack, unpack

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        tensor = tensor_around(device, array_of(x))
        with using(observers=(), value_observers=()):  # otherwise arrays saved by pack would be packed in turn
            content = self.pack(tensor)
        return _Packed(self.unpack, content, tensor, operation, getattr(type(x), "holding", None))


class _Packed(Stored):
    """The object that ``pack`` returned, with the kind, device, shape and dtype that ``unpack`` must restore."""

    __slots__ = ("content", "device", "dtype_", "holding", "kind", "operation", "shape_", "unpack")

    def __init__(self, unpack: Any, content: Any, tensor: AnyTensor, operation: str, holding: Any) -> None:
        self.unpack, self.content, self.operation, self.holding = unpack, content, operation, holding
        self.kind, self.device, self.shape_, self.dtype_ = type(tensor), tensor.device, tensor.shape, tensor.dtype

    def restored(self) -> Any:
        with using(observers=(), value_observers=()):
            result = self.unpack(self.content)
        if type(result) is not self.kind or result.device is not self.device:
            error = DeviceError if type(result) is self.kind else KindError
            shown = f"one on {result.device}" if type(result) is self.kind else repr(result)
            raise error(f"{self._caller()} must return {a(self.kind.__name__)} on {self.device}, not {shown}")
        if (result.shape, result.dtype) != (self.shape_, self.dtype_):
            raise ShapeError(
                f"{self._caller()} must return shape {self.shape_} and dtype {self.dtype_}, "
                f"not shape {result.shape} and dtype {result.dtype}"
            )
        return result._primitive if self.holding is None else self.holding(result._primitive)

    def _caller(self) -> str:
        return f"saved_tensors_hooks(): unpack(), for a tensor saved by {self.operation},"


@explained
def save_on_cpu() -> AbstractContextManager[None]:
    """Return a context manager in which saved tensors are stored on the host, as NumPy arrays.

    On a GPU this trades time for memory; on the CPU it changes nothing. An array that several operations save is copied
    once. The arrays of leaves (parameters) stay on the device, where the graph keeps them alive in any case.

    Raises:
        SavedTensorsError: hooks are disabled here.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> with save_on_cpu():
    ...     y = (x * 2).square().sum()
    >>> x.grad(y.backward()).tolist()
    [8.0, 16.0]
    """
    return saving(_Elsewhere(_OnHost), "save_on_cpu()")


@explained
def save_to_disk(folder: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Return a context manager in which saved tensors are stored in files in ``folder``.

    An array that several operations save is one file. A file is removed when it is no longer needed: when a backward
    pass has used it, when the graph is dropped, at the latest when the process ends. The arrays of leaves (parameters)
    are not written: the graph keeps them alive in any case.

    Args:
        folder: an existing folder; it may be shared by any number of blocks and processes.

    Raises:
        KindError: ``folder`` is not a path.
        ArgumentError: there is no such folder.
        SavedTensorsError: hooks are disabled here; or, later, a file cannot be written or read.

    >>> from tempfile import TemporaryDirectory
    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> with TemporaryDirectory() as folder:
    ...     with save_to_disk(folder):
    ...         y = (x * 2).square().sum()
    ...     len(list(Path(folder).iterdir())), x.grad(y.backward()).tolist(), list(Path(folder).iterdir())
    (1, [8.0, 16.0], [])
    """
    try:
        path = Path(folder)
    except TypeError:
        raise KindError(f"save_to_disk(folder) takes the path of a folder, not {folder!r:.80}") from None
    if not path.is_dir():
        raise ArgumentError(f"save_to_disk() got {str(folder)!r}, which is not a folder; create it first")
    return saving(_Elsewhere(partial(_OnDisk, path)), "save_to_disk()")


class _OnHost:
    """A NumPy array on the host."""

    __slots__ = ("__weakref__", "array", "original")

    original: Any

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def read(self) -> np.ndarray[Any, Any]:
        return self.array


class _OnDisk:
    """A NumPy array in a file, which is deleted together with this object."""

    __slots__ = ("__weakref__", "dtype", "original", "path", "shape")

    original: Any

    def __init__(self, folder: Path, array: np.ndarray[Any, Any]) -> None:
        self.path, self.shape, self.dtype = folder / f"burnpy-saved-{uuid4().hex}", array.shape, array.dtype
        finalize(self, _remove, self.path)
        try:
            np.ascontiguousarray(array).reshape(-1).view(np.uint8).tofile(self.path)
        except OSError as error:
            if raised_by_other_code(error):
                raise
            raise SavedTensorsError(
                f"save_to_disk() cannot write shape {self.shape}, dtype {self.dtype} to {self.path}: {error}"
            ) from error

    def read(self) -> np.ndarray[Any, Any]:
        try:
            array: np.ndarray[Any, Any] = np.fromfile(self.path, np.uint8).view(self.dtype).reshape(self.shape)
            return array
        except (OSError, ValueError) as error:
            if raised_by_other_code(error):
                raise
            raise SavedTensorsError(
                f"save_to_disk() cannot read back an array of shape {self.shape}, dtype {self.dtype} from {self.path}, "
                f"a file that is needed until the backward pass is over: {error}"
            ) from error


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


class _Elsewhere(Saver):
    """A saver that stores one copy of each array outside the device, shared by all nodes that save the array."""

    __slots__ = ("_copies", "_store")

    leaves = False

    def __init__(self, store: Callable[[np.ndarray[Any, Any]], Any]) -> None:
        self._store = store
        self._copies: WeakValueDictionary[int, Any] = WeakValueDictionary()

    def swapped(self, device: Any, operation: str, x: Any) -> Any:
        array, plain = array_of(x), plain_device(device).discrete
        copy = self._copies.get(id(array))
        if copy is None or copy.original is None or copy.original() is not array:  # ids of freed arrays may be reused
            copy = self._store(plain.to_numpy(array))
            try:
                copy.original = ref(array)
                self._copies[id(array)] = copy
            except TypeError:  # a NumPy scalar
                copy.original = None
        return _Away(plain, copy, getattr(type(x), "holding", None))


class _Away(Stored):
    """A placeholder for an array whose copy is stored outside the device."""

    __slots__ = ("copy", "device", "holding")

    def __init__(self, device: Any, copy: Any, holding: Any) -> None:
        self.device, self.copy, self.holding = device, copy, holding

    def restored(self) -> Any:
        array = self.device.adopt_numpy(self.copy.read())
        return array if self.holding is None else self.holding(array)
