"""Without llvmlite, all layers and functions that have kernels compute by NumPy, arrays of any size."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys

sys.modules["llvmlite"] = None  # as if it were not installed

from burnpy import Autodiff, IntTensor, Tensor, cross_entropy, linalg, nn
from burnpy.backend import NumPy
from burnpy.nn import functional as F
from burnpy.optim import Adam, clip_by_global_norm, clip_by_norm

Train = Autodiff[NumPy]
rows, images = Tensor[Train].normal((64, 96)).require_grad(), Tensor[Train].normal((8, 16, 24, 24)).require_grad()
sequences, square = Tensor[Train].normal((16, 12, 32)).require_grad(), Tensor[Train].normal((40, 8, 8)).require_grad()
index = IntTensor[Train].randint(0, 64, (512,))
grid = Tensor[Train].normal((8, 24, 24, 2)).clamp(-1.0, 1.0)
positive = square @ square.mT + Tensor[Train].eye(8)
losses = [
    *(layer(32, 40, device=Train)(sequences)[0].sum() for layer in (nn.Lstm, nn.Gru, nn.Rnn)),
    nn.Conv2d(16, 24, 3, stride=2, padding=1, device=Train)(images).square().sum(),
    nn.ConvTranspose2d(16, 24, 4, stride=2, padding=1, device=Train)(images).square().sum(),
    *(norm(images).square().sum() for norm in (nn.BatchNorm(16, device=Train), nn.GroupNorm(4, 16, device=Train))),
    nn.LayerNorm(96, device=Train)(rows).square().sum(),
    F.max_pool2d(images, 3, stride=2).sum() + F.avg_pool2d(images, 3).sum() + F.adaptive_max_pool2d(images, 5).sum(),
    F.grid_sample(images, grid, align_corners=False).sum(),
    cross_entropy(rows, index[:64]) + rows.softmax(dim=1).square().sum() + rows.gelu().sum(),
    rows.cumsum(dim=1).sum() + rows.cumprod(dim=1).sum() + rows.cummax(dim=1)[0].sum() + rows.logcumsumexp(dim=0).sum(),
    rows[index].square().sum() + rows.norm(dim=1).sum() + rows.atan2(rows + 3.0).sum(),
    F.scaled_dot_product_attention(sequences, sequences, sequences, causal=True).square().sum(),
    linalg.cholesky(positive).sum() + linalg.solve_triangular(positive, square, upper=False).sum(),
]
for loss in losses:
    assert len(clip_by_global_norm(clip_by_norm(loss.backward(), 1e3), 1.0))
weight = {"weight": Tensor[Train].normal((64, 64)).require_grad()}
Adam().step(0.1, weight, weight["weight"].square().sum().backward())
print("done")
"""


@pytest.mark.slow
def test_everything_with_a_kernel_runs_without_llvmlite() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr
