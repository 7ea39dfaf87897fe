"""BERT, an encoder of text. Source: Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, 2019."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.models.pretrained import Activation, LabelledConfig, Pretrained, activation, pretrained, projections
from burnpy.nn.init import Normal
from burnpy.nn.layers.dropout import Dropout
from burnpy.nn.layers.embedding import Embedding
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.multi_head_attention import MultiHeadAttention
from burnpy.nn.layers.normalization import LayerNorm
from burnpy.nn.module import Module, rebound
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import IntTensor
from burnpy.typevars import B2, B, I

if TYPE_CHECKING:
    import os

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Bools, Ints

_WITHOUT_POOLER = ("BertForMaskedLM", "BertForTokenClassification", "BertForQuestionAnswering")


@dataclass(frozen=True, kw_only=True)
class BertConfig(LabelledConfig):
    """The options of `Bert` and `BertClassifier`, with transformers' names and defaults."""

    architectures: ClassVar = {"bert": "BertModel"}
    harmless: ClassVar = "directionality, tie_word_embeddings, type_sequence_label_size"

    vocab_size: int = 30522  #: the number of tokens
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072  #: the hidden size of feed-forward networks
    hidden_act: Activation = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    classifier_dropout: float | None = None  #: dropout before the classifier; hidden_dropout_prob if None
    max_position_embeddings: int = 512  #: the largest number of tokens in a text
    type_vocab_size: int = 2  #: the number of token types
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0  #: a token whose embedding gets no gradient
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False


class Layer(Module[B]):
    """Attention and a feed-forward network, each added to its input before a layer norm."""

    def __init__(self, config: BertConfig, device: B | type[B], generator: Generator | None) -> None:
        size, inner, eps = config.hidden_size, config.intermediate_size, config.layer_norm_eps
        small: Any = {"device": device, "initializer": Normal(0.0, 0.02), "generator": generator}
        self.activation: Activation = config.hidden_act
        self.attention = MultiHeadAttention(
            size, config.num_attention_heads, dropout=config.attention_probs_dropout_prob, **small
        )
        self.norm1, self.norm2 = LayerNorm(size, eps=eps, device=device), LayerNorm(size, eps=eps, device=device)
        self.up, self.down = Linear(size, inner, **small), Linear(inner, size, **small)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor[B], key_mask: Bools[B] | None) -> Tensor[B]:
        """Map x (N, T, size) to the same shape."""
        x = self.norm1(x + self.dropout(self.attention(x, key_mask=key_mask)))
        return self.norm2(x + self.dropout(self.down(activation(self.activation)(self.up(x)))))

    def torch_names(self) -> dict[str, Any]:
        """Map paths to transformers' names: see `burnpy.record.torch_weights`."""
        sizes = dict.fromkeys([f"attention.self.{part}" for part in ("query", "key", "value")], self.attention.size)
        return {
            **projections(sizes),
            "attention.out_proj": "attention.output.dense",
            "norm1": "attention.output.LayerNorm",
            "up": "intermediate.dense",
            "down": "output.dense",
            "norm2": "output.LayerNorm",
        }


