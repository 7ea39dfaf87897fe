"""Architectures that read and write the folders of transformers, and generation of text.

>>> from burnpy.backend import NumPy
>>> from burnpy.models import Gpt2, Gpt2Config, generate
>>> model = Gpt2(Gpt2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2), device=NumPy)
>>> tokens = list(generate(model, [3, 1, 4], max_new=5))  # and Gpt2.from_pretrained(folder, device=NumPy)
>>> len(tokens)
5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.lazy import missing
from burnpy.models.beams import Beam, beam_search
from burnpy.models.bert import Bert, BertClassifier, BertConfig
from burnpy.models.config import Config, LabelledConfig
from burnpy.models.decoder import Decoder
from burnpy.models.generation import compiled_step, generate
from burnpy.models.gpt2 import Gpt2, Gpt2Config
from burnpy.models.llama import Llama
from burnpy.models.llama_config import LlamaConfig
from burnpy.models.pretrained import Pretrained
from burnpy.models.resnet import ResNet, ResNetConfig
from burnpy.models.samplers import (
    Processor,
    Sampler,
    greedy,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    repetition_penalty,
    sampling,
)
from burnpy.models.tokenizer import Tokenizer
from burnpy.models.vit import Vit, VitConfig

__all__ = [
    "Beam",
    "Bert",
    "BertClassifier",
    "BertConfig",
    "Config",
    "Decoder",
    "Gpt2",
    "Gpt2Config",
    "LabelledConfig",
    "Llama",
    "LlamaConfig",
    "Pretrained",
    "Processor",
    "ResNet",
    "ResNetConfig",
    "Sampler",
    "Tokenizer",
    "Vit",
    "VitConfig",
    "beam_search",
    "compiled_step",
    "generate",
    "greedy",
    "keep_min_p",
    "keep_top_k",
    "keep_top_p",
    "repetition_penalty",
    "sampling",
]

if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        """Raise an error for an unknown name, with what to write instead."""
        return missing(__name__, name)
