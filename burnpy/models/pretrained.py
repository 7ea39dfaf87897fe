"""`Pretrained`: models that are read from folders of transformers, and written to them.

Such a folder has ``config.json`` and ``model.safetensors``, or several such files and an index.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from burnpy.backend.errors import RecordError, path_shown
from burnpy.nn.module import Module
from burnpy.record.atomic_write import path_of
from burnpy.record.safetensors_file import write
from burnpy.record.torch_weights import from_torch, to_torch, torch_names
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.models.config import Config

P = TypeVar("P", bound="Pretrained[Any]")
WEIGHTS = "model.safetensors"


class Pretrained(Module[B]):
    """The base class of the models of `burnpy.models`.

    A subclass has a config, and names the class of transformers that it equals. Its ``torch_names`` are those of that
    class, or `_file_names` translates them.
    """

    config: Config
    _config: ClassVar[type[Config]]
    _architecture: ClassVar[str]
    _prefix: ClassVar[str] = ""
    """Where transformers' classes with other heads have this model."""
    _heads: ClassVar[tuple[str, ...]] = ()
    """Parts of these classes that this model does not have."""

    @explained
    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``config.json`` and ``model.safetensors`` into a folder, from which transformers loads the model.

        The folder is created if it does not exist. Each file is replaced at once or not at all.
        """
        path = path_of(folder, "save_pretrained()")
        os.makedirs(path, exist_ok=True)
        names = self._file_names()
        state = {names.get(name, name): array for name, array in to_torch(self).items()}
        write(os.path.join(path, WEIGHTS), state, {"format": "pt"})
        self.config.write(path, self._architecture)

    def _file_names(self) -> dict[str, str]:
        """Return the names of transformers, by PyTorch's names, where they differ."""
        return {}


def pretrained(cls: type[P], folder: str | os.PathLike[str], device: Any, dtype: DTypeLike | None) -> P:
    """Return a model of a class with the options and weights of a folder.

    Raises:
        RecordError: the folder is of another architecture.
    """
    path = path_of(folder, "from_pretrained()")
    config: Any = cls._config.read(path)
    architectures = config.others.get("architectures") or [cls._architecture]
    if cls._architecture not in architectures and not cls._prefix:
        raise RecordError(
            f"{path_shown(path)} has the weights of {' or '.join(map(str, architectures))}, and {cls.__name__} takes those of "
            f"{cls._architecture}"
        )
    made: Any = cls
    model: P = made(config, device=device)
    ours = {theirs: name for name, theirs in model._file_names().items()}

    def renamed(name: str) -> str | None:
        if name.startswith(cls._heads or "\0"):
            return None
        name = name.removeprefix(f"{cls._prefix}.") if cls._prefix else name
        return ours.get(name, name)

    model = from_torch(model, os.path.join(path, WEIGHTS), remap=renamed, dtype="file")
    return model if dtype is None else model.astype(dtype)
