"""Offloading of saved tensors to the host or to disk. Parameters stay on the device, as the values of leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary, finalize, ref

import numpy as np

from burnpy.autodiff.tools.saving.saved_tensors import Saver, Stored, array_of, saving
from burnpy.backend.errors import ArgumentError, KindError, SavedTensorsError, raised_by_other_code


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


def save_to_disk(folder: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Return a context manager in which saved tensors are stored in files in ``folder``.

    An array that several operations save is one file. A file is removed when it is no longer needed: when a backward
    pass has used it, when the graph is dropped, at the latest when the process ends. The arrays of leaves (parameters)
    are not written: the graph keeps them alive in any case.

    Args:
        folder: an existing folder; it may be shared by any number of blocks and processes.

    Raises:
        KindError: ``folder`` is no path.
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

    def on_disk(array: np.ndarray[Any, Any]) -> _OnDisk:
        return _OnDisk(path, array)

    return saving(_Elsewhere(on_disk), "save_to_disk()")


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
        array, plain = array_of(x), device.discrete
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
