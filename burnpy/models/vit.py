"""ViT, a transformer for images. Source: Dosovitskiy et al., An Image is Worth 16x16 Words, 2021."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from burnpy.backend.errors import ShapeError
from burnpy.models.pretrained import Activation, LabelledConfig, Pretrained, activation, pretrained, projections
from burnpy.nn.init import TruncatedNormal
from burnpy.nn.layers.convolution import Conv2d
from burnpy.nn.layers.dropout import Dropout
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.multi_head_attention import MultiHeadAttention
from burnpy.nn.layers.normalization import LayerNorm
from burnpy.nn.module import Module, rebound
from burnpy.nn.param import Param
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import cat
from burnpy.typevars import B2, B, I

if TYPE_CHECKING:
    import os

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.tensor.tensor import Tensor


@dataclass(frozen=True, kw_only=True)
class VitConfig(LabelledConfig):
    """The options of `Vit`, with transformers' names and defaults, which are those of ViT-B/16."""

    architectures: ClassVar = {"vit": "ViTForImageClassification"}
    harmless: ClassVar = "encoder_stride, pooler_act, pooler_output_size"

    image_size: int | tuple[int, ...] = 224  #: height and width of images
    patch_size: int | tuple[int, ...] = 16  #: height and width of patches
    num_channels: int = 3
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072  #: the hidden size of feed-forward networks
    hidden_act: Activation = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    layer_norm_eps: float = 1e-12
    qkv_bias: Literal[True] = True  #: the projections to queries, keys and values have a bias

    @property
    def image(self) -> tuple[int, ...]:
        """Height and width of images."""
        return (self.image_size,) * 2 if isinstance(self.image_size, int) else self.image_size

    @property
    def patch(self) -> tuple[int, ...]:
        """Height and width of patches."""
        return (self.patch_size,) * 2 if isinstance(self.patch_size, int) else self.patch_size


class Layer(Module[B]):
    """Attention and a feed-forward network, each after a layer norm and added to its input."""

    def __init__(self, config: VitConfig, device: B | type[B], generator: Generator | None) -> None:
        size, inner, eps = config.hidden_size, config.intermediate_size, config.layer_norm_eps
        small: Any = {"device": device, "initializer": TruncatedNormal(0.0, 0.02), "generator": generator}
        self.activation: Activation = config.hidden_act
        self.norm1, self.norm2 = LayerNorm(size, eps=eps, device=device), LayerNorm(size, eps=eps, device=device)
        self.attention = MultiHeadAttention(
            size, config.num_attention_heads, dropout=config.attention_probs_dropout_prob, **small
        )
        self.up, self.down = Linear(size, inner, **small), Linear(inner, size, **small)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Map x (N, T, size) to the same shape."""
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.down(activation(self.activation)(self.up(self.norm2(x)))))

    def torch_names(self) -> dict[str, Any]:
        """Map paths to transformers' names: see `burnpy.record.torch_weights`."""
        sizes = dict.fromkeys(
            [f"attention.attention.{part}" for part in ("query", "key", "value")], self.attention.size
        )
        return {
            **projections(sizes),
            "attention.out_proj": "attention.output.dense",
            "norm1": "layernorm_before",
            "norm2": "layernorm_after",
            "up": "intermediate.dense",
            "down": "output.dense",
        }


class Vit(Pretrained[B]):
    """ViT for the classification of images.

    Args:
        config: the options.
        device: the device of the model.
        generator: the source of random initial values.

    Raises:
        ShapeError: the patches do not divide the images.

    >>> config = VitConfig(
    ...     image_size=8, patch_size=4, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16
    ... )
    >>> Vit(config, device=NumPy)(Tensor[NumPy].ones((2, 3, 8, 8))).shape
    (2, 2)
    """

    config: VitConfig
    _config = VitConfig

    def __init__(self, config: VitConfig, *, device: B | type[B], generator: Generator | None = None) -> None:
        size, (height, width), (rows, columns) = config.hidden_size, config.image, config.patch
        if height % rows or width % columns:
            raise ShapeError(f"Vit has patches of {config.patch}, which do not divide images of {config.image}")
        small: Any = {"device": device, "initializer": TruncatedNormal(0.0, 0.02), "generator": generator}
        initial, count = TruncatedNormal(0.0, 0.02), height // rows * (width // columns)
        self.config = config
        self.first = Param(initial((1, 1, size), device=device, generator=generator))
        self.places = Param(initial((1, 1 + count, size), device=device, generator=generator))
        self.patches = Conv2d(config.num_channels, size, config.patch, stride=config.patch, **small)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.layers = [Layer(config, device, generator) for _ in range(config.num_hidden_layers)]
        self.norm = LayerNorm(size, eps=config.layer_norm_eps, device=device)
        self.classifier = Linear(size, len(config.labels), **small)

    def features(self, images: Tensor[B]) -> Tensor[B]:
        """Return the hidden states after the last layer, of a first token and of each patch, row by row.

        Args:
            images: shape (N, channels, height, width), of the config's sizes.

        Returns:
            Shape (N, 1 + patches, hidden_size).

        Raises:
            ShapeError: the images have another shape.
        """
        expected = (self.config.num_channels, *self.config.image)
        if images.ndim != 4 or images.shape[1:] != expected:
            raise ShapeError(f"Vit takes images of shape {('N', *expected)}, got shape {images.shape}".replace("'", ""))
        patches = self.patches(images).flatten(2).transpose(1, 2)
        first = self.first.value.broadcast_to((images.shape[0], 1, self.config.hidden_size))
        x = self.dropout(cat([first, patches], 1) + self.places.value)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def forward(self, images: Tensor[B]) -> Tensor[B]:
        """Map images (N, channels, height, width) to logits (N, labels)."""
        return self.classifier(self.features(images)[:, 0])

    @classmethod
    @explained
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, device: B2 | type[B2], dtype: DTypeLike | None = None
    ) -> Vit[B2]:
        """Read a folder of transformers' ``ViTForImageClassification``: see `burnpy.models.pretrained`."""
        model: Vit[B2] = pretrained(cls, folder, device, dtype)
        return model

    _later_names: ClassVar = {
        "vit.encoder.layer.": "vit.layers.",
        ".attention.attention.query": ".attention.q_proj",
        ".attention.attention.key": ".attention.k_proj",
        ".attention.attention.value": ".attention.v_proj",
        ".attention.output.dense": ".attention.o_proj",
        ".intermediate.dense": ".mlp.fc1",
        ".output.dense": ".mlp.fc2",
    }
    """The names in memory since transformers 5, which adapters have, by those of files."""

    def torch_names(self) -> dict[str, str]:
        """Map paths to transformers' names: see `burnpy.record.torch_weights`."""
        return {
            "first": "vit.embeddings.cls_token",
            "places": "vit.embeddings.position_embeddings",
            "patches": "vit.embeddings.patch_embeddings.projection",
            "layers": "vit.encoder.layer",
            "norm": "vit.layernorm",
        }

    def valid(self: Vit[Autodiff[I]]) -> Vit[I]:
        """Return the same model on the inner backend."""
        return rebound(self)
