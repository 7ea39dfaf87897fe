"""`from_peft` and `to_peft`: low-rank adapters in the files of PEFT, a library of Hugging Face.

A folder has two files. ``adapter_config.json`` has the settings, and ``adapter_model.safetensors`` the two matrices of
each adapted layer: ``base_model.model.NAME.lora_A.weight`` (rank, in) and ``….lora_B.weight`` (out, rank). NAME is
PyTorch's name of the layer, which may be several layers here.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.errors import ArgumentError, RecordError, StateError, path_shown
from burnpy.backend.storage import inside, make_folder, opened, path_of, replace
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.parametrizations import Lora
from burnpy.nn.layers.quantization import QuantizedLinear
from burnpy.nn.module import Module
from burnpy.nn.module_tree import Rebuild, joined
from burnpy.nn.transform import divided
from burnpy.record.fitting import refuse_no_model
from burnpy.record.safetensors_file import read, refuse_read, write
from burnpy.record.torch_weights import assembled, to_torch, torch_names
from burnpy.tensor.call_errors import explained
from burnpy.typevars import M, T

if TYPE_CHECKING:
    from io import FileIO

    from numpy.typing import NDArray

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX, _A, _B = "base_model.model.", "lora_A.weight", "lora_B.weight"
_DEFAULTS: dict[str, Any] = {
    "alpha_pattern": {}, "lora_alpha": 8, "lora_dropout": 0.0, "peft_type": None, "r": 8, "rank_pattern": {},
    "use_rslora": False,
}  # fmt: skip
"""The options that are honoured, with PEFT's defaults."""
_WITHOUT_EFFECT = (
    "auto_mapping", "base_model_name_or_path", "bias", "ensure_weight_tying", "exclude_modules", "fan_in_fan_out",
    "inference_mode", "layers_pattern", "layers_to_transform", "megatron_core", "modules_to_save", "peft_version",
    "qalora_group_size", "revision", "runtime_config", "target_modules", "task_type",
)  # fmt: skip
"""The options that do not change what the adapters of a file compute: the file says which layers have some."""
_NEUTRAL = {"init_lora_weights": (True, "gaussian")}
"""The values that other options may have, besides null, false and empty ones."""


