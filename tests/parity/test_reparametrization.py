"""Weight norm and spectral norm beside PyTorch's: weights from there, outputs, gradients and steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, nn, record
from burnpy.backend import NumPy
from burnpy.optim import Sgd

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

Train = Autodiff[NumPy]

LAYERS: list[tuple[str, Any, tuple[int, ...]]] = [
    ("Linear", (4, 3), (2, 4)),
    ("Conv2d", (4, 6, (3, 2)), (2, 4, 5, 5)),
    ("ConvTranspose1d", (4, 6, 3), (2, 4, 5)),
]


@pytest.mark.parametrize("how", ["weight_norm", "spectral_norm"])
@pytest.mark.parametrize(("name", "args", "shape"), LAYERS)
def test_steps_are_the_same(name: str, args: Any, shape: tuple[int, ...], how: str) -> None:
    torch.manual_seed(0)
    theirs = getattr(torch.nn.utils.parametrizations, how)(getattr(torch.nn, name)(*args).double())
    wrap = nn.WeightNorm if how == "weight_norm" else nn.SpectralNorm
    ours: Any = wrap(getattr(nn, name)(*args, device=Train).astype("float64"))
    ours = record.from_torch(ours, {key: x.clone() for key, x in theirs.state_dict().items()})
    optim, other = Sgd(), torch.optim.SGD(theirs.parameters(), lr=0.1)
    for _ in range(4):
        x = np.random.default_rng(0).standard_normal(shape)
        expected = theirs(torch.from_numpy(x)).square().mean()
        other.zero_grad()
        expected.backward()
        other.step()
        loss = ours(Tensor[Train].from_data(x)).square().mean()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-10)
        ours = optim.step(0.1, ours, loss.backward())
    found = record.to_torch(ours)
    for key, wanted in theirs.state_dict().items():
        np.testing.assert_allclose(found[key], wanted.numpy(), rtol=1e-8, atol=1e-10, err_msg=key)
    out = theirs.eval()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(ours.valid()(Tensor[NumPy].from_data(x)).to_numpy(), out, rtol=1e-8)
