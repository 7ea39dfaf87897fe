"""ResNet, MobileNetV2 and U-Net as modules of burnpy, as a user writes them; see `benchmarks.full_size`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from burnpy import Tensor, cat
from burnpy.nn import (
    AdaptiveAvgPool2d,
    BatchNorm,
    Conv2d,
    ConvTranspose2d,
    Flatten,
    Identity,
    Linear,
    MaxPool2d,
    Module,
    Relu,
    Relu6,
    Sequential,
    Stateless,
)
from burnpy.typevars import B


def _convolution(
    inputs: int, outputs: int, size: int, device: B | type[B], *, stride: int = 1, groups: int = 1
) -> Conv2d[B]:
    """Return a convolution without a bias, as a norm follows it."""
    return Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=False, device=device)


def _shortcut(inputs: int, outputs: int, stride: int, device: B | type[B]) -> Sequential[B]:
    """Return the path around a block: a convolution and a norm if its shape changes."""
    if stride == 1 and inputs == outputs:
        return Sequential()
    return Sequential(_convolution(inputs, outputs, 1, device, stride=stride), BatchNorm(outputs, device=device))


class BasicBlock(Module[B]):
    """Two convolutions of 3 × 3, and the path around them."""

    def __init__(self, inputs: int, width: int, stride: int, device: B | type[B]) -> None:
        self.conv1, self.bn1 = _convolution(inputs, width, 3, device, stride=stride), BatchNorm(width, device=device)
        self.conv2, self.bn2 = _convolution(width, width, 3, device), BatchNorm(width, device=device)
        self.downsample = _shortcut(inputs, width, stride, device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        out = self.bn1(self.conv1(x)).relu()
        return (self.bn2(self.conv2(out)) + self.downsample(x)).relu()


class Bottleneck(Module[B]):
    """Convolutions of 1 × 1, 3 × 3 and 1 × 1 to four times the width, and the path around them."""

    def __init__(self, inputs: int, width: int, stride: int, device: B | type[B]) -> None:
        self.conv1, self.bn1 = _convolution(inputs, width, 1, device), BatchNorm(width, device=device)
        self.conv2, self.bn2 = _convolution(width, width, 3, device, stride=stride), BatchNorm(width, device=device)
        self.conv3, self.bn3 = _convolution(width, 4 * width, 1, device), BatchNorm(4 * width, device=device)
        self.downsample = _shortcut(inputs, 4 * width, stride, device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        out = self.bn1(self.conv1(x)).relu()
        out = self.bn2(self.conv2(out)).relu()
        return (self.bn3(self.conv3(out)) + self.downsample(x)).relu()


class ResNet(Module[B]):
    """A residual network (He et al., 2015) of four stages, whose later ones begin with a stride of 2.

    For pictures of 32 × 32 pixels it begins with a convolution of 3 × 3 at full size, for larger ones with one of 7 × 7
    and a pool, each of stride 2.
    """

    def __init__(
        self, device: B | type[B], blocks: Sequence[int], bottleneck: bool, large: bool, width: int, classes: int
    ) -> None:
        block, expansion = (Bottleneck, 4) if bottleneck else (BasicBlock, 1)
        self.conv1 = _convolution(3, width, 7 if large else 3, device, stride=2 if large else 1)
        self.bn1 = BatchNorm(width, device=device)
        self.maxpool = MaxPool2d(3, stride=2, padding=1) if large else Identity()
        stages, inputs = [], width
        for stage, count in enumerate(blocks):
            outputs, layers = width << stage, []
            for k in range(count):
                layers.append(block(inputs, outputs, 2 if stage and not k else 1, device))
                inputs = expansion * outputs
            stages.append(Sequential(*layers))
        self.stages = Sequential(*stages)
        self.head: Sequential[B] = Sequential(AdaptiveAvgPool2d(1), Flatten())
        self.fc = Linear(inputs, classes, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        return self.fc(self.head(self.stages(x)))


class InvertedResidual(Module[B]):
    """A convolution of 1 × 1 to more channels, a depthwise one, and one of 1 × 1 to few, with a sum if shapes allow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int, device: B | type[B]) -> None:
        wide = inputs * expansion
        layers: list[Module[B] | Stateless] = [_convolution(inputs, wide, 1, device), BatchNorm(wide, device=device)]
        layers.append(Relu6())
        self.conv = Sequential(
            *(layers if expansion > 1 else []),
            _convolution(wide, wide, 3, device, stride=stride, groups=wide),
            BatchNorm(wide, device=device),
            Relu6(),
            _convolution(wide, outputs, 1, device),
            BatchNorm(outputs, device=device),
        )
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(Module[B]):
    """MobileNetV2 (Sandler et al., 2018), without dropout.

    Args:
        device: the device of the weights.
        stages: for each stage its expansion, channels, number of blocks, and the stride of the first block.
        first: the channels of the first convolution.
        last: the channels of the last one.
        classes: the number of classes.
    """

    def __init__(
        self,
        device: B | type[B],
        stages: Sequence[tuple[int, int, int, int]],
        first: int,
        last: int,
        classes: int,
    ) -> None:
        layers: list[Module[B]] = [
            Sequential(_convolution(3, first, 3, device, stride=2), BatchNorm(first, device=device), Relu6())
        ]
        inputs = first
        for expansion, outputs, count, stride in stages:
            for k in range(count):
                layers.append(InvertedResidual(inputs, outputs, 1 if k else stride, expansion, device))
                inputs = outputs
        layers.append(Sequential(_convolution(inputs, last, 1, device), BatchNorm(last, device=device), Relu6()))
        self.features = Sequential(*layers)
        self.head: Sequential[B] = Sequential(AdaptiveAvgPool2d(1), Flatten())
        self.classifier = Linear(last, classes, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return self.classifier(self.head(self.features(x)))


class UNet(Module[B]):
    """A U-Net (Ronneberger et al., 2015) with batch norms and padded convolutions, which classifies each pixel."""

    def __init__(self, device: B | type[B], channels: Sequence[int], classes: int) -> None:
        def double(inputs: int, outputs: int) -> Sequential[B]:
            return Sequential(
                _convolution(inputs, outputs, 3, device),
                BatchNorm(outputs, device=device),
                Relu(),
                _convolution(outputs, outputs, 3, device),
                BatchNorm(outputs, device=device),
                Relu(),
            )

        steps = [*pairwise(channels)]
        self.first, self.pool = double(3, channels[0]), MaxPool2d(2)
        self.down = [double(a, b) for a, b in steps]
        self.up = [ConvTranspose2d(b, a, 2, stride=2, device=device) for a, b in reversed(steps)]
        self.merge = [double(2 * a, a) for a, _ in reversed(steps)]
        self.logits = Conv2d(channels[0], classes, 1, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        x = self.first(x)
        skipped = []
        for down in self.down:
            skipped.append(x)
            x = down(self.pool(x))
        for up, merge, skip in zip(self.up, self.merge, reversed(skipped), strict=True):
            x = merge(cat([skip, up(x)], dim=1))
        return self.logits(x).permute(0, 2, 3, 1).flatten(0, 2)  # a row for each pixel


MODELS = {"ResNet": ResNet, "MobileNetV2": MobileNetV2, "UNet": UNet}
