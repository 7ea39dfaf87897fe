"""ResNet, the residual networks for images. Source: He et al., Deep Residual Learning for Image Recognition, 2015.

Parameters have torchvision's names, so that `burnpy.record.from_torch` reads its files as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from burnpy.backend.errors import ArgumentError
from burnpy.models.pretrained import Activation, LabelledConfig, Pretrained, activation, pretrained
from burnpy.nn.init import KaimingNormal
from burnpy.nn.layers.batch_normalization import BatchNorm
from burnpy.nn.layers.convolution import Conv2d
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.max_pooling import MaxPool2d
from burnpy.nn.module import Module, rebound
from burnpy.record.torch_weights import torch_names
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B2, B, I

if TYPE_CHECKING:
    import os

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.tensor.tensor import Tensor

_DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


@dataclass(frozen=True, kw_only=True)
class ResNetConfig(LabelledConfig):
    """The options of `ResNet`, with transformers' names and defaults, which are those of ResNet-50.

    >>> ResNetConfig.of_depth(18, labels=["cat", "dog"]).hidden_sizes
    (64, 128, 256, 512)
    """

    architectures: ClassVar = {"resnet": "ResNetForImageClassification"}
    harmless: ClassVar = "out_features, out_indices, stage_names"

    num_channels: int = 3  #: channels of the images
    embedding_size: int = 64  #: channels after the first convolution
    hidden_sizes: tuple[int, ...] = (256, 512, 1024, 2048)  #: channels of each stage
    depths: tuple[int, ...] = (3, 4, 6, 3)  #: blocks of each stage
    layer_type: Literal["basic", "bottleneck"] = "bottleneck"  #: two 3 × 3 convolutions a block, or 1 × 1, 3 × 3, 1 × 1
    hidden_act: Activation = "relu"
    downsample_in_first_stage: bool = False  #: whether the first stage halves the images
    downsample_in_bottleneck: bool = False  #: whether a block halves them in its first convolution, not the second

    @classmethod
    @explained
    def of_depth(cls, depth: int, labels: Sequence[str] | None = None) -> Self:
        """Return the config of ResNet-18, 34, 50, 101 or 152.

        Args:
            depth: the number of layers with weights.
            labels: the names of the classes; by default those of ImageNet are numbered.

        Raises:
            ArgumentError: there is no ResNet of this depth.
        """
        if depth not in _DEPTHS:
            raise ArgumentError(f"of_depth() got {depth!r:.40}; expected {', '.join(map(str, _DEPTHS))}")
        basic = depth < 50
        return cls(
            layer_type="basic" if basic else "bottleneck",
            hidden_sizes=(64, 128, 256, 512) if basic else (256, 512, 1024, 2048),
            depths=_DEPTHS[depth],
            labels=tuple(map(str, range(1000))) if labels is None else tuple(labels),
        )


class Block(Module[B]):
    """Convolutions with batch norms, around which a shortcut leads."""

    def __init__(
        self,
        config: ResNetConfig,
        inputs: int,
        size: int,
        stride: int,
        device: B | type[B],
        generator: Generator | None,
    ) -> None:
        narrow = size // 4
        plan = [(inputs, size, 3, stride), (size, size, 3, 1)]  # inputs, outputs, kernel, stride
        if config.layer_type == "bottleneck":
            first, second = (stride, 1) if config.downsample_in_bottleneck else (1, stride)
            plan = [(inputs, narrow, 1, first), (narrow, narrow, 3, second), (narrow, size, 1, 1)]
        self.activation: Activation = config.hidden_act
        self.convs = [convolution(*sizes, device=device, generator=generator) for sizes in plan]
        self.norms = [BatchNorm(sizes[1], device=device) for sizes in plan]
        self.shortcut: tuple[Conv2d[B], BatchNorm[B]] | None = None
        if inputs != size or stride != 1:
            matching = convolution(inputs, size, 1, stride, device=device, generator=generator)
            self.shortcut = matching, BatchNorm(size, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Map images to images with the channels and stride of the block."""
        y = x
        for k, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = norm(conv(y.relu() if k else y))  # the option is for sums, as in transformers
        if self.shortcut is not None:
            conv, norm = self.shortcut
            x = norm(conv(x))
        return activation(self.activation)(y + x)

    def torch_names(self) -> dict[str, str]:
        """Map paths to torchvision's names: see `burnpy.record.torch_weights`."""
        numbers = range(len(self.convs))
        names = {f"convs.{k}": f"conv{k + 1}" for k in numbers} | {f"norms.{k}": f"bn{k + 1}" for k in numbers}
        return names | {"shortcut": "downsample"}


