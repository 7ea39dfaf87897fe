"""The names of `burnpy.models`, made from its table by ``make generated``."""

from burnpy.models.bert import Bert, BertClassifier, BertConfig
from burnpy.models.decoder import Decoder
from burnpy.models.generation import (
    Beam,
    Processor,
    Sampler,
    beam_search,
    compiled_step,
    generate,
    greedy,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    repetition_penalty,
    sampling,
)
from burnpy.models.gpt2 import Gpt2, Gpt2Config
from burnpy.models.llama import Llama, LlamaConfig
from burnpy.models.pretrained import Config, LabelledConfig, Pretrained, Tokenizer
from burnpy.models.resnet import ResNet, ResNetConfig
from burnpy.models.vit import Vit, VitConfig

__all__ = [
    "Beam", "Bert", "BertClassifier", "BertConfig", "Config", "Decoder", "Gpt2", "Gpt2Config", "LabelledConfig",
    "Llama", "LlamaConfig", "Pretrained", "Processor", "ResNet", "ResNetConfig", "Sampler", "Tokenizer", "Vit",
    "VitConfig", "beam_search", "compiled_step", "generate", "greedy", "keep_min_p", "keep_top_k", "keep_top_p",
    "repetition_penalty", "sampling",
]  # fmt: skip
