"""The options of `Llama`, and what Mistral, Qwen and Gemma set differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeAlias

from burnpy.backend.errors import ArgumentError
from burnpy.models.config import Activation, Config
from burnpy.nn.layers.positional_encoding import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    RotaryEncoding,
    RotaryScaling,
    YarnScaling,
)

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
            raise ArgumentError("LlamaConfig has layers of 'sliding_attention' and sliding_window=None")
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
    """Return the scaling of a type, whose settings are taken out of ``rest``."""

    def taken(name: str, *default: Any) -> Any:
        return rest.pop(name, *default)

    if kind == "default":
        return None
    if kind == "linear":
        return LinearScaling(taken("factor"))
    if kind == "dynamic":
        return DynamicScaling(taken("factor"), taken("original_max_position_embeddings", length))
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
