"""Llama, and the models that differ from it by settings: Mistral, Qwen 2 and 3, and Gemma 1 to 3.

Source: Touvron et al., LLaMA: Open and Efficient Foundation Language Models, 2023.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.models.config import Activation, activation
from burnpy.models.decoder import Caches, Decoder, attended
from burnpy.models.llama_config import LlamaConfig
from burnpy.models.pretrained import pretrained, projections
from burnpy.nn.init import Normal
from burnpy.nn.layers.embedding import Embedding
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.multi_head_attention import MultiHeadAttention
from burnpy.nn.layers.normalization import RmsNorm, rms_norm
from burnpy.nn.module import Module, rebound
from burnpy.nn.param import Param
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B2, B, I

if TYPE_CHECKING:
    import os

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.layers.key_value_cache import KeyValueCache
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.tensor.tensor_types import Bools, Ints


class GemmaNorm(Module[B]):
    """Gemma's root mean square norm, which multiplies by 1 + weight, in float32."""

    def __init__(self, size: int, *, eps: float, device: B | type[B]) -> None:
        self.eps = eps
        self.weight = Param(Tensor.zeros((size,), device=device))

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return the shape and dtype of x, (…, size)."""
        return rms_norm(x.float(), self.weight.shape, self.weight.value.float() + 1.0, eps=self.eps).to_dtype(x.dtype)


class Layer(Module[B]):
    """Attention and a feed-forward network with a gate, each after a norm and added to its input."""

    def __init__(self, config: LlamaConfig, number: int, device: B | type[B], generator: Generator | None) -> None:
        size, inner = config.hidden_size, config.intermediate_size
        small: Any = {"device": device, "initializer": Normal(0.0, 0.02), "generator": generator}
        kind, scalar = config.layer_types[number], config.query_pre_attn_scalar
        bias, out_bias = config.biases
        shared = config.num_key_value_heads * config.head_dim
        self.widths = (config.num_attention_heads * config.head_dim, shared, shared)  # of queries, keys and values
        self.activation: Activation = config.hidden_act
        self.norm1, self.norm2 = norm(config, size, device), norm(config, size, device)
        self.after1 = norm(config, size, device) if config.norms_outputs else None
        self.after2 = norm(config, size, device) if config.norms_outputs else None
        self.attention = MultiHeadAttention(
            size,
            config.num_attention_heads,
            head_size=config.head_dim,
            key_heads=config.num_key_value_heads,
            rotary=config.rotary(kind),
            q_norm=norm(config, config.head_dim, device) if config.norms_heads else None,
            k_norm=norm(config, config.head_dim, device) if config.norms_heads else None,
            scale=None if scalar is None else scalar**-0.5,
            softcap=config.attn_logit_softcapping,
            window=config.sliding_window if kind == "sliding_attention" else None,
            dropout=config.attention_dropout,
            bias=bias,
            out_bias=out_bias,
            **small,
        )
        self.gate, self.up = (Linear(size, inner, bias=config.mlp_bias, **small) for _ in range(2))
        self.down = Linear(inner, size, bias=config.mlp_bias, **small)

    def forward(
        self, x: Tensor[B], key_mask: Bools[B] | None, cache: KeyValueCache[B] | None
    ) -> tuple[Tensor[B], KeyValueCache[B] | None]:
        """Map x (N, T, size) to the same shape; with a cache, return the next one too."""
        out, cache = attended(self.attention, self.norm1(x), key_mask, cache)
        x = x + (out if self.after1 is None else self.after1(out))
        normed = self.norm2(x)
        fed = self.down(activation(self.activation)(self.gate(normed)) * self.up(normed))
        return x + (fed if self.after2 is None else self.after2(fed)), cache

    def torch_names(self) -> dict[str, Any]:
        """Map paths to transformers' names: see `burnpy.record.torch_weights`."""
        sizes = {f"self_attn.{part}_proj": size for part, size in zip("qkv", self.widths, strict=True)}
        names: dict[str, Any] = {
            **projections(sizes),
            "attention.out_proj": "self_attn.o_proj",
            "attention.q_norm": "self_attn.q_norm",
            "attention.k_norm": "self_attn.k_norm",
            **{part: f"mlp.{part}_proj" for part in ("gate", "up", "down")},
            "norm1": "input_layernorm",
            "norm2": "post_attention_layernorm",
        }
        if self.after1 is None:
            return names
        outputs = {"after1": "post_attention_layernorm", "after2": "post_feedforward_layernorm"}
        return names | outputs | {"norm2": "pre_feedforward_layernorm"}