class Bert(Pretrained[B]):
    """BERT's encoder, which maps tokens to hidden states.

    Args:
        config: the options.
        pooler: whether the model has the weights of `pooled`.
        device: the device of the model.
        generator: the source of random initial values.

    >>> config = BertConfig(
    ...     vocab_size=50, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16
    ... )
    >>> model = Bert(config, device=NumPy)
    >>> hidden = model(IntTensor[NumPy].from_data([[3, 1, 4]]))
    >>> hidden.shape, model.pooled(hidden).shape
    ((1, 3, 8), (1, 8))
    """

    config: BertConfig
    _config = BertConfig
    _prefix = "bert."
    _heads = ("cls.", "classifier.", "qa_outputs.")

    def __init__(
        self, config: BertConfig, *, pooler: bool = True, device: B | type[B], generator: Generator | None = None
    ) -> None:
        size = config.hidden_size
        small: Any = {"device": device, "initializer": Normal(0.0, 0.02), "generator": generator}
        self.config = config
        self.tokens = Embedding(config.vocab_size, size, padding_idx=config.pad_token_id, **small)
        self.places = Embedding(config.max_position_embeddings, size, **small)
        self.types = Embedding(config.type_vocab_size, size, **small)
        self.norm = LayerNorm(size, eps=config.layer_norm_eps, device=device)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.layers = [Layer(config, device, generator) for _ in range(config.num_hidden_layers)]
        self.pooler = Linear(size, size, **small) if pooler else None

    def forward(
        self, tokens: Ints[B], *, key_mask: Bools[B] | None = None, token_types: Ints[B] | None = None
    ) -> Tensor[B]:
        """Return the hidden state of each token after the last layer.

        Args:
            tokens: shape (N, T).
            key_mask: shape (N, T), false for padding, which no token attends to.
            token_types: shape (N, T), such as 0 for the first of two texts and 1 for the second; 0 by default.

        Returns:
            Shape (N, T, hidden_size).

        Raises:
            ShapeError: the shapes do not match, or there is no token.
            ArgumentError: there are more than ``max_position_embeddings`` tokens.
        """
        ids: Any = tokens
        given: Any
        for name, given in (("tokens", ids), ("token_types", ids if token_types is None else token_types)):
            if not isinstance(given, IntTensor):
                raise KindError(f"Bert takes an IntTensor as {name}, got {a(type(given).__name__)}")
            if given.ndim != 2 or not given.shape[1] or given.shape != ids.shape:
                raise ShapeError(f"Bert takes {name} of shape (N, T) with at least one token, got shape {given.shape}")
        length = ids.shape[1]
        if length > self.config.max_position_embeddings:
            raise ArgumentError(f"Bert takes up to {self.config.max_position_embeddings} tokens, got {length}")
        kinds = self.types.weight.value[0] if token_types is None else self.types(token_types)
        x = self.dropout(self.norm(self.tokens(tokens) + kinds + self.places.weight.value[:length]))
        for layer in self.layers:
            x = layer(x, key_mask)
        return x

    @explained
    def pooled(self, hidden: Tensor[B]) -> Tensor[B]:
        """Return a vector for each text, (N, hidden_size), of the hidden state of its first token.

        Raises:
            ArgumentError: the model has no pooler, as its file has none.
        """
        if self.pooler is None:
            raise ArgumentError("pooled() got a Bert without a pooler; take hidden[:, 0], or train one: Bert(config)")
        return self.pooler(hidden[:, 0]).tanh()

    @classmethod
    @explained
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, device: B2 | type[B2], dtype: DTypeLike | None = None
    ) -> Bert[B2]:
        """Read a folder of transformers, of ``BertModel`` or one with a head, which is left out."""
        model: Bert[B2] = pretrained(cls, folder, device, dtype)
        return model

    @classmethod
    def _of(cls, config: BertConfig, device: B2 | type[B2]) -> Bert[B2]:
        architectures = config.others.get("architectures") or ()
        return Bert(config, pooler=not set(architectures) & set(_WITHOUT_POOLER), device=device)

    def torch_names(self) -> dict[str, str]:
        """Map paths to transformers' names: see `burnpy.record.torch_weights`."""
        return {
            "tokens": "embeddings.word_embeddings",
            "places": "embeddings.position_embeddings",
            "types": "embeddings.token_type_embeddings",
            "norm": "embeddings.LayerNorm",
            "layers": "encoder.layer",
            "pooler": "pooler.dense",
        }

    def valid(self: Bert[Autodiff[I]]) -> Bert[I]:
        """Return the same model on the inner backend."""
        return rebound(self)


class BertClassifier(Pretrained[B]):
    """BERT with a classifier of texts.

    Args:
        config: the options.
        device: the device of the model.
        generator: the source of random initial values.
    """

    config: BertConfig
    _config = BertConfig

    def __init__(self, config: BertConfig, *, device: B | type[B], generator: Generator | None = None) -> None:
        small: Any = {"device": device, "initializer": Normal(0.0, 0.02), "generator": generator}
        p = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.config = config
        self.bert = Bert(config, device=device, generator=generator)
        self.dropout = Dropout(p)
        self.classifier = Linear(config.hidden_size, len(config.labels), **small)

    def forward(
        self, tokens: Ints[B], *, key_mask: Bools[B] | None = None, token_types: Ints[B] | None = None
    ) -> Tensor[B]:
        """Map tokens (N, T) to logits (N, labels); arguments and errors are those of `Bert.forward`."""
        hidden = self.bert(tokens, key_mask=key_mask, token_types=token_types)
        return self.classifier(self.dropout(self.bert.pooled(hidden)))

    @classmethod
    @explained
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, device: B2 | type[B2], dtype: DTypeLike | None = None
    ) -> BertClassifier[B2]:
        """Read a folder of transformers' ``BertForSequenceClassification``."""
        model: BertClassifier[B2] = pretrained(cls, folder, device, dtype)
        return model

    def _architecture(self) -> str:
        return "BertForSequenceClassification"

    def valid(self: BertClassifier[Autodiff[I]]) -> BertClassifier[I]:
        """Return the same model on the inner backend."""
        return rebound(self)
