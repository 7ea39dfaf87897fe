"""`from_torch`, `to_torch` and `save_torch`: weights from PyTorch into a burnpy model, and back, by PyTorch's names.

A layer whose names differ has a method or attribute ``torch_names``: a mapping from its own names, relative to the
layer, to PyTorch's. A name may also refer to a whole submodule. Names that are not in the mapping are the same in
PyTorch. Of a parameter, the mapping has

- a name, which ends in ``.T`` if PyTorch stores the parameter transposed: ``{"weight": "weight.T"}``;
- a dict, if several tensors of PyTorch, side by side in the last dimension, are one parameter; with their sizes there:
  ``{"in_proj_weight": {"q.weight.T": 64, "k.weight.T": 16, "v.weight.T": 16}}``;
- a `Columns`, if the parameter is a part of the last dimension of PyTorch's tensor:
  ``{"gate.weight": Columns("gate_up.weight.T", 0, 64), "up.weight": Columns("gate_up.weight.T", 64, 128)}``.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import StateError, a
from burnpy.backend.storage import path_of
from burnpy.nn.layers.embedding import Embedding
from burnpy.nn.module import Module
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.module_tree import joined, walk
from burnpy.nn.param import Variable
from burnpy.record.fitting import DTypePolicy, Remap, fitted, refuse_no_model, remapped
from burnpy.record.safetensors_file import write
from burnpy.record.torch_file import TorchSource, state_of
from burnpy.tensor.call_errors import explained, next_value
from burnpy.tensor.host_data import readonly
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import M

if TYPE_CHECKING:
    from numpy.typing import NDArray


TRANSPOSED = ".T"


class Columns(NamedTuple):
    """A part of a tensor of PyTorch, from ``start`` to ``stop`` in the last dimension, that is one parameter here."""

    name: str  #: ends in ``.T`` if PyTorch stores the parameter transposed
    start: int
    stop: int


Name: TypeAlias = "str | Mapping[str, int] | Columns"
"""PyTorch's name of a parameter, in an entry of ``torch_names``."""


class TorchPart(NamedTuple):
    """A tensor of PyTorch, or a part of one, that is a parameter or a part of one."""

    name: str
    transposed: bool
    start: int | None = None  #: where the part begins in the last dimension of this tensor; None for all of it
    size: int | None = None  #: its size there; None for the parameter's

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the part of PyTorch's array, as a view in the layout of the parameter."""
        array = array.T if self.transposed else array
        return array if self.start is None else array[..., self.start : self.start + (self.size or 0)]


def torch_names(model: Module[Any]) -> dict[str, tuple[TorchPart, ...]]:
    """Return the parts in PyTorch of every parameter and buffer, by path, a shared one under each of its paths.

    >>> from burnpy.nn import Linear, Sequential
    >>> torch_names(Sequential(Linear(2, 3, device=NumPy)))["0.weight"]
    (TorchPart(name='0.weight', transposed=True, start=None, size=None),)
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


def _names(layer: ModuleBase[Any]) -> Mapping[str, Name]:
    names: Any = getattr(layer, "torch_names", None)
    if callable(names):
        names = names()
    return names or {}


def _translated(path: str, known: Mapping[str, Mapping[str, Name]]) -> tuple[TorchPart, ...]:
    """Translate a path, from the outermost module inwards: the longest name that each module's mapping has first."""
    parts = path.split(".")
    name: str = ""
    start = 0
    while start < len(parts):
        names = known.get(".".join(parts[:start]), {})
        for end in range(len(parts), start, -1):
            theirs = names.get(".".join(parts[start:end]))
            if theirs is None:
                continue
            if end == len(parts):
                return _parts(name, theirs)
            name, start = joined(name, str(theirs)), end
            break
        else:
            name = joined(name, parts[start])
            start += 1
    return (TorchPart(name, False),)


