"""`from_peft` and `to_peft`: low-rank adapters in the files of PEFT, a library of Hugging Face.

A folder has ``adapter_config.json``, the settings, and ``adapter_model.safetensors``, the two matrices of each adapted
layer as ``base_model.model.NAME.lora_A.weight`` (rank, in) and ``….lora_B.weight`` (out, rank), where NAME is PyTorch's
of the layer.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import ArgumentError, RecordError, StateError, path_shown
from burnpy.backend.storage import inside, make_folder, opened
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.lora import Lora
from burnpy.nn.layers.quantization import QuantizedLinear
from burnpy.nn.module import Module
from burnpy.nn.module_tree import Rebuild
from burnpy.nn.transform import divided
from burnpy.record.atomic_write import path_of, replace
from burnpy.record.record import refuse_no_model
from burnpy.record.safetensors_file import read, refuse_read, write
from burnpy.record.torch_weights import torch_names
from burnpy.typevars import M

if TYPE_CHECKING:
    from io import FileIO

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX, _A, _B = "base_model.model.", "lora_A.weight", "lora_B.weight"
_DEFAULTS: dict[str, Any] = {
    "alpha_pattern": {}, "lora_alpha": 8, "lora_dropout": 0.0, "peft_type": None, "r": 8, "rank_pattern": {},
    "use_rslora": False,
}  # fmt: skip
"""The options that are honoured, with PEFT's defaults."""
_WITHOUT_EFFECT = (
    "auto_mapping", "base_model_name_or_path", "ensure_weight_tying", "exclude_modules", "fan_in_fan_out",
    "inference_mode", "layers_pattern", "layers_to_transform", "megatron_core", "peft_version", "qalora_group_size",
    "revision", "runtime_config", "target_modules", "task_type",
)  # fmt: skip
"""The options that do not change what the adapters of a file compute: the file says which layers have some."""
_NEUTRAL = {"bias": ("none",), "init_lora_weights": (True, "gaussian")}
"""The values that other options may have, besides null, false and empty ones."""


def from_peft(model: M, folder: str | os.PathLike[str]) -> M:
    """Return the model, frozen, with the adapters of a folder that PEFT or `to_peft` wrote: see `burnpy.nn.Lora`.

    Args:
        model: the model that the adapters were trained on, perhaps with quantized layers.
        folder: the folder.

    Raises:
        RecordNotFoundError: a file does not exist.
        RecordFileError: a file cannot be read.
        RecordError: a file is damaged; the settings are of another method than LoRA, or have an option that would
            change the result and that burnpy does not have, which is named.
        StateError: the adapters are of another model.
        ArgumentError: the model has adapters already.
        KindError: ``model`` is not a module.

    >>> from burnpy.nn import Sequential, add_lora
    >>> model = Sequential(Linear(2, 3, device=NumPy))
    >>> to_peft(add_lora(model, rank=1), "adapter")
    >>> from_peft(model, "adapter")[0].rank
    1
    """
    refuse_no_model(model)
    if _layers(model, Lora):
        raise ArgumentError("from_peft() got a model with adapters; merge_lora() it, or give the model without them")
    place = path_of(folder, "from_peft()")
    config, weights = _config(inside(place, CONFIG)), inside(place, WEIGHTS)
    source = path_shown(weights)
    parts, whole = _parts(read(weights).tensors), divided(model, None, "from_peft()")[0]
    layers, paths = _layers(whole, (Linear, QuantizedLinear)), {id(x): p for p, x in whole.named_modules().items()}
    adapters: dict[str, Any] = {}
    for name, matrices in parts.items():
        layer = layers.get(name)
        if layer is None or matrices.keys() != {_A, _B}:
            raise StateError(
                f"{source} has {', '.join(matrices)} of {name}, and the linear layers of this {type(model).__name__} "
                f"are {', '.join([*layers][:8])}{', …' if layers.keys() - [*layers][:8] else ''}; nothing was loaded"
            )
        sizes, (a, b) = (layer.in_features, layer.out_features), (matrices[_A], matrices[_B])
        if a.ndim != 2 or b.ndim != 2 or (a.shape[1], b.shape[0]) != sizes or a.shape[0] != b.shape[1]:
            raise StateError(
                f"{source} has matrices of the shapes {a.shape} and {b.shape} for {name}, which maps {sizes[0]} to "
                f"{sizes[1]}; nothing was loaded"
            )
        rank, alpha = a.shape[0], _chosen(name, config["alpha_pattern"], config["lora_alpha"])
        alpha = alpha * sqrt(rank) if config["use_rslora"] else alpha
        adapter: Any = Lora(layer, rank, alpha=alpha, dropout=config["lora_dropout"])
        adapters[paths[id(layer)]] = adapter.with_state({"lora_a": a.T, "lora_b": b.T}, strict=False)
    trained = {id(param) for adapter in adapters.values() for param in (adapter.lora_a, adapter.lora_b)}
    base = divided(model, [*adapters], "from_peft()")[0]
    adapted: M = Rebuild(module=lambda path, module: adapters.get(path))(base)
    return adapted.no_grad(lambda path, variable: id(variable) not in trained)


