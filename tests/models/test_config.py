"""Options of ``config.json``: each is honoured, harmless or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burnpy import models
from burnpy.errors import ArgumentError, RecordError, RecordNotFoundError
from tests.rows import every_row

GPT2 = {"model_type": "gpt2"}
LLAMA = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2}
GEMMA3 = LLAMA | {"model_type": "gemma3_text"}


@every_row(
    "config, options, message",
    [
        (models.Gpt2Config, GPT2 | {"flux": 3}, "a 'gpt2' model has options that Gpt2Config does not know: flux=3; if"),
        (models.Gpt2Config, GPT2 | {"n_layer": 2.5}, "n_layer=2.5; Gpt2Config honours int"),
        (models.Gpt2Config, GPT2 | {"n_layer": True}, "n_layer=True; Gpt2Config honours int"),
        (models.Gpt2Config, GPT2 | {"n_inner": "4"}, "n_inner='4'; Gpt2Config honours int or null"),
        (
            models.Gpt2Config,
            GPT2 | {"activation_function": "laplace"},
            "activation_function='laplace'; Gpt2Config honours",
        ),
        (models.BertConfig, {"model_type": "bert", "is_decoder": True}, "is_decoder=True; BertConfig honours False"),
        (
            models.BertConfig,
            {"model_type": "bert", "position_embedding_type": "relative_key"},
            "position_embedding_type='relative_key'; BertConfig honours 'absolute'",
        ),
        (models.ResNetConfig, {"model_type": "resnet", "depths": [1, 2.5]}, "honours a list of int"),
        (models.LlamaConfig, LLAMA | {"rope_scaling": {"type": "longrope"}}, "rope_parameters of type 'longrope'"),
        (
            models.LlamaConfig,
            LLAMA | {"rope_scaling": {"type": "linear", "factor": 2.0, "beta_fast": 1}},
            "beta_fast=1 in rope_parameters of type 'linear'",
        ),
        (models.LlamaConfig, LLAMA | {"rope_scaling": {"type": "llama3"}}, "of type 'llama3' has no 'factor'"),
        (models.LlamaConfig, LLAMA | {"layer_types": ["full_attention"]}, "1 layer_types for num_hidden_layers=2"),
        (models.LlamaConfig, LLAMA | {"layer_types": ["linear_attention"]}, "honours a list of 'full_attention' or"),
        (
            models.LlamaConfig,
            LLAMA | {"layer_types": ["sliding_attention"] * 2},
            "'sliding_attention' and sliding_window=None",
        ),
        (models.LlamaConfig, GEMMA3 | {"attn_logit_softcapping": 5.0}, "of 'gemma2', not of 'gemma3_text'"),
        (models.LlamaConfig, GEMMA3 | {"use_bidirectional_attention": True}, "use_bidirectional_attention=True"),
    ],
)
def test_unknown_options_and_values_are_refused(
    config: type[models.Config], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError) as error:
        config.from_options(options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@every_row(
    "options, name, value",
    [
        ({}, "head_dim", 4),
        ({}, "num_key_value_heads", 2),
        ({"rope_theta": 5e5}, "rope_parameters", {"rope_theta": 5e5, "rope_type": "default"}),
        (
            {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}},
            "rope_parameters",
            {"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0},
        ),
        ({"model_type": "mistral", "num_key_value_heads": 1}, "layer_types", ("sliding_attention",) * 2),
        (
            {"model_type": "mistral", "num_key_value_heads": 1, "sliding_window": None},
            "layer_types",
            ("full_attention",) * 2,
        ),
        ({"model_type": "qwen2", "sliding_window": 4}, "sliding_window", None),
        (
            {"model_type": "qwen2", "sliding_window": 4, "use_sliding_window": True, "max_window_layers": 1},
            "layer_types",
            ("full_attention", "sliding_attention"),
        ),
        ({"model_type": "qwen3"}, "head_dim", 128),
        ({"model_type": "gemma", "hidden_act": "gelu"}, "hidden_act", "gelu_pytorch_tanh"),
        ({"model_type": "gemma", "hidden_act": None}, "hidden_act", "gelu_pytorch_tanh"),
        ({"model_type": "gemma"}, "tie_word_embeddings", True),
        ({"model_type": "gemma2"}, "layer_types", ("sliding_attention", "full_attention")),
        ({"model_type": "gemma2", "attn_logit_softcapping": None}, "attn_logit_softcapping", None),
        ({"model_type": "gemma3_text"}, "layer_types", ("sliding_attention",) * 2),
        (
            {"model_type": "gemma3_text", "sliding_window_pattern": 2},
            "layer_types",
            ("sliding_attention", "full_attention"),
        ),
    ],
)
def test_older_and_shorter_files_mean_what_transformers_reads(
    options: dict[str, Any], name: str, value: object
) -> None:
    assert getattr(models.LlamaConfig.from_options(LLAMA | options), name) == value


def test_gemma_has_a_rotary_base_for_each_type_of_layer() -> None:
    config = models.LlamaConfig.from_options(GEMMA3 | {"rope_theta": 5e5, "rope_local_base_freq": 2e4})
    assert (config.rotary("full_attention").base, config.rotary("sliding_attention").base) == (5e5, 2e4)


def test_harmless_options_are_written_back() -> None:
    config = models.Gpt2Config.from_options(GPT2 | {"n_layer": 3, "bos_token_id": 7, "summary_type": "first"})
    assert dict(config.others) == {"bos_token_id": 7, "summary_type": "first"}
    options = config.options()
    assert options["bos_token_id"] == 7
    assert models.Gpt2Config.from_options(options) == config


def test_labels_are_those_of_the_file() -> None:
    options = {"model_type": "resnet", "id2label": {"0": "cat", "1": "dog"}, "label2id": {"cat": 0, "dog": 1}}
    config = models.ResNetConfig.from_options(options)
    assert config.labels == ("cat", "dog")
    assert options.items() <= config.options().items()
    assert len(models.ResNetConfig.from_options({"model_type": "resnet", "num_labels": 7}).labels) == 7
    assert len(models.ResNetConfig.of_depth(101).labels) == 1000
    with pytest.raises(ArgumentError, match="got 19; expected 18, 34, 50, 101, 152"):
        models.ResNetConfig.of_depth(19)


def test_folders_without_a_config_of_the_architecture_are_refused(tmp_path: Path) -> None:
    from burnpy.backend import NumPy

    with pytest.raises(RecordNotFoundError, match=r"takes a folder that has config\.json.*snapshot_download"):
        models.Gpt2.from_pretrained(tmp_path, device=NumPy)
    file = tmp_path / "config.json"
    for text, message in (
        ("{", "is not JSON"),
        ("[1]", "holds no options"),
        (json.dumps(GPT2), "LlamaConfig reads 'llama'"),
    ):
        file.write_text(text)
        with pytest.raises(RecordError, match=message):
            models.Llama.from_pretrained(tmp_path, device=NumPy)
    file.write_text(json.dumps(GPT2 | {"architectures": ["GPT2ForTokenClassification"], "n_layer": 1, "n_embd": 12}))
    with pytest.raises(
        RecordError, match="has the weights of GPT2ForTokenClassification; Gpt2 takes those of GPT2LMHeadModel"
    ):
        models.Gpt2.from_pretrained(tmp_path, device=NumPy)
