"""PyTorch's names of parameters: how a model's parameters are found in a state dict of PyTorch, and named in one.

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

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.errors import a
from burnpy.nn.module import Module
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.module_tree import joined, walk
from burnpy.nn.param import Variable
from burnpy.tensor.host_data import readonly

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
    """A tensor of PyTorch, or a part of one, which a parameter consists of or has as a part."""

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


def assembled(parts: tuple[TorchPart, ...], arrays: Mapping[str, Any]) -> NDArray[Any] | str:
    """Return the value of a parameter from PyTorch's arrays by name, which has all of them; or why there is none.

    The value of a single part is a view.
    """
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