def to_peft(model: Module[Any], folder: str | os.PathLike[str], *, base_model: str | None = None) -> None:
    """Write the adapters of a model, and nothing else, to a folder that `from_peft` and PEFT read.

    PEFT loads it with ``PeftModel.from_pretrained(model, folder)``, into a model with PyTorch's names of the layers.

    Args:
        model: a model with `burnpy.nn.Lora` layers.
        folder: the folder, which is made if it does not exist.
        base_model: the name or path of the model beneath, which PEFT finds it by.

    Raises:
        ArgumentError: the model has no adapters.
        RecordFileError: a file cannot be written.
        KindError: ``model`` is not a module.
    """
    refuse_no_model(model, "to_peft() takes a model")
    adapters = _layers(model, Lora)
    if not adapters:
        raise ArgumentError(f"to_peft() found no Lora layer in {type(model).__name__}; make some with add_lora()")
    place = path_of(folder, "to_peft()")
    make_folder(place)
    ranks, alphas = ({name: getattr(layer, of) for name, layer in adapters.items()} for of in ("rank", "alpha"))
    rank, alpha = (Counter(values.values()).most_common(1)[0][0] for values in (ranks, alphas))
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": base_model,
        "r": rank,
        "rank_pattern": {f"^{re.escape(name)}": own for name, own in ranks.items() if own != rank},
        "lora_alpha": alpha,
        "alpha_pattern": {f"^{re.escape(name)}": own for name, own in alphas.items() if own != alpha},
        "lora_dropout": max(layer.dropout for layer in adapters.values()),
        "target_modules": "|".join(map(re.escape, adapters)) if _is_ambiguous(model, adapters) else [*adapters],
        "bias": "none",
        "task_type": None,
        "inference_mode": True,
    }
    arrays = {}
    for name, layer in adapters.items():
        for own, theirs in ((layer.lora_a, _A), (layer.lora_b, _B)):
            arrays[f"{_PREFIX}{name}.{theirs}"] = np.ascontiguousarray(own.value.to_numpy().T)
    write(inside(place, WEIGHTS), arrays, {"format": "pt"})
    text = (json.dumps(config, indent=2) + "\n").encode()

    def fill_in(file: FileIO) -> None:
        file.write(text)

    replace(inside(place, CONFIG), fill_in)


def _layers(model: Module[Any], kinds: Any) -> dict[str, Any]:
    """Return layers of a model by PyTorch's names; in a model with adapters, the layers beneath have the same."""
    names = torch_names(model)
    found = {}
    for path, module in model.named_modules().items():
        if isinstance(module, kinds):
            own, theirs = ("lora_a", _A) if isinstance(module, Lora) else ("weight", "weight")
            name = names[f"{path}.{own}" if path else own][0].name
            found[name.removesuffix(theirs).removesuffix(".").removesuffix(".base_layer")] = module
    return found


def _is_ambiguous(model: Module[Any], adapters: Mapping[str, Any]) -> bool:
    """Return whether PEFT would find other layers by the names of the adapted ones, as it compares the ends."""
    others = _layers(model, (Linear, QuantizedLinear)).keys() - adapters.keys()
    return any(other.endswith(f".{name}") for other in others for name in adapters)


def _parts(tensors: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tensors of a file by layer, and by the end of their names."""
    parts: dict[str, dict[str, Any]] = {}
    for full, array in tensors.items():
        name = full.removeprefix(_PREFIX)
        end = next((end for end in (_A, _B) if name.endswith(f".{end}")), name)
        parts.setdefault(name.removesuffix(f".{end}"), {})[end] = array
    return parts


def _chosen(name: str, pattern: Mapping[str, float], common: float) -> float:
    """Return the setting of a layer, by the first pattern that the end of its name matches, as PEFT does."""
    try:
        return next((own for key, own in pattern.items() if re.match(rf"(.*\.)?({key})$", name)), common)
    except re.error as error:
        raise RecordError(
            f"the settings of the adapters have a pattern that is no regular expression: {error}"
        ) from error


def _config(path: str) -> dict[str, Any]:
    """Read the settings of adapters, with those that are missing.

    Raises:
        RecordNotFoundError, RecordFileError, RecordError: see `from_peft`.
    """
    source = path_shown(path)
    try:
        with opened(path) as file:
            config = json.loads(file.read())
    except ValueError as error:
        raise RecordError(f"{source} is damaged: {error}") from error
    except OSError as error:
        refuse_read(error, source)
    method = config.get("peft_type") if isinstance(config, dict) else None
    if method != "LORA":
        raise RecordError(f"{source} has peft_type={method!r:.60}; from_peft() reads adapters of the method LORA")
    for key, value in config.items():
        neutral = not value or key in _DEFAULTS or key in _WITHOUT_EFFECT or value in _NEUTRAL.get(key, ())
        if not neutral:
            raise RecordError(f"{source} has {key}={value!r:.60}, which burnpy's adapters do not have")
    settings: dict[str, Any] = {**_DEFAULTS, **config}
    for key, kind in (("alpha_pattern", dict), ("rank_pattern", dict), ("lora_alpha", (int, float)),
                      ("lora_dropout", (int, float)), ("use_rslora", bool)):  # fmt: skip
        value = settings[key]
        if not isinstance(value, kind):
            raise RecordError(f"{source} has {key}={value!r:.60}, which is of another type than PEFT writes")
    return settings
