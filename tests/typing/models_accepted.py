"""Code type checkers must accept of `burnpy.models`, with the inferred types. It also runs."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import mkdtemp
from typing import assert_type

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.models import Bert, BertConfig, Gpt2, Gpt2Config, beam_search, generate, greedy, sampling

config = Gpt2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2)
model = Gpt2(config, device=Autodiff[NumPy])
assert_type(model, Gpt2[Autodiff[NumPy]])
assert_type(model.valid(), Gpt2[NumPy])
assert_type(model.config, Gpt2Config)
tokens = IntTensor[NumPy].from_data([[1, 2, 3]])  # of the backend beneath, as labels and indices
assert_type(model(tokens), Tensor[Autodiff[NumPy]])
assert_type(model.hidden(tokens)[0], Tensor[Autodiff[NumPy]])

folder = mkdtemp()
model.save_pretrained(folder)
plain = Gpt2.from_pretrained(folder, device=NumPy)
assert_type(plain, Gpt2[NumPy])
assert_type(Gpt2.from_pretrained(folder, device=Autodiff[NumPy], dtype="float32"), Gpt2[Autodiff[NumPy]])

assert_type(generate(plain, [1, 2], max_new=2), Iterator[int])
assert_type(generate(plain, [[1, 2], [3]], max_new=2, sampler=greedy), Iterator[tuple[int | None, ...]])
assert_type(generate(plain, tokens, max_new=2, sampler=sampling(top_k=2)), Iterator[tuple[int | None, ...]])
sampler = sampling(top_p=0.9)  # of every backend, without an annotation
assert_type(sampler(Tensor[NumPy].zeros((1, 20))), IntTensor[NumPy])
assert_type(beam_search(plain, [1, 2], max_new=2, beams=2)[0].tokens, tuple[int, ...])

sizes = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
bert = Bert(sizes, device=NumPy)
assert_type(bert.pooled(bert(tokens, key_mask=tokens != 3)), Tensor[NumPy])
