"""`from_torch` and `to_torch`: weights from PyTorch into a burnpy model, and back, by PyTorch's names.

A layer whose names differ has a method or attribute ``torch_names``: a mapping from its own names, relative to the
layer, to PyTorch's, which end in ``.T`` for a transposed parameter; as in ``{"weight": "weight.T"}``. A name may also
refer to a whole submodule. Names that are not in the mapping are the same in PyTorch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import ArgumentError, KindError, RecordError, StateError, a, path_shown, raised_by_other_code
from burnpy.nn.module import Module
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.tree import joined, walk
from burnpy.nn.variable import Variable
from burnpy.record.atomic_write import path_of
from burnpy.record.checkpoint_file import MARK
from burnpy.record.record import DTypePolicy, Remap, fitted, refuse_no_model, remapped
from burnpy.record.safetensors_file import read
from burnpy.record.torch_file import read_torch
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import M

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRANSPOSED = ".T"


class TorchName(NamedTuple):
    """PyTorch's name of a parameter or buffer, and whether PyTorch stores it transposed."""

    name: str
    transposed: bool


def torch_names(model: Module[Any]) -> dict[str, TorchName]:
    """Return PyTorch's name of every parameter and buffer, by path; a shared one is listed under each of its paths.

    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear, Sequential
    >>> torch_names(Sequential(Linear(2, 3, device=NumPy)))["0.weight"]
    TorchName(name='0.weight', transposed=True)
    """
    modules: dict[str, ModuleBase[Any]] = {}
    paths = []
    for path, item in walk(model):
        if isinstance(item, Variable):
            paths.append(path)
        else:
            modules[path] = item
    known = {path: _names(module) for path, module in modules.items()}
    return {path: _translated(path, known) for path in paths}


def _names(layer: ModuleBase[Any]) -> Mapping[str, str]:
    names: Any = getattr(layer, "torch_names", None)
    if callable(names):
        names = names()
    return names or {}


def _translated(path: str, known: Mapping[str, Mapping[str, str]]) -> TorchName:
    """Translate a path, from the outermost module inwards: the longest name that each module's mapping has first."""
    parts = path.split(".")
    name, transposed = "", False
    start = 0
    while start < len(parts):
        names = known.get(".".join(parts[:start]), {})
        for end in range(len(parts), start, -1):
            torch_name = names.get(".".join(parts[start:end]))
            if torch_name is not None:
                transposed = torch_name.endswith(TRANSPOSED)
                name = joined(name, torch_name.removesuffix(TRANSPOSED))
                start = end
                break
        else:
            name = joined(name, parts[start])
            start += 1
    return TorchName(name, transposed)


TorchSource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]


def from_torch(
    model: M,
    source: TorchSource,
    *,
    key: str | tuple[str | int, ...] | None = None,
    strict: bool = True,
    remap: Remap | None = None,
    dtype: DTypePolicy = "model",
) -> M:
    """Return a copy of the model with the weights of a PyTorch state dict, their names and layouts translated.

    The model's ids are kept. Each layer defines PyTorch's names of its parameters and which are transposed there: see
    `burnpy.record.torch_weights`. A tied parameter, which the file has under several names, is required under one only.

    Args:
        model: a model of the same architecture, on any device.
        source: a ``.pt``, ``.pth`` or ``.safetensors`` file, for which PyTorch need not be installed; or a state dict
            in memory, of arrays or PyTorch's tensors.
        key: the key of the state dict in a checkpoint: see `read_torch`.
        strict: if False, load the entries that fit and leave the rest of the model unchanged.
        remap: a mapping from the file's names to the names that PyTorch would have for this model: as in
            `Record.apply_to`.
        dtype: for entries of another dtype than the model's: "model" casts to the model's, "file" takes the file's,
            "exact" raises an error.

    Raises:
        StateError: the weights do not fit; the message and its ``report`` list every mismatch. Nothing was loaded.
        KindError: ``model`` is not a module, or ``source`` is neither a path nor a dict.
        CallError, RecordNotFoundError, RecordFileError, RecordError, DTypeError, ArgumentError: as `read_torch`.

    >>> import numpy as np
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear
    >>> state = {"weight": np.array([[1.0, 2.0]]), "bias": np.array([3.0])}
    >>> from_torch(Linear(2, 1, device=NumPy), state).weight.value.tolist()
    [[1.0], [2.0]]
    """
    refuse_no_model(model)
    theirs, shown = _read(source, key)
    ours: dict[str, list[tuple[str, bool]]] = {}
    for path, (name, transposed) in torch_names(model).items():
        ours.setdefault(name, []).append((path, transposed))
    paths = {path for targets in ours.values() for path, _ in targets}
    state: dict[str, Any] = {}
    arrays = {name: _array(value) for name, value in remapped(theirs, remap).items()}
    matched = {_place(value) for name, value in arrays.items() if name in ours}
    for name, value in arrays.items():
        if name not in ours and isinstance(value, np.ndarray) and _place(value) in matched:
            continue  # a tied parameter, which the file also has under a name that the model has
        if name not in ours:
            state[f"{name} of PyTorch" if name in paths else name] = value
            continue
        for path, transposed in ours[name]:
            state[path] = value.T if transposed and isinstance(value, np.ndarray) else value
    try:
        return fitted(model, state, strict=strict, dtype=dtype, source=shown)
    except StateError as error:
        prefix = next(
            (p for p in ("module.", "_orig_mod.", "model.") if theirs and all(n.startswith(p) for n in theirs)), ""
        )
        if not prefix or remap is not None:
            raise
        way_out = f"all names begin with {prefix!r}: remap={{r'^{prefix[:-1]}\\.': ''}} takes it off"
        raise StateError(f"{error}; {way_out}", error.report) from error


