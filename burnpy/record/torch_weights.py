"""`from_torch`: weights that PyTorch trained, in a model of ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import ArgumentError, KindError, RecordError, StateError, a
from burnpy.nn.module import Module
from burnpy.record.checkpoints import MARK
from burnpy.record.files import read
from burnpy.record.fitting import DTypePolicy, Remap, fitted, refuse_no_model, remapped
from burnpy.record.foreign_errors import is_anothers
from burnpy.record.paths import path_of
from burnpy.record.torch_file import read_torch
from burnpy.record.torch_names import torch_names
from burnpy.tensor.base import TensorBase

M = TypeVar("M", bound=Module[Any])

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
    """The same model with the weights of a PyTorch state dict, their names and layouts translated; its ids stay.

    Each layer knows what PyTorch calls its parameters and which are transposed there: see `burnpy.record.torch_names`.
    What a file has under several names, as tied parameters are, is wanted under one of them.

    Args:
        model: the same architecture, on any device.
        source: a ``.pt``, ``.pth`` or ``.safetensors`` file, for which PyTorch need not be installed; or a state dict
            in memory, of arrays or PyTorch's tensors.
        key: where in a checkpoint the state dict is: see `read_torch`.
        strict: False takes what fits and leaves the rest as it is.
        remap: how names of the file become names that PyTorch would have for this model: as in `Record.apply_to`.
        dtype: where the file has another dtype: "model" casts to the model's, "file" takes the file's, "exact" refuses.

    Raises:
        StateError: the weights do not fit; the message and its ``report`` say which. Nothing was loaded.
        KindError: ``model`` is no module, or ``source`` neither path nor dict.
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
    paths = {path for found in ours.values() for path, _ in found}
    state: dict[str, Any] = {}
    arrays = {name: _array(value) for name, value in remapped(theirs, remap).items()}
    wanted = {_place(value) for name, value in arrays.items() if name in ours}
    for name, value in arrays.items():
        if name not in ours and isinstance(value, np.ndarray) and _place(value) in wanted:
            continue  # a tied parameter, which is there under another name
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
    """A state dict, and what it is called in messages."""
    if isinstance(source, Mapping):
        if key is not None:
            raise ArgumentError(f"from_torch(key={key!r}) is for files; of a dict, give the part that is meant")
        return source, "this state dict"
    given: Any = source
    if not isinstance(given, (str, os.PathLike)):
        hint = "; give it model.state_dict()" if hasattr(given, "state_dict") else ""
        raise KindError(
            f"from_torch() takes a file's path or a state dict, and was given {a(type(given).__name__)}{hint}"
        )
    path = path_of(source, "from_torch()")
    if not path.endswith(".safetensors") and not _is_safetensors(path):
        return read_torch(path, key), path
    contents = read(path)
    if MARK in contents.metadata:
        raise RecordError(
            f"{path} is a record of burnpy, whose layouts are its own, and nothing was loaded; "
            "use burnpy.record.load(path).apply_to(model)"
        )
    return contents.tensors, path


def _place(value: Any) -> Any:
    """What tells whether two arrays are one, as tied parameters are; None for anything else."""
    if not isinstance(value, np.ndarray) or not value.size:
        return None
    return value.__array_interface__["data"][0], value.shape, value.strides, value.dtype


def _is_safetensors(path: str) -> bool:
    """Whether a file begins as one, whatever it is called."""
    try:
        with open(path, "rb") as file:
            return file.read(9)[8:] == b"{"
    except OSError as error:  # told by who reads it
        if is_anothers(error):
            raise
        return False


def _array(value: Any) -> Any:
    """A tensor, PyTorch's or ours, as an array; anything else as it is."""
    if isinstance(value, TensorBase):
        return value.to_numpy()  # type: ignore[attr-defined]  # every tensor has it
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    if value.dtype != torch.bfloat16:
        return value.numpy()
    return value.contiguous().view(torch.int16).numpy().view(dtype_of("bfloat16"))
