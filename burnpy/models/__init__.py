"""Architectures that read and write the folders of transformers, and generation of text.

>>> from burnpy.models import Gpt2, Gpt2Config, generate
>>> model = Gpt2(Gpt2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2), device=NumPy)
>>> tokens = list(generate(model, [3, 1, 4], max_new=5))  # and Gpt2.from_pretrained(folder, device=NumPy)
>>> len(tokens)
5
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.models.bert": "Bert BertClassifier BertConfig",
    "burnpy.models.decoder": "Decoder",
    "burnpy.models.generation": (
        "Beam Processor Sampler beam_search compiled_step generate greedy keep_min_p keep_top_k keep_top_p "
        "repetition_penalty sampling"
    ),
    "burnpy.models.gpt2": "Gpt2 Gpt2Config",
    "burnpy.models.llama": "Llama LlamaConfig",
    "burnpy.models.pretrained": "Config LabelledConfig Pretrained Tokenizer",
    "burnpy.models.resnet": "ResNet ResNetConfig",
    "burnpy.models.vit": "Vit VitConfig",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
