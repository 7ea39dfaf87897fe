"""ResNet, MobileNetV2 and U-Net as modules of PyTorch; see `benchmarks.full_size`.

Activations and sums work in place, as in torchvision.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn


def _convolution(inputs: int, outputs: int, size: int, *, stride: int = 1, groups: int = 1) -> Any:
    """Return a convolution without a bias, as a norm follows it."""
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=False)


def _shortcut(inputs: int, outputs: int, stride: int) -> Any:
    """Return the path around a block: a convolution and a norm if its shape changes."""
    if stride == 1 and inputs == outputs:
        return nn.Sequential()
    return nn.Sequential(_convolution(inputs, outputs, 1, stride=stride), nn.BatchNorm2d(outputs))


class BasicBlock(nn.Module):  # type: ignore[misc]  # mypy does not follow imports of torch
    """Two convolutions of 3 × 3, and the path around them."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _convolution(inputs, width, 3, stride=stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _convolution(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = _shortcut(inputs, width, stride)

    def forward(self, x: Any) -> Any:
        out = self.bn1(self.conv1(x)).relu_()
        out = self.bn2(self.conv2(out))
        out += self.downsample(x)
        return out.relu_()


class Bottleneck(nn.Module):  # type: ignore[misc]  # mypy does not follow imports of torch
    """Convolutions of 1 × 1, 3 × 3 and 1 × 1 to four times the width, and the path around them."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _convolution(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _convolution(width, width, 3, stride=stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = _convolution(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.downsample = _shortcut(inputs, 4 * width, stride)

    def forward(self, x: Any) -> Any:
        out = self.bn1(self.conv1(x)).relu_()
        out = self.bn2(self.conv2(out)).relu_()
        out = self.bn3(self.conv3(out))
        out += self.downsample(x)
        return out.relu_()


class ResNet(nn.Module):  # type: ignore[misc]  # mypy does not follow imports of torch
    """A residual network (He et al., 2015) of four stages, whose later ones begin with a stride of 2.

    For pictures of 32 × 32 pixels it begins with a convolution of 3 × 3 at full size, for larger ones with one of 7 × 7
    and a pool, each of stride 2.
    """

    def __init__(self, blocks: Sequence[int], bottleneck: bool, large: bool, width: int, classes: int) -> None:
        super().__init__()
        block, expansion = (Bottleneck, 4) if bottleneck else (BasicBlock, 1)
        self.conv1 = _convolution(3, width, 7 if large else 3, stride=2 if large else 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if large else nn.Identity()
        stages, inputs = [], width
        for stage, count in enumerate(blocks):
            outputs, layers = width << stage, []
            for k in range(count):
                layers.append(block(inputs, outputs, 2 if stage and not k else 1))
                inputs = expansion * outputs
            stages.append(nn.Sequential(*layers))
        self.stages = nn.Sequential(*stages)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.bn1(self.conv1(x)).relu_())
        return self.fc(self.head(self.stages(x)))


class InvertedResidual(nn.Module):  # type: ignore[misc]  # mypy does not follow imports of torch
    """A convolution of 1 × 1 to more channels, a depthwise one, and one of 1 × 1 to few, with a sum if shapes allow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        layers = [_convolution(inputs, wide, 1), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True)]
        self.conv = nn.Sequential(
            *(layers if expansion > 1 else []),
            _convolution(wide, wide, 3, stride=stride, groups=wide),
            nn.BatchNorm2d(wide),
            nn.ReLU6(inplace=True),
            _convolution(wide, outputs, 1),
            nn.BatchNorm2d(outputs),
        )
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Any) -> Any:
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(nn.Module):  # type: ignore[misc]  # mypy does not follow imports of torch
    """MobileNetV2 (Sandler et al., 2018), without dropout.

    Args:
        stages: for each stage its expansion, channels, number of blocks, and the stride of the first block.
        first: the channels of the first convolution.
        last: the channels of the last one.
        classes: the number of classes.
    """

    def __init__(
        self,
        stages: Sequence[tuple[int, int, int, int]],
        first: int,
        last: int,
        classes: int,
    ) -> None:
        super().__init__()
        layers: list[Any] = [
            nn.Sequential(_convolution(3, first, 3, stride=2), nn.BatchNorm2d(first), nn.ReLU6(inplace=True))
        ]
        inputs = first
        for expansion, outputs, count, stride in stages:
            for k in range(count):
                layers.append(InvertedResidual(inputs, outputs, 1 if k else stride, expansion))
                inputs = outputs
        layers.append(nn.Sequential(_convolution(inputs, last, 1), nn.BatchNorm2d(last), nn.ReLU6(inplace=True)))
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(last, classes)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.head(self.features(x)))


class UNet(nn.Module):  # type: ignore[misc]  # mypy does not follow imports of torch
    """A U-Net (Ronneberger et al., 2015) with batch norms and padded convolutions, which classifies each pixel."""

    def __init__(self, channels: Sequence[int], classes: int) -> None:
        super().__init__()

        def double(inputs: int, outputs: int) -> Any:
            return nn.Sequential(
                _convolution(inputs, outputs, 3),
                nn.BatchNorm2d(outputs),
                nn.ReLU(inplace=True),
                _convolution(outputs, outputs, 3),
                nn.BatchNorm2d(outputs),
                nn.ReLU(inplace=True),
            )

        steps = [*pairwise(channels)]
        self.first, self.pool = double(3, channels[0]), nn.MaxPool2d(2)
        self.down = nn.ModuleList(double(a, b) for a, b in steps)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in reversed(steps))
        self.merge = nn.ModuleList(double(2 * a, a) for a, _ in reversed(steps))
        self.logits = nn.Conv2d(channels[0], classes, 1)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        skipped = []
        for down in self.down:
            skipped.append(x)
            x = down(self.pool(x))
        for up, merge, skip in zip(self.up, self.merge, reversed(skipped), strict=True):
            x = merge(torch.cat([skip, up(x)], dim=1))
        return self.logits(x).permute(0, 2, 3, 1).flatten(0, 2)  # a row for each pixel


MODELS = {"ResNet": ResNet, "MobileNetV2": MobileNetV2, "UNet": UNet}
