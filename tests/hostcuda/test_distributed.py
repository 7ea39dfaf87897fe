"""The mean of gradients on a GPU: buckets are made there, and summed in the memory of the host."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hostcuda import simulator

simulator.require()

from burnpy import Autodiff, Tensor  # noqa: E402  # the kit first
from burnpy.backend import CuPy  # noqa: E402
from burnpy.distributed import wires  # noqa: E402
from burnpy.distributed.calls import Alone, Header  # noqa: E402
from burnpy.distributed.reduction import Reduction  # noqa: E402
from burnpy.nn import Linear  # noqa: E402
from burnpy.optim import GradientsParams  # noqa: E402


class Doubled(Alone):
    """Two ranks that do the same: a sum is twice what one has."""

    size = 2

    def open(self, header: Header) -> list[Header]:
        return [header, header]

    def sum(self, array: Any) -> None:
        array *= 2


@pytest.mark.filterwarnings("ignore:gradients travel through the memory of the host")  # there is no NCCL here
@pytest.mark.parametrize("large", [4, 1 << 18])
def test_gradients_of_a_gpu_are_averaged_through_the_host(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = Linear(3, 2, device=Autodiff[CuPy])
    x = Tensor[Autodiff[CuPy]].from_data([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    grads = GradientsParams.from_grads(model(x).sum().backward(), model)
    monkeypatch.setattr(wires, "LARGE", large)
    wires.runs_of.cache_clear()
    mean = Reduction(Doubled()).mean(grads, 2.0)
    wires.runs_of.cache_clear()
    assert mean.device is grads.device
    assert mean["weight"].tolist() == grads["weight"].tolist() == [[5.0, 5.0], [7.0, 7.0], [9.0, 9.0]]
    buckets, layout = grads.flatten()
    assert layout.unflatten(buckets)["bias"].tolist() == [2.0, 2.0]