def _parts(prefix: str, theirs: Name) -> tuple[TorchPart, ...]:
    """Return the parts that an entry of a mapping names."""
    if isinstance(theirs, str):
        return (_part(prefix, theirs),)
    if isinstance(theirs, Columns):
        return (_part(prefix, theirs.name, theirs.start, theirs.stop - theirs.start),)
    return tuple([_part(prefix, name, None, size) for name, size in theirs.items()])


def _part(prefix: str, name: str, start: int | None = None, size: int | None = None) -> TorchPart:
    return TorchPart(joined(prefix, name.removesuffix(TRANSPOSED)), name.endswith(TRANSPOSED), start, size)


def refuse_transposed(model: Module[Any], state: Mapping[str, Any], source: str) -> None:
    """Raise an error if another program's file fits a model in PyTorch's layout, and no shape shows burnpy's. Square
    matrices fit in both layouts, so they would be loaded transposed without a sign of it."""
    shapes = {path: item.shape for path, item in walk(model) if isinstance(item, Variable)}
    unclear = []
    for path, parts in torch_names(model).items():
        found = getattr(getattr(state.get(path), "value", None), "shape", ())
        if len(found) > 1 and all(part.transposed for part in parts):
            if found == shapes[path] != found[::-1]:
                return
            if found[::-1] == shapes[path]:
                unclear.append(f"{path} of shape {tuple(found)}")
    if unclear:
        raise StateError(
            f"burnpy.record.save did not write {source}, and nothing was loaded: {unclear[0]} fits "
            f"{type(model).__name__} transposed, as PyTorch stores it; write burnpy.record.from_torch(model, path), or "
            "for a file in burnpy's layout model.load_record(record.model)"
        )


def assembled(parts: tuple[TorchPart, ...], arrays: Mapping[str, Any]) -> NDArray[Any] | str:
    """Return the value of a parameter from PyTorch's arrays by name, which has all of them; or why there is none. The
    value of a single part is a view."""
    for part in parts:
        if not isinstance(arrays[part.name], np.ndarray):
            return f"neither tensor nor array: {a(type(arrays[part.name]).__name__)}"
    values = [part.of(arrays[part.name]) for part in parts]
    for part, value in zip(parts, values, strict=True):
        if part.size is not None and value.shape[-1:] != (part.size,):
            wanted = part.size if part.start is None else part.start + part.size
            place = "first" if part.transposed and value.ndim > 1 else "last"
            return f"{part.name} of shape {arrays[part.name].shape}, whose {place} size should be {wanted}"
    if len(values) == 1:
        return values[0]
    if len({value.shape[:-1] for value in values}) > 1:
        shapes = " and ".join(str(arrays[part.name].shape) for part in parts)
        return f"{', '.join(part.name for part in parts)} of shapes {shapes}, which do not join"
    return readonly(np.concatenate(values, axis=-1))