@explained
def from_peft(model: M, folder: str | os.PathLike[str]) -> M:
    """Return the model, frozen, with the adapters of a folder that PEFT or `to_peft` wrote: see `burnpy.nn.Lora`.

    Biases and modules that were trained beside them are loaded too, and are not frozen. PEFT writes each of several
    adapters to a folder of its own.

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
    parts, others = _parts(read(weights).tensors, getattr(model, "_prefix", ""), getattr(model, "_later_names", {}))
    matrices = _matrices(model, parts, config, source)
    base = divided(model, [*matrices], "from_peft()")[0] if matrices else model
    base, trained = _with_others(base, others, source)
    modules = dict[str, Any](base.named_modules())
    shared: dict[int, Any] = {}
    adapters: dict[str, Any] = {}
    for path, (a, b, alpha) in matrices.items():
        adapter: Any = Lora(modules[path], a.shape[0], alpha=alpha, dropout=config["lora_dropout"])
        adapter = adapter.with_state({"lora_a": a.T, "lora_b": b.T}, strict=False)
        # Layers that are one in PyTorch have one lora_a there, and train it together.
        adapters[path] = adapter.replace(lora_a=shared.setdefault(id(a), adapter.lora_a))
        trained |= {adapters[path].lora_a.id, adapter.lora_b.id}
    adapted: M = Rebuild(module=lambda path, module: adapters.get(path))(base)
    return adapted.no_grad().require_grad(lambda path, variable: variable.id in trained)


def _matrices(
    model: Module[Any], parts: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any], source: str
) -> dict[str, tuple[NDArray[Any], NDArray[Any], float]]:
    """Return A, the rows of B and alpha of each layer, by its path; a layer of a file may be several of the model."""
    layers = _layers(divided(model, None, "from_peft()")[0], (Linear, QuantizedLinear))
    matrices: dict[str, tuple[NDArray[Any], NDArray[Any], float]] = {}
    for name, found in parts.items():
        if name not in layers or {*found} != {_A, _B}:
            raise StateError(
                f"{source} has {', '.join(found)} of {name}, and the linear layers of this {type(model).__name__} "
                f"are {', '.join([*layers][:8])}{', …' if layers.keys() - [*layers][:8] else ''}; nothing was loaded"
            )
        a, b = found[_A], found[_B]
        _check_matrices(name, a, b, layers[name], source)
        alpha = _chosen(name, config["alpha_pattern"], config["lora_alpha"])
        alpha = alpha * sqrt(a.shape[0]) if config["use_rslora"] else alpha
        for layer in layers[name]:
            matrices[layer.path] = a, b[layer.start : layer.start + layer.module.out_features], alpha
    return matrices


def _check_matrices(name: str, a: NDArray[Any], b: NDArray[Any], columns: Sequence[_Layer], source: str) -> None:
    sizes = columns[0].module.in_features, sum(layer.module.out_features for layer in columns)
    if a.ndim != 2 or b.ndim != 2 or (a.shape[1], b.shape[0]) != sizes or a.shape[0] != b.shape[1]:
        raise StateError(
            f"{source} has matrices of the shapes {a.shape} and {b.shape} for {name}, which maps {sizes[0]} to "
            f"{sizes[1]}; nothing was loaded"
        )


def _with_others(model: M, others: Mapping[str, Any], source: str) -> tuple[M, set[str]]:
    """Return the model with the biases and whole modules that were trained beside adapters, and the ids of these."""
    if not others:
        return model, set()
    names, variables = torch_names(model), model._variables()
    state: dict[str, Any] = {}
    for path, parts in names.items():
        if path in variables and all(part.name in others for part in parts):
            value = assembled(parts, others)
            if not isinstance(value, str) and value.shape == variables[path].shape:
                state[path] = value
    unknown = others.keys() - {part.name for path in state for part in names[path]}
    if unknown:
        name = min(unknown)
        if "lora_" in name:
            raise StateError(f"{source} has {name}, and burnpy has adapters of linear layers alone; nothing was loaded")
        raise StateError(
            f"{source} has {name} of shape {others[name].shape}, which was trained beside the adapters, and this "
            f"{type(model).__name__} has no such parameter; nothing was loaded"
        )
    return model.with_state(state, strict=False), {variables[path].id for path in state}


@explained
def to_peft(model: Module[Any], folder: str | os.PathLike[str], *, base_model: str | None = None) -> None:
    """Write the adapters of a model, and what trains beside them, to a folder that `from_peft` and PEFT read.

    PEFT loads it with ``PeftModel.from_pretrained(model, folder)``, into a model with PyTorch's names of the layers.
    Layers that are one there, such as ``c_attn`` of GPT-2, are one in the folder. Parameters that are not frozen are
    written as well: biases, and others with the module that they belong to, as PEFT's ``bias`` and ``modules_to_save``.

    Args:
        model: a model with `burnpy.nn.Lora` layers.
        folder: the folder, which is made if it does not exist.
        base_model: the name or path of the model beneath, which PEFT finds it by.

    Raises:
        ArgumentError: the model has no adapters, or trains a weight beneath one.
        RecordFileError: a file cannot be written.
        KindError: ``model`` is not a module.
    """
    refuse_no_model(model, "to_peft() takes a model")
    plain, later = _without_adapters(model), getattr(model, "_later_names", {})
    adapters, layers = (_named(later, _layers(*of)) for of in ((model, Lora), (plain, (Linear, QuantizedLinear))))
    if not adapters:
        raise ArgumentError(f"to_peft() found no Lora layer in {type(model).__name__}; make some with add_lora()")
    place = path_of(folder, "to_peft()")
    biases, whole = (_named(later, arrays) for arrays in _trained_beside(model, plain))
    arrays, ranks, alphas = {}, {}, {}
    for name, columns in adapters.items():
        a, b, alpha = _joined(columns, layers[name])
        arrays[f"{_PREFIX}{name}.{_A}"], arrays[f"{_PREFIX}{name}.{_B}"] = a, b
        ranks[name], alphas[name] = a.shape[0], alpha
    of_adapted = {f"{name}.bias": f"{name}.base_layer.bias" for name in adapters}
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": base_model,
        **_with_pattern("r", "rank_pattern", ranks),
        **_with_pattern("lora_alpha", "alpha_pattern", alphas),
        "lora_dropout": max(layer.module.dropout for columns in adapters.values() for layer in columns),
        "target_modules": "|".join(map(re.escape, adapters)) if _is_ambiguous(layers, adapters) else [*adapters],
        "fan_in_fan_out": not all(layer.transposed for columns in adapters.values() for layer in columns),
        "bias": "none" if not biases else "lora_only" if biases.keys() <= of_adapted.keys() else "all",
        "modules_to_save": sorted({name.rpartition(".")[0] for name in whole}) or None,
        "task_type": None,
        "inference_mode": True,
    }
    for name, array in (biases | whole).items():
        arrays[_PREFIX + of_adapted.get(name, name)] = array
    make_folder(place)
    write(inside(place, WEIGHTS), arrays, {"format": "pt"})
    text = (json.dumps(config, indent=2) + "\n").encode()

    def fill_in(file: FileIO) -> None:
        file.write(text)

    replace(inside(place, CONFIG), fill_in)


def _with_pattern(key: str, pattern: str, values: Mapping[str, float]) -> dict[str, Any]:
    """Return the option that most layers have, and the patterns of the names of those that have another value."""
    usual = Counter(values.values()).most_common(1)[0][0]
    return {key: usual, pattern: {f"^{re.escape(name)}": own for name, own in values.items() if own != usual}}


def _named(later: Mapping[str, str], by_name: Mapping[str, T]) -> dict[str, T]:
    """Return values by the names of PyTorch's layers and parameters in later versions of transformers."""
    named = {}
    for full, value in by_name.items():
        name = full
        for own, of_later in later.items():
            name = name.replace(own, of_later)
        named[name] = value
    return named


