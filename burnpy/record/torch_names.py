"""PyTorch's names of parameters and buffers, and how PyTorch stores them.

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

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from burnpy.backend.errors import StateError
from burnpy.nn.module import Module
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.module_tree import joined, walk
from burnpy.nn.param import Variable

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


def refuse_transposed(model: Module[Any], state: Mapping[str, Any], source: str) -> None:
    """Raise an error if another program's file fits a model in PyTorch's layout, and no shape shows burnpy's.

    Square matrices fit in both layouts, so they would be loaded transposed without a sign of it.
    """
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
