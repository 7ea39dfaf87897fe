"""`Pretrained`: models that are read from folders of transformers, and written to them.

Such a folder has ``config.json`` and ``model.safetensors``, or several such files and an index.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.backend.errors import ArgumentError, RecordError, a, path_shown
from burnpy.backend.storage import inside, make_folder
from burnpy.nn.empty_weights import init_empty_weights
from burnpy.nn.module import Module
from burnpy.record.atomic_write import path_of
from burnpy.record.safetensors_file import write
from burnpy.record.torch_weights import from_torch, to_torch, torch_names
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Mapping

    from burnpy.models.config import Config
    from burnpy.tensor.host_data import DTypeLike

WEIGHTS = "model.safetensors"


class Pretrained(Module[B]):
    """The base class of the models of `burnpy.models`.

    A subclass has a config, and the ``torch_names`` of the class of transformers that it equals, or `_file_names`.
    """

    config: Any
    """The options, a `Config`; each class has one of its own."""
    _config: ClassVar[type[Config]]
    _prefix: ClassVar[str] = ""
    """Where transformers' classes with a head have this model."""
    _heads: ClassVar[tuple[str, ...]] = ()
    """The weights of these heads, which this model does not have."""

    @explained
    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``config.json`` and ``model.safetensors`` into a folder, from which transformers loads the model.

        The folder is created if it does not exist. Each file is replaced at once or not at all.

        Raises:
            ArgumentError: the model is quantized or has adapters, which its class in transformers has not.
        """
        path = path_of(folder, "save_pretrained()")
        state = to_torch(self)
        with init_empty_weights():
            plain = torch_names(self._of(self.config, self.device))
        others = sorted(set(state) - {part.name for parts in plain.values() for part in parts})
        if others:
            raise ArgumentError(
                f"save_pretrained() got {a(type(self).__name__)} with {others[0]}, which {self._architecture()} does "
                "not have; merge_lora() adapters first, and write quantized weights by record.save(path, model=model)"
            )
        make_folder(path)
        names = self._file_names()
        renamed = {names.get(name, name): array for name, array in state.items()}
        write(inside(path, WEIGHTS), renamed, {"format": "pt"})
        self.config.write(path, self._architecture())

    @classmethod
    def _of(cls, config: Any, device: Any) -> Any:
        """Return a model of the weights that a folder with this config has."""
        made: Any = cls
        return made(config, device=device)

    def _architecture(self) -> str:
        """Return the class of transformers that the model equals."""
        config: Config = self.config
        return config.architecture

    def _file_names(self) -> dict[str, str]:
        """Return the names in the files of transformers, by PyTorch's names, where they differ."""
        return {}


def projections(sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return transformers' names of the projections of a layer's ``attention``, for its ``torch_names``.

    Args:
        sizes: transformers' names of the projections to queries, keys and values, with the sizes of their results.
    """
    return {
        "attention.in_proj_weight": {f"{part}.weight.T": size for part, size in sizes.items()},
        "attention.in_proj_bias": {f"{part}.bias": size for part, size in sizes.items()},
        **dict(zip([f"attention.{part}_proj" for part in "qkv"], sizes, strict=True)),
    }


def pretrained(cls: type[Pretrained[Any]], folder: str | os.PathLike[str], device: Any, dtype: DTypeLike | None) -> Any:
    """Return a model of a class with the options and weights of a folder.

    Args:
        cls: the class.
        folder: has ``config.json``, and ``model.safetensors`` or several such files with an index.
        device: the device of the model.
        dtype: the dtype of the weights; the dtype of the files by default.

    Raises:
        RecordNotFoundError: a file is missing.
        RecordError: a file is damaged, or of another architecture.
        ArgumentError: an option in ``config.json`` is unknown, or has a value that the model does not honour.
        StateError: the weights do not fit; the message lists every mismatch.
    """
    path = path_of(folder, "from_pretrained()")
    config: Any = cls._config.read(path)
    with init_empty_weights():
        model = cls._of(config, device)
    architectures = config.others.get("architectures") or [model._architecture()]
    if model._architecture() not in architectures and not cls._heads:
        raise RecordError(
            f"{path_shown(path)} has the weights of {' or '.join(map(str, architectures))}; {cls.__name__} takes those "
            f"of {model._architecture()}"
        )
    ours = {theirs: name for name, theirs in model._file_names().items()}

    def renamed(name: str) -> str | None:
        if name.startswith(cls._heads):
            return None
        name = name.removeprefix(cls._prefix)
        return str(ours.get(name, name))

    return from_torch(model, path, remap=renamed, dtype="file" if dtype is None else dtype)
