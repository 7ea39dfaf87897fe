"""Models are written to folders and read from them, and folders of other models are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, models, nn
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, RecordError, StateError
from burnpy.record import to_torch
from tests.models import small

TOKENS = IntTensor[NumPy].from_data([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
IMAGES = Tensor[NumPy].normal((2, 3, 8, 8))


def output(model: Any) -> Any:
    images = isinstance(model, models.Vit | models.ResNet)
    return model(IMAGES.to_dtype(model.params()[0].dtype) if images else TOKENS).float().to_numpy()


@pytest.mark.slow
@pytest.mark.parametrize("name", small.MODELS)
def test_a_saved_model_is_read_back(name: str, tmp_path: Path) -> None:
    model: Any = small.MODELS[name]()
    model.save_pretrained(tmp_path / "new" / "folder")
    again = model.__class__.from_pretrained(tmp_path / "new" / "folder", device=NumPy)
    np.testing.assert_allclose(output(again), output(model), rtol=1e-4, atol=1e-5)
    state, read = to_torch(model), to_torch(again)
    assert state.keys() == read.keys()
    assert all(np.array_equal(state[name], read[name]) for name in state)
    written = {**model.config.options(), "architectures": [model._architecture()]}
    assert written == {"architectures": [model._architecture()], **again.config.options()}
    again.save_pretrained(tmp_path / "again")
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "new" / "folder" / file).read_bytes()


def test_weights_have_the_dtype_of_the_file_or_the_given_one(tmp_path: Path) -> None:
    small.gpt2().astype("bfloat16").save_pretrained(tmp_path)
    kept = models.Gpt2.from_pretrained(tmp_path, device=Autodiff[NumPy])
    wide = models.Gpt2.from_pretrained(tmp_path, device=NumPy, dtype="float32")
    assert ({str(x.dtype) for x in kept.params()}, {str(x.dtype) for x in wide.params()}) == ({"bfloat16"}, {"float32"})
    assert kept.valid().device is wide.device


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_merged_adapters_are_saved_but_adapters_and_ints_are_not(name: str, tmp_path: Path) -> None:
    model = small.MODELS[name]()
    adapted = nn.add_lora(model, rank=2)
    for other in (adapted, model.quantized("int8")):
        with pytest.raises(
            ArgumentError, match=r"does not have; merge_lora\(\) adapters first, and write quantized weights"
        ):
            other.save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    nn.merge_lora(adapted).save_pretrained(tmp_path / "new")
    again = model.__class__.from_pretrained(tmp_path / "new", device=NumPy)
    np.testing.assert_allclose(output(again), output(model), rtol=1e-4, atol=1e-5)


def test_weights_of_another_depth_or_vocabulary_are_refused(tmp_path: Path) -> None:
    small.gpt2().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for option, value in (("n_layer", 3), ("n_layer", 1), ("vocab_size", 7)):
        (tmp_path / "config.json").write_text(json.dumps(config | {option: value}))
        with pytest.raises(StateError, match=r"(?s)does not fit Gpt2.*(blocks|h)\.|tokens\.weight|wte"):
            models.Gpt2.from_pretrained(tmp_path, device=NumPy)


def test_a_bert_leaves_out_heads_but_no_head_is_made_up(tmp_path: Path) -> None:
    model = small.bert_classifier()
    model.save_pretrained(tmp_path)
    encoder = models.Bert.from_pretrained(tmp_path, device=NumPy)
    np.testing.assert_allclose(output(encoder), output(model.bert), rtol=1e-4, atol=1e-5)
    encoder.save_pretrained(tmp_path)
    with pytest.raises(
        RecordError, match="has the weights of BertModel; BertClassifier takes those of BertForSequenceCl"
    ):
        models.BertClassifier.from_pretrained(tmp_path, device=NumPy)
