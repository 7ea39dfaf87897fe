"""``python -m burnpy_numpy.warm``: compile the kernels that are common to most models, so that no training step waits.

It trains and runs a tiny model of each kind in float32 and float64, with every optimizer. A kernel's code depends on
the processor and on the sizes of blocks, which typical channels and widths give: other sizes compile theirs when they
first run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from burnpy import Autodiff, IntTensor, Tensor, cross_entropy, linalg, nn, optim
from burnpy.nn import functional
from burnpy_numpy.backend import NumPy
from burnpy_numpy.cpu_threads import compile_pool
from burnpy_numpy.kernels import kernel
from burnpy_numpy.kernels.compiler.target import folder

Train: TypeAlias = Autodiff[NumPy]
CLASSES, BATCH = 10, 8
DTYPES = ("float32", "float64")


def pictures(channels: int, pixels: int) -> nn.Sequential[Train]:
    """Return the layers of convolutional networks: residual, depthwise, transposed, with their norms and pools."""

    def norm(count: int) -> nn.BatchNorm[Train]:
        return nn.BatchNorm(count, device=Train)

    def convolution(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Conv2d[Train]:
        options: Any = {"stride": stride, "padding": size // 2, "groups": groups, "bias": False}
        return nn.Conv2d(inputs, outputs, size, **options, device=Train)

    wide = 2 * channels
    layers: list[Any] = [
        *(convolution(3, channels, 3), norm(channels), nn.Relu()),
        *(convolution(channels, channels, 3), norm(channels), nn.Relu6()),
        *(convolution(channels, channels, 3, 1, channels), norm(channels), nn.Relu6()),
        *(convolution(channels, wide, 3, 2), norm(wide), nn.Relu()),
        *(convolution(wide, wide, 3, 1, wide), norm(wide), nn.Silu()),
        *(convolution(wide, wide, 3, 2, wide), nn.GroupNorm(4, wide, device=Train), nn.Relu()),
        *(convolution(wide, channels, 1), nn.InstanceNorm(channels, device=Train), nn.Relu()),
        *(nn.ConvTranspose2d(channels, channels, 2, stride=2, device=Train), nn.Relu()),
    ]
    if pixels >= 16:
        layers += [nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=False)]
        layers += [nn.MaxPool2d(3, stride=2, padding=1), nn.AvgPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES, device=Train))


def rows() -> nn.Sequential[Train]:
    """Return fully connected layers with the common activations and norms."""
    activations = [nn.Relu(), nn.Gelu(), nn.Gelu("tanh"), nn.Silu(), nn.Sigmoid(), nn.Tanh(), nn.Softplus(), nn.Elu()]
    activations += [nn.LeakyRelu(), nn.Mish(), nn.Hardswish(), nn.Dropout(0.1)]
    layers: list[Any] = [nn.Linear(64, 512, device=Train), nn.LayerNorm(512, device=Train), *activations]
    layers += [nn.RmsNorm(512, device=Train), nn.BatchNorm(512, device=Train), nn.Softmax(dim=1), nn.LogSoftmax(dim=1)]
    return nn.Sequential(*layers, nn.Linear(512, CLASSES, device=Train))


class Recurrent(nn.Module[Train]):
    """A recurrent layer of each kind, and a linear layer on the last outputs."""

    def __init__(self) -> None:
        self.layers = [layer(32, 64, device=Train) for layer in (nn.Lstm, nn.Gru, nn.Rnn)]
        self.logits = nn.Linear(64, CLASSES, device=Train)

    def forward(self, x: Tensor[Train]) -> Tensor[Train]:
        outputs = [layer(x)[0][:, -1] for layer in self.layers]
        return self.logits(outputs[0] + outputs[1] + outputs[2])


class Transformer(nn.Module[Train]):
    """A transformer that predicts the next element, and one that sees all of them."""

    def __init__(self) -> None:
        def encoder(heads: int, activation: Any, dropout: float) -> nn.TransformerEncoder[Train]:
            sizes: dict[str, Any] = {"feedforward": 256, "activation": activation, "dropout": dropout}
            return nn.TransformerEncoder(1, 64, heads, **sizes, device=Train)

        self.embedding = nn.Embedding(96, 64, device=Train)
        self.causal, self.seeing = encoder(2, "gelu", 0.0), encoder(4, "relu", 0.1)
        self.logits = nn.Linear(64, CLASSES, device=Train)

    def forward(self, text: IntTensor[Train]) -> Tensor[Train]:
        x = self.causal(self.embedding(text), causal=True)
        return self.logits(self.seeing(x)).mean(dim=1)


def models(dtype: str) -> Iterator[tuple[Any, Any]]:
    """Return each model with its inputs, in a dtype."""

    def drawn(*shape: int) -> Tensor[Train]:
        return Tensor[Train].normal(shape).to_dtype(dtype)

    for channels, pixels in ((16, 32), (64, 16), (64, 8)):
        yield pictures(channels, pixels), drawn(BATCH, 3, pixels, pixels)
    yield rows(), drawn(BATCH, 64)
    yield Recurrent(), drawn(BATCH, 16, 32)
    yield Transformer(), IntTensor[Train].randint(0, 96, (BATCH, 64))


OPTIMIZERS: tuple[Callable[[], optim.Optimizer], ...] = (
    optim.Sgd,
    lambda: optim.Sgd(momentum=0.9),
    lambda: optim.Sgd(momentum=0.9, nesterov=True, weight_decay=1e-4),
    *(optim.Adam, optim.AdamW, optim.Adamax, optim.NAdam, optim.RAdam),
    *(optim.AdaGrad, optim.AdaDelta, optim.RmsProp, optim.Lion, optim.Lamb, optim.Adafactor, optim.Asgd, optim.Rprop),
)


PLANES = (4, 7, 8, 14, 16, 28, 32, 56, 64, 112, 128)
"""The usual heights and widths of pictures inside of networks. They decide the blocks of convolutions and pools."""


def windows(dtype: str) -> Iterator[Tensor[Train]]:
    """Return convolutions and pools of planes of all usual sizes, to be differentiated."""
    for pixels in PLANES:
        x = Tensor[Train].normal((4 if pixels < 56 else 1, 64, pixels, pixels)).to_dtype(dtype).require_grad()
        weight = Tensor[Train].normal((64, 64, 3, 3)).to_dtype(dtype).require_grad()
        depthwise = Tensor[Train].normal((64, 1, 3, 3)).to_dtype(dtype).require_grad()
        for stride in (1, 2):
            yield functional.conv2d(x, weight, stride=stride, padding=1).sum()
            yield functional.conv2d(x, depthwise, stride=stride, padding=1, groups=64).sum()
        yield functional.max_pool2d(x, 2).sum() + functional.avg_pool2d(x, 2).sum()


def functions(dtype: str) -> Iterator[Tensor[Train]]:
    """Return results of functions that no layer above calls, to be differentiated."""
    x = Tensor[Train].normal((64, 96)).to_dtype(dtype).require_grad()
    y = Tensor[Train].normal((64, 96)).to_dtype(dtype)
    index = IntTensor[Train].randint(0, 64, (512,))
    yield functional.smooth_l1_loss(x, y) + functional.huber_loss(x, y)
    yield functional.binary_cross_entropy_with_logits(x, y.sigmoid()) + x.norm()
    yield x.cumsum(dim=1).sum() + x.cumprod(dim=1).sum() + x.logsumexp(dim=1).sum() + x[index].square().sum()
    yield x.exp().log1p().sum() + x.clamp(-1.0, 1.0).tanh().sum()
    square = x[:, :8] @ x[:, :8].mT + Tensor[Train].eye(64).to_dtype(dtype) * 100.0
    yield linalg.cholesky(square[:8, :8]).sum()


def run(dtype: str) -> None:
    """Train and run all models in a dtype."""
    for model, inputs in models(dtype):
        model = model.astype(dtype)
        labels = IntTensor[Train].randint(0, CLASSES, (BATCH,))
        grads = optim.GradientsParams.from_grads(cross_entropy(model(inputs), labels).backward(), model)
        model = optim.Adam().step(1e-3, model, optim.clip_by_global_norm(grads, 1.0))
        model.valid()(inputs.inner())
    for result in chain(windows(dtype), functions(dtype)):
        result.backward()
    for make in OPTIMIZERS:
        layer = nn.Linear(64, 64, device=Train).astype(dtype)
        loss = layer(Tensor[Train].ones((BATCH, 64)).to_dtype(dtype)).square().sum()
        make().step(1e-3, layer, loss.backward())


def _kept(place: Path) -> int:
    """Return the number of kernels in a folder."""
    return sum(path.name[0] != "." for path in place.iterdir())


def main() -> int:
    """Compile the kernels, and return the exit status: 1 if compiling fails or nothing can be kept on the disk."""
    os.environ["BURNPY_PROGRESS"] = "0"  # the last line says it
    start, place = perf_counter(), folder()
    before = 0 if place is None else _kept(place)
    reason = kernel.reason()  # which compiles how Python calls kernels
    if reason is not None:
        sys.stdout.write(f"No kernels to compile: {reason}. burnpy computes with NumPy.\n")
        return 0 if kernel.failure() is None else 1
    if place is None:
        sys.stdout.write("Kernels cannot be kept: the folder cannot be made, or others may write to it.\n")
        return 1
    compile_pool()
    for dtype in DTYPES:
        run(dtype)
    seconds, kept = perf_counter() - start, _kept(place)
    sys.stdout.write(f"Compiled {kept - before} kernels in {seconds:.1f} s. There are {kept} in {place}.\n")
    return 0 if kernel.failure() is None else 1


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m burnpy_numpy.warm",
        description="Compile the kernels that are common to most models, and keep them on the disk.",
    ).parse_args()
    sys.exit(main())