class Llama(Decoder[B]):
    """A causal language model: Llama, Mistral, Qwen 2 or 3, or Gemma 1, 2 or 3, by the ``model_type`` of its config.

    Args:
        config: the options.
        device: the device of the model.
        generator: the source of random initial values.

    >>> config = LlamaConfig(
    ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4
    ... )
    >>> Llama(config, device=NumPy)(IntTensor[NumPy].from_data([[3, 1, 4]])).shape
    (1, 3, 50)
    """

    config: LlamaConfig
    _config = LlamaConfig

    def __init__(self, config: LlamaConfig, *, device: B | type[B], generator: Generator | None = None) -> None:
        small: Any = {"device": device, "initializer": Normal(0.0, 0.02), "generator": generator}
        size = config.hidden_size
        self.config = config
        self.tokens = Embedding(config.vocab_size, size, padding_idx=config.pad_token_id, **small)
        self.layers = [Layer(config, k, device, generator) for k in range(config.num_hidden_layers)]
        self.norm = norm(config, size, device)
        self.head = None if config.tie_word_embeddings else Linear(size, config.vocab_size, bias=False, **small)

    def hidden(
        self, tokens: Ints[B], *, key_mask: Bools[B] | None = None, cache: Caches[B] | None = None
    ) -> tuple[Tensor[B], Caches[B]]:
        """Return the hidden states after the last layer, (N, T, hidden_size), and the next cache: without one, ()."""
        x = self.tokens(tokens)
        if self.config.is_gemma:
            x = x * Tensor.full((), self.config.hidden_size**0.5, dtype=x.dtype, device=x.device)
        x, cache = self._through(self.layers, x, key_mask, cache)
        return self.norm(x), cache

    def logits(self, hidden: Tensor[B]) -> Tensor[B]:
        """Map hidden states (…, hidden_size) to the logits of the tokens that follow, (…, vocab_size)."""
        logits, cap = super().logits(hidden), self.config.final_logit_softcapping
        return logits if cap is None else (logits / cap).tanh() * cap

    def attentions(self) -> tuple[MultiHeadAttention[B], ...]:
        """Return the attention of each layer."""
        return tuple([layer.attention for layer in self.layers])

    @property
    def capacity(self) -> int:
        """The largest number of tokens in a sequence."""
        return self.config.max_position_embeddings

    @classmethod
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, device: B2 | type[B2], dtype: DTypeLike | None = None
    ) -> Llama[B2]:
        """Read a folder of transformers: see `burnpy.models.pretrained`."""
        model: Llama[B2] = pretrained(cls, folder, device, dtype)
        return model

    def torch_names(self) -> dict[str, str]:
        """Map paths to transformers' names: see `burnpy.record.torch_weights`."""
        return {"tokens": "model.embed_tokens", "layers": "model.layers", "norm": "model.norm", "head": "lm_head"}

    def valid(self: Llama[Autodiff[I]]) -> Llama[I]:
        """Return the same model on the inner backend."""
        return rebound(self)


def norm(config: LlamaConfig, size: int, device: B | type[B]) -> RmsNorm[B] | GemmaNorm[B]:
    """Return the norm of an architecture."""
    if config.is_gemma:
        return GemmaNorm(size, eps=config.rms_norm_eps, device=device)
    return RmsNorm(size, eps=config.rms_norm_eps, device=device)
