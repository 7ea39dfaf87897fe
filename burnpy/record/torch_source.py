"""The sources of PyTorch's weights: files, folders of transformers with one file or several, and dicts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from burnpy.backend.errors import (
    ArgumentError,
    KindError,
    RecordError,
    RecordNotFoundError,
    a,
    path_shown,
    raised_by_other_code,
)
from burnpy.backend.storage import beside, inside, is_folder, names_in, opened
from burnpy.record.atomic_write import path_of
from burnpy.record.checkpoint_file import MARK
from burnpy.record.safetensors_file import brief, damaged, read, refuse_read
from burnpy.record.torch_file import read_torch

TorchSource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]

INDEX = ".index.json"
"""The end of the name of a file that says in which of several files each tensor is."""
IN_FOLDERS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""The files that a folder may have: the first one that is there is read."""


def state_of(source: TorchSource, key: str | tuple[str | int, ...] | None) -> tuple[Mapping[str, Any], str]:
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
    if is_folder(path):
        path = inside(path, _weights_in(path))
    return (_sharded(path) if path.endswith(INDEX) else _file(path, key)), path_shown(path)


def _weights_in(folder: str) -> str:
    """Return the name of the file with the weights, or with their index, in a folder."""
    names = names_in(folder)
    for name in IN_FOLDERS:
        if name in names:
            return name
    single = [name for name in names if name.endswith(".safetensors")]
    if len(single) != 1:
        what = f"several files, {', '.join(map(brief, single[:6]))}: name one" if single else f"no {IN_FOLDERS[0]}"
        raise RecordNotFoundError(2, f"the folder {path_shown(folder)} has {what}")
    return single[0]


def _file(path: str, key: str | tuple[str | int, ...] | None) -> Mapping[str, Any]:
    """Return the state dict of one file."""
    if not path.endswith(".safetensors") and not _is_safetensors(path):
        return read_torch(path, key)
    contents = read(path, mapped=True)
    if MARK in contents.metadata:
        raise RecordError(
            f"{path_shown(path)} is a record of burnpy, whose layouts are its own, and nothing was loaded; "
            "use burnpy.record.load(path).apply_to(model)"
        )
    return contents.tensors


def _sharded(path: str) -> dict[str, Any]:
    """Return the state dict of several files, given their index.

    Raises:
        RecordNotFoundError: the index, or a file that it names, does not exist.
        RecordError: the index is damaged, or a tensor is not in its file.
    """
    source = path_shown(path)
    try:
        with opened(path) as file:
            index: Any = json.loads(file.read())
    except OSError as error:
        refuse_read(error, source)
    except (ValueError, RecursionError) as error:
        if raised_by_other_code(error):
            raise
        raise damaged(source, "it is not JSON") from error
    places: Any = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(
        isinstance(name, str) and os.path.basename(name) == name for name in places.values()
    ):
        raise damaged(source, "it has no weight_map with the file of each tensor")
    files = {name: _file(beside(path, name), None) for name in sorted({*places.values()})}
    for tensor, name in places.items():
        if tensor not in files[name]:
            raise damaged(source, f"{brief(tensor)} should be in {brief(name)}, and is not")
    return {tensor: files[name][tensor] for tensor, name in places.items()}


def _is_safetensors(path: str) -> bool:
    """Return whether a file starts like a safetensors file, whatever its name."""
    try:
        with opened(path) as file:
            return file.read(9)[8:] == b"{"
    except OSError as error:  # reported when the file is read
        if raised_by_other_code(error):
            raise
        return False
