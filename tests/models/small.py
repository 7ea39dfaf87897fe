"""Small models of each architecture, which the tests share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from burnpy import Generator, Tensor, models
from burnpy.backend import NumPy
from burnpy.typevars import M

SIZES: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
VOCABULARY = 50


def gpt2(device: Any = NumPy, **options: Any) -> models.Gpt2[Any]:
    sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32}
    config = models.Gpt2Config(**(sizes | options))
    return scaled(models.Gpt2(config, device=device, generator=Generator(0)))


def llama(device: Any = NumPy, **options: Any) -> models.Llama[Any]:
    sizes = SIZES | {"vocab_size": VOCABULARY, "num_key_value_heads": 2, "max_position_embeddings": 32}
    config = models.LlamaConfig.from_options({"model_type": "llama"} | sizes | options)
    return scaled(models.Llama(config, device=device, generator=Generator(0)))


def bert(device: Any = NumPy, **options: Any) -> models.Bert[Any]:
    return models.Bert(bert_config(**options), device=device, generator=Generator(0))


def bert_classifier(device: Any = NumPy, **options: Any) -> models.BertClassifier[Any]:
    return models.BertClassifier(bert_config(**options), device=device, generator=Generator(0))


def bert_config(**options: Any) -> models.BertConfig:
    sizes: dict[str, Any] = SIZES | {"vocab_size": VOCABULARY, "max_position_embeddings": 32}
    return models.BertConfig(**(sizes | options))


def vit(device: Any = NumPy, **options: Any) -> models.Vit[Any]:
    sizes: dict[str, Any] = SIZES | {"image_size": 8, "patch_size": 4, "labels": ("a", "b", "c")}
    return models.Vit(models.VitConfig(**(sizes | options)), device=device, generator=Generator(0))


def resnet(device: Any = NumPy, **options: Any) -> models.ResNet[Any]:
    sizes: dict[str, Any] = {"embedding_size": 4, "hidden_sizes": (8, 16), "depths": (1, 2), "labels": ("a", "b", "c")}
    return models.ResNet(models.ResNetConfig(**(sizes | options)), device=device, generator=Generator(0))


def scaled(model: M) -> M:
    """Return the model with larger weights, so that its tokens are not all alike."""

    def larger(x: Tensor[Any]) -> Tensor[Any]:
        return x * 20.0 if x.ndim == 2 else x

    return model.map(larger)


OTHERS: dict[str, dict[str, Any]] = {
    "mistral": {"model_type": "mistral", "sliding_window": 3},
    "qwen2": {"model_type": "qwen2"},
    "qwen3": {"model_type": "qwen3", "head_dim": 8},
    "gemma": {"model_type": "gemma", "head_dim": 8},
    "gemma2": {"model_type": "gemma2", "head_dim": 8, "sliding_window": 3},
    "gemma3": {"model_type": "gemma3_text", "sliding_window": 3, "sliding_window_pattern": 2},
}
DECODERS: dict[str, Callable[..., models.Decoder[Any]]] = {
    "gpt2": gpt2,
    "llama": llama,
    **{name: partial(llama, **options) for name, options in OTHERS.items()},
}
MODELS: dict[str, Callable[..., Any]] = {
    "resnet": resnet,
    "vit": vit,
    "bert": bert,
    "bert classifier": bert_classifier,
    **DECODERS,
}
