"""GPT-2. Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from burnpy.models.decoder import Caches, Decoder, attended, positions
from burnpy.models.pretrained import Activation, Config, activation, pretrained
from burnpy.nn.init import Normal
from burnpy.nn.layers.dropout import Dropout
from burnpy.nn.layers.embedding import Embedding
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.multi_head_attention import MultiHeadAttention
from burnpy.nn.layers.normalization import LayerNorm
from burnpy.nn.module import Module, rebound
from burnpy.record.torch_weights import Columns
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B2, B, I

if TYPE_CHECKING:
    import os

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.layers.key_value_cache import KeyValueCache
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Bools, Ints


@dataclass(frozen=True, kw_only=True)
class Gpt2Config(Config):
    """The options of `Gpt2`, with transformers' names and defaults."""

    architectures: ClassVar = {"gpt2": "GPT2LMHeadModel"}
    harmless: ClassVar = (
        "n_ctx, reorder_and_upcast_attn, summary_activation, summary_first_dropout, "
        "summary_proj_to_labels, summary_type, summary_use_proj, id2label"
    )

    vocab_size: int = 50257  #: the number of tokens
    n_positions: int = 1024  #: the largest number of tokens in a sequence
    n_embd: int = 768  #: the size of hidden states
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None  #: the hidden size of feed-forward networks; 4 · n_embd by default
    activation_function: Activation = "gelu_new"
    resid_pdrop: float = 0.1  #: dropout of the outputs of sublayers
    embd_pdrop: float = 0.1  #: dropout of embeddings
    attn_pdrop: float = 0.1  #: dropout of attention weights
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True  #: whether logits are products with the embeddings
    scale_attn_weights: bool = True  #: whether attention scores are divided by the root of the head size
    scale_attn_by_inverse_layer_idx: bool = False  #: whether those of layer k, from 1, are divided by k
    add_cross_attention: Literal[False] = False
    eos_token_id: int | None = 50256  #: the token that ends a text


class Block(Module[B]):
    """Attention and a feed-forward network, each after a layer norm and added to its input."""

    def __init__(self, config: Gpt2Config, number: int, device: B | type[B], generator: Generator | None) -> None:
        size, eps = config.n_embd, config.layer_norm_epsilon
        inner = 4 * size if config.n_inner is None else config.n_inner
        small: Any = {"device": device, "initializer": Normal(0.0, 0.02), "generator": generator}
        self.activation: Activation = config.activation_function
        self.ln_1, self.ln_2 = LayerNorm(size, eps=eps, device=device), LayerNorm(size, eps=eps, device=device)
        scale = (size // config.n_head) ** -0.5 if config.scale_attn_weights else 1.0
        scale = scale / (number + 1) if config.scale_attn_by_inverse_layer_idx else scale
        self.attn = MultiHeadAttention(size, config.n_head, scale=scale, dropout=config.attn_pdrop, **small)
        self.up, self.down = Linear(size, inner, **small), Linear(inner, size, **small)
        self.dropout = Dropout(config.resid_pdrop)

    def forward(
        self, x: Tensor[B], key_mask: Bools[B] | None, cache: KeyValueCache[B] | None
    ) -> tuple[Tensor[B], KeyValueCache[B] | None]:
        """Map x (N, T, size) to the same shape; with a cache, return the next one too."""
        out, cache = attended(self.attn, self.ln_1(x), key_mask, cache)
        x = x + self.dropout(out)
        return x + self.dropout(self.down(activation(self.activation)(self.up(self.ln_2(x))))), cache

    def torch_names(self) -> dict[str, Any]:
        """Map paths to transformers' names; its weights are not transposed."""
        size = self.attn.size
        columns = {part: (k * size, (k + 1) * size) for k, part in enumerate(("q_proj", "k_proj", "v_proj"))}
        split = {  # where they are layers, as adapters need
            f"attn.{part}.{name}": Columns(f"attn.c_attn.{name}", *places)
            for part, places in columns.items()
            for name in ("weight", "bias")
        }
        return split | {
            "attn.in_proj_weight": "attn.c_attn.weight",
            "attn.in_proj_bias": "attn.c_attn.bias",
            "attn.out_proj.weight": "attn.c_proj.weight",
            "attn.out_proj.bias": "attn.c_proj.bias",
            "up.weight": "mlp.c_fc.weight",
            "up.bias": "mlp.c_fc.bias",
            "down.weight": "mlp.c_proj.weight",
            "down.bias": "mlp.c_proj.bias",
        }


class Gpt2(Decoder[B]):
    """GPT-2, a causal language model.

    Args:
        config: the options.
        device: the device of the model.
        generator: the source of random initial values.

    >>> model = Gpt2(Gpt2Config(vocab_size=50, n_embd=8, n_layer=2, n_head=2), device=NumPy)
    >>> model(IntTensor[NumPy].from_data([[3, 1, 4]])).shape
    (1, 3, 50)
    """

    config: Gpt2Config
    _config = Gpt2Config

    def __init__(self, config: Gpt2Config, *, device: B | type[B], generator: Generator | None = None) -> None:
        small: Any = {"device": device, "initializer": Normal(0.0, 0.02), "generator": generator}
        self.config = config
        self.tokens = Embedding(config.vocab_size, config.n_embd, **small)
        self.places = Embedding(config.n_positions, config.n_embd, **small)
        self.dropout = Dropout(config.embd_pdrop)
        self.blocks = [Block(config, k, device, generator) for k in range(config.n_layer)]
        self.norm = LayerNorm(config.n_embd, eps=config.layer_norm_epsilon, device=device)
        tied = config.tie_word_embeddings
        self.head = None if tied else Linear(config.n_embd, config.vocab_size, bias=False, **small)

    def hidden(
        self, tokens: Ints[B], *, key_mask: Bools[B] | None = None, cache: Caches[B] | None = None
    ) -> tuple[Tensor[B], Caches[B]]:
        """Return the hidden states after the last layer, (N, T, n_embd), and the next cache: without one, ()."""
        x = self.dropout(self.tokens(tokens) + self.places(positions(tokens, key_mask, cache)))
        x, cache = self._through(self.blocks, x, key_mask, cache)
        return self.norm(x), cache

    def attentions(self) -> tuple[MultiHeadAttention[B], ...]:
        """Return the attention of each layer."""
        return tuple([block.attn for block in self.blocks])

    @property
    def capacity(self) -> int:
        """The largest number of tokens in a sequence."""
        return self.config.n_positions

    @classmethod
    @explained
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, device: B2 | type[B2], dtype: DTypeLike | None = None
    ) -> Gpt2[B2]:
        """Read a folder of transformers' ``GPT2LMHeadModel``: see `burnpy.models.pretrained`."""
        model: Gpt2[B2] = pretrained(cls, folder, device, dtype)
        return model

    def torch_names(self) -> dict[str, str]:
        """Map paths to transformers' names: see `burnpy.record.torch_weights`."""
        names = {"tokens": "wte", "places": "wpe", "blocks": "h", "norm": "ln_f"}
        return {ours: f"transformer.{theirs}" for ours, theirs in names.items()} | {"head": "lm_head"}

    def valid(self: Gpt2[Autodiff[I]]) -> Gpt2[I]:
        """Return the same model on the inner backend."""
        return rebound(self)