def disassembled(values: Iterable[tuple[tuple[TorchPart, ...], NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Return PyTorch's arrays by name, as copies, of the parts and values of parameters."""
    pieces: dict[str, list[tuple[int, bool, NDArray[Any]]]] = {}
    for parts, value in values:
        start = 0
        for part in parts:
            piece = value if len(parts) == 1 else value[..., start : start + (part.size or 0)]
            start += part.size or 0
            if part.start is None:
                pieces[part.name] = [(0, part.transposed, piece)]
            else:
                pieces.setdefault(part.name, []).append((part.start, part.transposed, piece))
    state: dict[str, NDArray[Any]] = {}
    for name, found in pieces.items():
        found.sort(key=lambda piece: piece[0])
        array = found[0][2] if len(found) == 1 else np.concatenate([piece for _, _, piece in found], axis=-1)
        state[name] = np.array(array.T if found[0][1] else array, order="C")
    return state


@next_value
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

    The model's ids are kept. Each layer says under which names PyTorch has its parameters, and which are transposed,
    joined or split there: see the module. A tied parameter, which the file has under several names, is
    required under one only. If the file lacks one parameter, of the shape of the embedding, as in a language model with
    tied weights, the parameter gets the values of the embedding, with a warning.

    On the CPU the parameters are views of a safetensors file, mapped into memory, unless their dtype changes or several
    tensors are joined. Do not write to the file while they are in use. A model that was made within
    `burnpy.nn.init_empty_weights` has taken no time and memory before.

    Args:
        model: a model of the same architecture, on any device.
        source: a ``.pt``, ``.pth`` or ``.safetensors`` file, for which PyTorch need not be installed; a
            ``model.safetensors.index.json`` with the files beside it; a folder with either; or a state dict in memory,
            of arrays or PyTorch's tensors.
        key: the key of the state dict in a checkpoint: see `read_torch`.
        strict: if False, load the entries that fit and leave the rest of the model unchanged.
        remap: a mapping from the file's names to the names that PyTorch would have for this model: as in
            `Record.apply_to`.
        dtype: for entries of another dtype than the model's: "model" casts to the model's, "file" takes the file's,
            "exact" raises an error; or the dtype of all floats, as "bfloat16".

    Raises:
        StateError: the weights do not fit; the message and its ``report`` list every mismatch. Nothing was loaded.
        KindError: ``model`` is not a module, or ``source`` is neither a path nor a dict.
        CallError, RecordNotFoundError, RecordFileError, RecordError, DTypeError, ArgumentError: as `read_torch`.

    >>> from burnpy.nn import Linear
    >>> state = {"weight": np.array([[1.0, 2.0]]), "bias": np.array([3.0])}
    >>> from_torch(Linear(2, 1, device=NumPy), state).weight.value.tolist()
    [[1.0], [2.0]]
    """
    refuse_no_model(model)
    theirs, shown = state_of(source, key)
    ours = torch_names(model)
    arrays = {name: _array(value) for name, value in remapped(theirs, remap).items()}
    state, refused = _assembled(ours, arrays)
    unexpected = _unexpected(ours, arrays)
    tied = _tied_to_embedding(model, ours, arrays)
    if tied is not None:
        path, part, name = tied
        state[path] = part.of(arrays[name])
        text = f"{shown} has no {part.name}, and the model gets the values of {name} there, as for tied weights"
        warnings.warn(text, UserWarning, stacklevel=2)
    try:
        return fitted(model, {**unexpected, **state}, strict=strict, dtype=dtype, source=shown, refused=refused)
    except StateError as error:
        report: Any = error.report
        missing = [part.name for path in report.missing for part in ours[path] if part.name not in arrays]
        way_out = (_prefix_taken_off(theirs) if remap is None else "") or _nearest(missing, [*unexpected])
        if not way_out:
            raise
        raise StateError(f"{error}; {way_out}", error.report) from error


def _assembled(
    ours: Mapping[str, tuple[TorchPart, ...]], arrays: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of parameters by path, made of the tensors of a file; and the reasons why some do not fit."""
    state: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for path, parts in ours.items():
        if all(part.name in arrays for part in parts):
            value = assembled(parts, arrays)
            if isinstance(value, str):
                refused[path] = value
            else:
                state[path] = value
    return state, refused


def _unexpected(ours: Mapping[str, tuple[TorchPart, ...]], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors of a file that no parameter takes, unless they are tied to one that a parameter takes."""
    wanted = {part.name for parts in ours.values() for part in parts}
    taken = {_place(value) for name, value in arrays.items() if name in wanted} - {None}
    return {
        f"{name} of PyTorch" if name in ours else name: value
        for name, value in arrays.items()
        if name not in wanted and _place(value) not in taken
    }


def _prefix_taken_off(theirs: Iterable[str]) -> str:
    """Return the sentence that says how to take off the prefix that all names have; empty if they have none."""
    names = [*theirs]
    for prefix in ("module.", "_orig_mod.", "model."):
        if names and all(name.startswith(prefix) for name in names):
            return f"all names begin with {prefix!r}: remap={{r'^{prefix[:-1]}\\.': ''}} takes it off"
    return ""


def _nearest(missing: Iterable[str], unexpected: list[str]) -> str:
    """Return the sentence that names unexpected entries beside the missing ones that they may be; empty if none may."""
    pairs = []
    for name in missing:
        near = get_close_matches(name, unexpected, 1, 0.8)
        if near:
            pairs.append(f"{near[0]} is near {name}")
        if len(pairs) == _PAIRS:
            break
    return f"{', '.join(pairs)}: remap= renames entries" if pairs else ""


_PAIRS = 3
"""The number of near names in a message."""


def _tied_to_embedding(
    model: Module[Any], ours: Mapping[str, tuple[TorchPart, ...]], arrays: Mapping[str, Any]
) -> tuple[str, TorchPart, str] | None:
    """Return the path and part of the one matrix that is missing, and the name of the one embedding of its shape."""
    found = {id(item) for path, item in walk(model) if path in ours and any(p.name in arrays for p in ours[path])}
    missing = {id(item): (path, item) for path, item in walk(model) if path in ours and id(item) not in found}
    if len(missing) != 1:
        return None
    ((path, variable),) = missing.values()
    (part, *rest), shape = ours[path], variable.shape
    if rest or part.start is not None or len(shape) != 2:
        return None
    shape = shape[::-1] if part.transposed else shape
    embeddings = {ours[joined(at, "weight")][0].name for at, item in walk(model) if isinstance(item, Embedding)}
    names = [name for name in embeddings if name in arrays and np.shape(arrays[name]) == shape]
    return (path, part, names[0]) if len(names) == 1 else None


def _place(value: Any) -> Any:
    """Return a key that is equal for two arrays on the same memory, as tied parameters are; None if it is no such
    array."""
    if not isinstance(value, np.ndarray) or not value.size:
        return None
    return value.__array_interface__["data"][0], value.shape, value.strides, value.dtype


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


@explained
def to_torch(model: Module[Any]) -> dict[str, NDArray[Any]]:
    """Return the parameters and buffers of a model as arrays, under PyTorch's names and in its layouts.

    It is the way back of `from_torch`. PyTorch loads it with ``net.load_state_dict(state)``, where state is
    ``{name: torch.from_numpy(array) for name, array in to_torch(model).items()}``, and
    `save_torch` makes a file of it. ``torch.from_numpy`` knows no bfloat16:
    write ``to_torch(model.astype("float32"))``, which loses nothing.

    Args:
        model: a model on any device, for whose values the device is waited for.

    Returns:
        Copies in the order of the model, of the model's dtypes. A parameter in two places of the model is there under
        both names, as in PyTorch.

    Raises:
        KindError: ``model`` is not a module.

    >>> from burnpy.nn import Linear, Sequential
    >>> model = Sequential(Linear(2, 3, device=NumPy))
    >>> {name: array.shape for name, array in to_torch(model).items()}
    {'0.weight': (3, 2), '0.bias': (3,)}
    """
    refuse_no_model(model, "to_torch() takes a model")
    names = torch_names(model)
    variables = [(path, item) for path, item in walk(model) if isinstance(item, Variable)]
    return disassembled((names[path], item._value.to_numpy()) for path, item in variables)


@explained
def save_torch(path: str | os.PathLike[str], model: Module[Any], *, metadata: Mapping[str, str] | None = None) -> None:
    """Write the parameters and buffers of a model to a safetensors file, under PyTorch's names: see `to_torch`.

    ``safetensors.torch.load_file`` and transformers read it, and so does `from_torch`. An existing file is replaced at
    once or not at all. A parameter in two places of the model is written under its first name.

    Args:
        path: the file.
        model: a model on any device.
        metadata: text by name for the file's header; ``{"format": "pt"}``, which transformers wants, is added.

    Raises:
        KindError: ``model`` is not a module.
        RecordNotFoundError: the folder does not exist.
        RecordFileError: the file cannot be written; the old file is unchanged.
    """
    refuse_no_model(model, "save_torch() takes a model")
    names = torch_names(model)
    first = disassembled((names[at], variable._value.to_numpy()) for at, variable in model._variables().items())
    write(path_of(path, "save_torch()"), first, {"format": "pt", **(metadata or {})}, digest=False)