def _joined(columns: Sequence[_Layer], layers: Sequence[_Layer]) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Return the matrices of PEFT for a layer of PyTorch, and its alpha, from the adapters of its columns here. Columns
    that share ``lora_a`` have its rank; otherwise ranks add up, and each column has zeros for those of others."""
    first = columns[0].module
    if len(layers) == 1:
        a, b = (np.ascontiguousarray(x.value.to_numpy().T) for x in (first.lora_a, first.lora_b))
        return a, b, first.alpha
    places: dict[str, slice] = {}
    rows: list[NDArray[Any]] = []
    rank = 0
    for layer in columns:
        own = layer.module.lora_a
        if own.id not in places:
            places[own.id] = slice(rank, rank + layer.module.rank)
            rank += layer.module.rank
            rows.append(own.value.to_numpy().T)
    size = layers[-1].start + layers[-1].module.out_features
    scale = first.alpha / first.rank
    b = np.zeros((size, rank), rows[0].dtype)
    for layer in columns:
        own, factor = layer.module.lora_b.value.to_numpy().T, layer.module.alpha / layer.module.rank / scale
        b[layer.start : layer.start + own.shape[0], places[layer.module.lora_a.id]] = own * own.dtype.type(factor)
    return np.concatenate(rows), b, scale * rank


def _trained_beside(model: Module[Any], plain: Module[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return PyTorch's arrays, by name, of biases that are not frozen, and of modules with other such parameters."""
    names, adapted = torch_names(plain), {layer.path for columns in _layers(model, Lora).values() for layer in columns}
    learning = {path for path, param in plain.named_params().items() if not param.frozen}
    for path in learning:
        if path.endswith("weight") and path.removesuffix("weight").removesuffix(".") in adapted:
            raise ArgumentError(
                f"to_peft() got a model that trains {path}, beneath an adapter; freeze it with model.no_grad({path!r})"
            )
    found = {part.name for path in learning for part in names[path]}
    modules = {name.rpartition(".")[0] for name in found if not name.endswith("bias")}
    arrays = to_torch(plain) if found else {}
    whole = {name: array for name, array in arrays.items() if name.rpartition(".")[0] in modules}
    return {name: arrays[name] for name in arrays if name in found and name not in whole}, whole


class _Layer(NamedTuple):
    """A linear layer or its adapter, which PyTorch has as a layer or as columns of one."""

    path: str
    module: Any
    start: int  #: the first of PyTorch's outputs that is its own
    transposed: bool  #: whether PyTorch's weight is (out, in)


def _layers(model: Module[Any], kinds: Any) -> dict[str, list[_Layer]]:
    """Return a model's layers by PyTorch's names; several that are columns of one layer there are in order."""
    names = torch_names(_without_adapters(model))
    found: dict[str, list[_Layer]] = {}
    for path, module in model.named_modules().items():
        if isinstance(module, kinds):
            part = names[joined(path, "weight")][0]
            name = part.name.removesuffix("weight").removesuffix(".")
            found.setdefault(name, []).append(_Layer(path, module, part.start or 0, part.transposed))
    return {name: sorted(layers, key=lambda layer: layer.start) for name, layers in found.items()}


def _without_adapters(model: Module[Any]) -> Module[Any]:
    """Return the model with the layers beneath its adapters in place of these."""
    plain: Module[Any] = Rebuild(module=lambda path, module: module.layer if isinstance(module, Lora) else None)(model)
    return plain


def _is_ambiguous(layers: Iterable[str], adapters: Mapping[str, Any]) -> bool:
    """Return whether PEFT would find other layers by the names of the adapted ones, as it compares the ends."""
    return any(other.endswith(f".{name}") for other in {*layers} - adapters.keys() for name in adapters)


def _parts(
    tensors: Mapping[str, Any], prefix: str, later: Mapping[str, str]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the matrices of adapters by layer and by the end of their names, and the other tensors by name.
    ``prefix``, where classes with a head have the model, is removed; ``later`` has the parts of names in later versions
    by those that the model has."""
    parts: dict[str, dict[str, Any]] = {}
    others: dict[str, Any] = {}
    for full in sorted(tensors, key=lambda name: ".modules_to_save." in name):  # which has the trained values
        name = full.removeprefix(_PREFIX).removeprefix(prefix)
        for own, of_later in later.items():
            name = name.replace(of_later, own)
        end = next((end for end in (_A, _B) if name.endswith(f".{end}")), "")
        if end:
            parts.setdefault(name.removesuffix(f".{end}"), {})[end] = tensors[full]
        elif ".original_module." not in name:
            others[name.replace(".base_layer.", ".").replace(".modules_to_save.", ".")] = tensors[full]
    return parts, others


def _chosen(name: str, pattern: Mapping[str, float], common: float) -> float:
    """Return the setting of a layer, by the first pattern that the end of its name matches, as PEFT does."""
    try:
        return next((own for key, own in pattern.items() if re.match(rf"(.*\.)?({key})$", name)), common)
    except re.error as error:
        raise RecordError(
            f"the settings of the adapters have a pattern that is not a regular expression: {error}"
        ) from error


def _config(path: str) -> dict[str, Any]:
    """Read the settings of adapters, with those that are missing."""
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