class ResNet(Pretrained[B]):
    """ResNet for the classification of images.

    Args:
        config: the options.
        device: the device of the model.
        generator: the source of random initial values.

    >>> config = ResNetConfig(embedding_size=4, hidden_sizes=(8, 16), depths=(1, 2))
    >>> model = ResNet(config, device=NumPy)
    >>> model(Tensor[NumPy].ones((2, 3, 32, 32))).shape
    (2, 2)
    """

    config: ResNetConfig
    _config = ResNetConfig

    def __init__(self, config: ResNetConfig, *, device: B | type[B], generator: Generator | None = None) -> None:
        self.config = config
        self.conv1 = convolution(config.num_channels, config.embedding_size, 7, 2, device=device, generator=generator)
        self.bn1 = BatchNorm(config.embedding_size, device=device)
        self.maxpool = MaxPool2d(3, stride=2, padding=1)
        stages: list[list[Block[B]]] = []
        inputs = config.embedding_size
        for k, (size, depth) in enumerate(zip(config.hidden_sizes, config.depths, strict=True)):
            first = 2 if k or config.downsample_in_first_stage else 1
            strides = [first] + [1] * (depth - 1)
            stages.append(
                [Block(config, size if j else inputs, size, s, device, generator) for j, s in enumerate(strides)]
            )
            inputs = size
        self.stages = stages
        self.fc = Linear(inputs, len(config.labels), device=device, generator=generator)

    def features(self, images: Tensor[B]) -> tuple[Tensor[B], ...]:
        """Return the images (N, channels, height, width) after the first layers and after each stage.

        After the first layers height and width are a quarter.
        """
        x = self.maxpool(activation(self.config.hidden_act)(self.bn1(self.conv1(images))))
        outputs = [x]
        for stage in self.stages:
            for block in stage:
                x = block(x)
            outputs.append(x)
        return tuple(outputs)

    def forward(self, images: Tensor[B]) -> Tensor[B]:
        """Map images (N, channels, height, width) to logits (N, labels)."""
        return self.fc(self.features(images)[-1].mean(dim=(2, 3)))

    @classmethod
    @explained
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, device: B2 | type[B2], dtype: DTypeLike | None = None
    ) -> ResNet[B2]:
        """Read a folder of transformers' ``ResNetForImageClassification``: see `burnpy.models.pretrained`."""
        model: ResNet[B2] = pretrained(cls, folder, device, dtype)
        return model

    def torch_names(self) -> dict[str, str]:
        """Map paths to torchvision's names: see `burnpy.record.torch_weights`."""
        return {f"stages.{k}": f"layer{k + 1}" for k in range(len(self.stages))}

    def _file_names(self) -> dict[str, str]:
        return {parts[0].name: _in_transformers(path) for path, parts in torch_names(self).items()}

    def valid(self: ResNet[Autodiff[I]]) -> ResNet[I]:
        """Return the same model on the inner backend."""
        return rebound(self)


def convolution(
    inputs: int, outputs: int, kernel: int, stride: int, *, device: B | type[B], generator: Generator | None
) -> Conv2d[B]:
    """Return a convolution that keeps the size of images, divided by its stride."""
    return Conv2d(
        inputs,
        outputs,
        kernel,
        stride=stride,
        padding=kernel // 2,
        bias=False,
        device=device,
        initializer=KaimingNormal(mode="fan_out"),
        generator=generator,
    )


_NAMES = (
    (r"^conv1\.", "resnet.embedder.embedder.convolution."),
    (r"^bn1\.", "resnet.embedder.embedder.normalization."),
    (r"^stages\.(\d+)\.(\d+)\.convs\.(\d)\.", r"resnet.encoder.stages.\1.layers.\2.layer.\3.convolution."),
    (r"^stages\.(\d+)\.(\d+)\.norms\.(\d)\.", r"resnet.encoder.stages.\1.layers.\2.layer.\3.normalization."),
    (r"^stages\.(\d+)\.(\d+)\.shortcut\.0\.", r"resnet.encoder.stages.\1.layers.\2.shortcut.convolution."),
    (r"^stages\.(\d+)\.(\d+)\.shortcut\.1\.", r"resnet.encoder.stages.\1.layers.\2.shortcut.normalization."),
    (r"^fc\.", "classifier.1."),
)


def _in_transformers(path: str) -> str:
    for pattern, name in _NAMES:
        path = re.sub(pattern, name, path)
    return path
