"""Llama, and the models that differ from it by settings: Mistral, Qwen 2 and 3, and Gemma 1 to 3.

Source: Touvron et al., LLaMA: Open and Efficient Foundation Language Models, 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from burnpy.backend.errors import ArgumentError
from burnpy.models.decoder import Caches, Decoder, attended
from burnpy.models.pretrained import Activation, Config, activation, pretrained, projections
from burnpy.nn.init import Normal
from burnpy.nn.layers.embedding import Embedding
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.multi_head_attention import MultiHeadAttention
from burnpy.nn.layers.normalization import RmsNorm, rms_norm
from burnpy.nn.layers.positional_encoding import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    RotaryEncoding,
    RotaryScaling,
    YarnScaling,
)
from burnpy.nn.module import Module, rebound
from burnpy.nn.param import Param
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B2, B, I

if TYPE_CHECKING:
    import os

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.layers.key_value_cache import KeyValueCache
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.tensor.tensor_types import Bools, Ints


ModelType: TypeAlias = Literal["llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"]
LayerType: TypeAlias = Literal["full_attention", "sliding_attention"]

_GEMMA: Final = {"tie_word_embeddings": True, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "eos_token_id": 1}
_QWEN: Final = {"eos_token_id": None}
DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "llama": {},
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "qwen2": _QWEN,
    "qwen3": _QWEN | {"head_dim": 128},
    "gemma": _GEMMA,
    "gemma2": _GEMMA
    | {
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
    },
    "gemma3_text": _GEMMA | {"query_pre_attn_scalar": 256, "sliding_window": 4096},
}
"""The defaults of transformers that differ from Llama's, for the options that a file may leave out."""


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(Config):
    """The options of `Llama`, with transformers' names and Llama's defaults.

    An option that the architecture of ``model_type`` does not have is None or False. `from_options` knows the defaults
    of the other architectures: ``LlamaConfig.from_options({"model_type": "gemma2", "num_hidden_layers": 2})``.

    >>> config = LlamaConfig(hidden_size=64, num_attention_heads=4, num_key_value_heads=2)
    >>> config.head_dim, config.rotary("full_attention").base
    (16, 10000.0)
    """

    architectures: ClassVar = {kind: f"{kind.removesuffix('_text').capitalize()}ForCausalLM" for kind in DEFAULTS}
    harmless: ClassVar = "_sliding_window_pattern, cache_implementation, max_window_layers, pretraining_tp"

    model_type: ModelType = "llama"
    vocab_size: int = 32000  #: the number of tokens
    hidden_size: int = 4096
    intermediate_size: int = 11008  #: the hidden size of feed-forward networks
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int = 0  #: heads of keys and values; 0 for one with each head of queries
    head_dim: int = 0  #: the size of a head; 0 for hidden_size / num_attention_heads
    hidden_act: Activation = "silu"
    max_position_embeddings: int = 2048  #: the largest number of tokens in a sequence
    rms_norm_eps: float = 1e-6
    rope_parameters: Mapping[str, Any] = field(default_factory=lambda: {"rope_type": "default", "rope_theta": 10000.0})
    tie_word_embeddings: bool = False  #: whether logits are products with the embeddings
    attention_bias: bool = False
    attention_dropout: float = 0.0
    mlp_bias: bool = False
    sliding_window: int | None = None  #: how many tokens a layer of "sliding_attention" attends to
    layer_types: tuple[LayerType, ...] = ()  #: the attention of each layer; () if all are full
    attn_logit_softcapping: float | None = None  #: a bound of attention scores
    final_logit_softcapping: float | None = None  #: a bound of logits
    query_pre_attn_scalar: int | None = None  #: attention scores are divided by its root; head_dim if None
    use_bidirectional_attention: Literal[False] | None = None
    pad_token_id: int | None = None  #: a token whose embedding gets no gradient
    eos_token_id: int | tuple[int, ...] | None = 2  #: the token, or tokens, that end a text

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (
            ("head_dim", self.head_dim or self.hidden_size // self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads or self.num_attention_heads),
            ("layer_types", self.layer_types or ("full_attention",) * self.num_hidden_layers),
        ):
            object.__setattr__(self, name, value)
        if len(self.layer_types) != self.num_hidden_layers:
            raise ArgumentError(
                f"LlamaConfig has {len(self.layer_types)} layer_types for num_hidden_layers={self.num_hidden_layers}"
            )
        if "sliding_attention" in self.layer_types and self.sliding_window is None:
            raise ArgumentError("LlamaConfig has layers of 'sliding_attention' and sliding_window=None; pass its size")
        if self.model_type == "gemma3_text" and self.attn_logit_softcapping is not None:
            raise ArgumentError("LlamaConfig honours attn_logit_softcapping of 'gemma2', not of 'gemma3_text'")
        for kind in set(self.layer_types):
            self.rotary(kind)

    @property
    def is_gemma(self) -> bool:
        """True if norms add 1 to their weights, and embeddings are multiplied by √hidden_size."""
        return self.model_type.startswith("gemma")

    @property
    def norms_outputs(self) -> bool:
        """True if attention and feed-forward networks have a norm after them as well."""
        return self.model_type in ("gemma2", "gemma3_text")

    @property
    def norms_heads(self) -> bool:
        """True if queries and keys have a norm."""
        return self.model_type in ("qwen3", "gemma3_text")

    @property
    def biases(self) -> tuple[bool, bool]:
        """Two flags: the projections to queries, keys and values have a bias; the one to outputs has."""
        return (True, False) if self.model_type == "qwen2" else (self.attention_bias, self.attention_bias)

    @explained
    def rotary(self, layer_type: LayerType) -> RotaryEncoding:
        """Return the rotary encoding of the layers of a type.

        Raises:
            ArgumentError: ``rope_parameters`` has an unknown type or setting, or one is missing.
        """
        parameters = self.rope_parameters.get(layer_type, self.rope_parameters)
        rest = {name: value for name, value in parameters.items() if value is not None}
        kind, base = rest.pop("rope_type", "default"), float(rest.pop("rope_theta", 10000.0))
        if rest.get("partial_rotary_factor") == 1.0:
            del rest["partial_rotary_factor"]
        try:
            scaling = _scaling(kind, rest, self.max_position_embeddings)
        except KeyError as error:
            raise ArgumentError(f"rope_parameters of type {kind!r} has no {error.args[0]!r}") from error
        if rest:
            listed = ", ".join(f"{name}={value!r:.40}" for name, value in rest.items())
            raise ArgumentError(f"LlamaConfig does not honour {listed} in rope_parameters of type {kind!r:.40}")
        return RotaryEncoding(base=base, interleaved=False, scaling=scaling)

    @classmethod
    def _translated(cls, options: dict[str, Any]) -> dict[str, Any]:
        kind = options["model_type"]
        options = {**DEFAULTS[kind], **{name: value for name, value in options.items() if not _is_unset(name, value)}}
        if "hidden_activation" in options:
            options["hidden_act"] = options.pop("hidden_activation")
        if kind == "gemma" and options["hidden_act"] == "gelu":
            options["hidden_act"] = "gelu_pytorch_tanh"  # what the files of Gemma mean by it
        _collect_rope(kind, options)
        _collect_windows(kind, options)
        return options

    def options(self) -> dict[str, Any]:
        """Return all options as they stand in ``config.json``."""
        options = super().options()
        if self.norms_outputs:
            options["hidden_activation"] = options.pop("hidden_act")
        if self.model_type in ("qwen2", "qwen3"):
            options["use_sliding_window"] = self.sliding_window is not None
        if self.model_type in ("llama", "mistral", "gemma"):
            del options["layer_types"]
        keep = ("pad_token_id", "eos_token_id", "sliding_window", "attn_logit_softcapping", "final_logit_softcapping")
        return {name: value for name, value in options.items() if value is not None or name in keep}


_MAY_BE_NULL = ("pad_token_id", "eos_token_id", "sliding_window", "attn_logit_softcapping", "final_logit_softcapping")


def _is_unset(name: str, value: object) -> bool:
    """Return whether null in a file stands for the default of an option."""
    return value is None and name not in _MAY_BE_NULL


def _collect_rope(kind: str, options: dict[str, Any]) -> None:
    """Make ``rope_parameters`` of the options in which older files have them."""
    theta, scaling = options.pop("rope_theta", None), options.pop("rope_scaling", None)
    local = options.pop("rope_local_base_freq", 10000.0)
    given: dict[str, Any] = {**(scaling or options.get("rope_parameters") or {})}
    if kind == "gemma3_text":
        if "full_attention" not in given:
            given = {"full_attention": given, "sliding_attention": {}}
        full, sliding = ({**(given.get(each) or {})} for each in ("full_attention", "sliding_attention"))
        full.setdefault("rope_theta", 1_000_000.0 if theta is None else theta)
        sliding.setdefault("rope_theta", local)
        given = {"full_attention": full, "sliding_attention": sliding}
    else:
        given.setdefault("rope_theta", 10000.0 if theta is None else theta)
    for parameters in given.values() if kind == "gemma3_text" else [given]:
        parameters.setdefault("rope_type", parameters.pop("type", "default"))
    options["rope_parameters"] = given


def _collect_windows(kind: str, options: dict[str, Any]) -> None:
    """Make ``layer_types`` and ``sliding_window`` of the options that they follow from."""
    count = options.get("num_hidden_layers", 32)
    used, first = options.pop("use_sliding_window", False), options.get("max_window_layers", 28)
    pattern = options.pop("sliding_window_pattern", 6)
    if kind in ("qwen2", "qwen3") and not used:
        options["sliding_window"] = None
    window = options.get("sliding_window")
    layers: dict[str, Callable[[int], bool]] = {
        "mistral": lambda k: window is not None,
        "qwen2": lambda k: window is not None and k >= first,
        "qwen3": lambda k: window is not None and k >= first,
        "gemma2": lambda k: (k + 1) % 2 != 0,
        "gemma3_text": lambda k: (k + 1) % pattern != 0,
    }
    if not options.get("layer_types"):
        slides = [kind in layers and layers[kind](k) for k in range(count)]
        options["layer_types"] = ["sliding_attention" if each else "full_attention" for each in slides]


def _scaling(kind: str, rest: dict[str, Any], length: int) -> RotaryScaling | None:
    """Return the scaling of a type, and remove its settings from ``rest``."""

    def taken(name: str, *default: Any) -> Any:
        return rest.pop(name, *default)

    if kind == "default":
        return None
    if kind == "linear":
        return LinearScaling(taken("factor"))
    if kind == "dynamic":
        taken("original_max_position_embeddings", None)  # transformers scales from max_position_embeddings alone
        return DynamicScaling(taken("factor"), length)
    if kind == "llama3":
        original = taken("original_max_position_embeddings", length)
        return Llama3Scaling(taken("factor"), original, taken("low_freq_factor"), taken("high_freq_factor"))
    if kind == "yarn":
        return YarnScaling(
            taken("factor"),
            taken("original_max_position_embeddings", length),
            taken("beta_fast", 32.0),
            taken("beta_slow", 1.0),
            taken("attention_factor", None),
            taken("truncate", True),
        )
    raise ArgumentError(f"LlamaConfig does not honour rope_parameters of type {kind!r:.40}")


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
    def capacity(self) -> int | None:
        """The largest number of tokens in a sequence; None if a scaled rotary encoding goes beyond training's."""
        scaled = all(self.config.rotary(each).scaling is not None for each in set(self.config.layer_types))
        return None if scaled else self.config.max_position_embeddings

    @classmethod
    @explained
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