def _read(source: TorchSource, key: str | tuple[str | int, ...] | None) -> tuple[Mapping[str, Any], str]:
    """Return a state dict and its name in messages."""
    if isinstance(source, Mapping):
        if key is not None:
            raise ArgumentError(f"from_torch(key={key!r}) is for files; of a dict, give the part that is meant")
        return source, "this state dict"
    untyped: Any = source
    if not isinstance(untyped, (str, os.PathLike)):
        hint = "; give it model.state_dict()" if hasattr(untyped, "state_dict") else ""
        raise KindError(f"from_torch() takes a file's path or a state dict, got {a(type(untyped).__name__)}{hint}")
    path = path_of(source, "from_torch()")
    if not path.endswith(".safetensors") and not _is_safetensors(path):
        return read_torch(path, key), path_shown(path)
    contents = read(path)
    if MARK in contents.metadata:
        raise RecordError(
            f"{path_shown(path)} is a record of burnpy, whose layouts are its own, and nothing was loaded; "
            "use burnpy.record.load(path).apply_to(model)"
        )
    return contents.tensors, path_shown(path)


def _place(value: Any) -> Any:
    """A key that is equal for two arrays on the same memory, as tied parameters are; None if it is no such array."""
    if not isinstance(value, np.ndarray) or not value.size:
        return None
    return value.__array_interface__["data"][0], value.shape, value.strides, value.dtype


def _is_safetensors(path: str) -> bool:
    """Return whether a file starts like a safetensors file, whatever its name."""
    try:
        with open(path, "rb") as file:
            return file.read(9)[8:] == b"{"
    except OSError as error:  # reported when the file is read
        if raised_by_other_code(error):
            raise
        return False


def _array(value: Any) -> Any:
    """Convert a tensor of PyTorch or burnpy to an array; return anything else unchanged."""
    if isinstance(value, TensorBase):
        return value.to_numpy()  # type: ignore[attr-defined]  # every tensor has it
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    if value.dtype != torch.bfloat16:
        return value.numpy()
    return value.contiguous().view(torch.int16).numpy().view(dtype_of("bfloat16"))


def to_torch(model: Module[Any]) -> dict[str, NDArray[Any]]:
    """Return the parameters and buffers of a model as arrays, under PyTorch's names and in its layouts.

    It is the way back of `from_torch`. PyTorch loads it with ``net.load_state_dict(state)``, where state is
    ``{name: torch.from_numpy(array) for name, array in to_torch(model).items()}``, and
    ``safetensors.numpy.save_file(to_torch(model), path)`` makes a file of it. ``torch.from_numpy`` knows no bfloat16:
    write ``to_torch(model.astype("float32"))``, which loses nothing.

    Args:
        model: a model on any device, for whose values the device is waited for.

    Returns:
        Copies in the order of the model, of the model's dtypes. A parameter in two places of the model is there under
        both names, as in PyTorch.

    Raises:
        KindError: ``model`` is not a module.

    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear, Sequential
    >>> model = Sequential(Linear(2, 3, device=NumPy))
    >>> {name: array.shape for name, array in to_torch(model).items()}
    {'0.weight': (3, 2), '0.bias': (3,)}
    """
    refuse_no_model(model, "to_torch() takes a model")
    names = torch_names(model)
    state: dict[str, NDArray[Any]] = {}
    for path, item in walk(model):
        if isinstance(item, Variable):
            name, transposed = names[path]
            value: NDArray[Any] = item._value.to_numpy()
            state[name] = np.array(value.T if transposed else value, order="C")
    return state
