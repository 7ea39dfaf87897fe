"""Updates of buffers are returned with the gradients: one per pass, combined as a mean, invisible elsewhere."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.autodiff import checkpoint, no_grad
from burnpy.backend import Backend, NumPy
from burnpy.backend.errors import DeviceError, ModuleError, ShapeError
from burnpy.nn import Buffer, Linear, Module, Param, record_update, stepped

B = TypeVar("B", bound=Backend)
Train = Autodiff[NumPy]


class Meter(Module[B]):
    """A layer that scales its input and records the mean of it."""

    def __init__(self, device: B | type[B]) -> None:
        self.scale = Param(Tensor.full((), 3.0, device=device))
        self.seen = Buffer(Tensor.zeros((2,), device=device))

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return record_update(x * self.scale.value, self.seen, x.mean(dim=0))


def batch(*rows: list[float], device: Any = Train) -> Tensor[Any]:
    return Tensor.from_data(list(rows), device=device)


ONE, TWO = batch([1.0, 2.0], [3.0, 4.0]), batch([7.0, 8.0])


def told(grads: Any, meter: Meter[Any]) -> list[float] | None:
    result = grads.buffer_updates.get(meter.seen.id)
    return None if result is None else result.tolist()


@pytest.fixture
def meter() -> Meter[Any]:
    return Meter(Train)


def test_an_update_comes_out_of_the_backward_pass_and_the_gradient_is_as_without(meter: Meter[Any]) -> None:
    out = meter(ONE)
    grads = (out * out).sum().backward()
    assert told(grads, meter) == [2.0, 3.0, 1.0]
    assert grads[meter.scale.value].item() == pytest.approx(2 * 3.0 * 30.0)
    assert grads.buffer_updates[meter.seen.id].device is NumPy()


@pytest.mark.parametrize("scale", [0.0, 0.5, 1e4])
def test_it_does_not_depend_on_the_gradient(meter: Meter[Any], scale: float) -> None:
    assert told((meter(ONE).sum() * scale).backward(), meter) == [2.0, 3.0, 1.0]


def test_updates_are_none_of_the_gradients(meter: Meter[Any]) -> None:
    grads = meter(ONE).sum().backward()
    assert len(grads) == 1
    assert [leaf.shape for leaf in grads] == [()]
    assert grads.norm().item() == pytest.approx(10.0)
    assert repr(grads).startswith("Gradients(1 leaf")


def test_sums_add_and_scaling_leaves_them(meter: Meter[Any]) -> None:
    one, two = meter(ONE).sum().backward(), meter(TWO).sum().backward()
    assert told(one + two, meter) == [9.0, 11.0, 2.0]
    assert told((one + two) / 2, meter) == [9.0, 11.0, 2.0]
    assert told(0.5 * one, meter) == told(one, meter)
    assert told(one.map(lambda g: g * 0.0), meter) == told(one, meter)
    assert told(one.without([meter.scale.value]), meter) == told(one, meter)
    assert told(one, meter) == [2.0, 3.0, 1.0], "the parts stay as they were"


def test_a_module_that_runs_twice_in_a_pass_says_so_twice(meter: Meter[Any]) -> None:
    assert told((meter(ONE).sum() + meter(TWO).sum()).backward(), meter) == [9.0, 11.0, 2.0]


def test_updates_of_forks_meet_by_id(meter: Meter[Any]) -> None:
    fork: Any = meter.fork()
    grads = meter(ONE).sum().backward() + fork(TWO).sum().backward()
    assert told(grads, meter) == [9.0, 11.0, 2.0]
    together = (meter(ONE).sum() + fork(TWO).sum()).backward()
    assert told(together, meter) == [9.0, 11.0, 2.0]


def test_a_step_applies_the_mean(meter: Meter[Any]) -> None:
    grads = meter(ONE).sum().backward() + meter(TWO).sum().backward()
    after = stepped(meter, {}, grads.buffer_updates)
    assert after.seen.value.tolist() == [4.5, 5.5]
    assert after.seen.id == meter.seen.id
    assert after.seen.device is Train.device()
    assert after.scale is meter.scale
    assert meter.seen.value.tolist() == [0.0, 0.0]
    new = stepped(meter, {meter.scale.id: Tensor[NumPy].full((), 5.0)}, grads.buffer_updates)
    assert (new.scale.value.item(), new.seen.value.tolist()) == (5.0, [4.5, 5.5])


def test_nothing_is_said_on_plain_devices_without_recording_or_frozen(meter: Meter[Any]) -> None:
    valid: Any = meter.valid()
    assert valid(ONE.inner()).device is NumPy()
    with no_grad():
        out = meter(ONE)
    assert not out.is_require_grad()
    assert told((out * meter.scale.value).sum().backward(), meter) is None
    frozen = meter.no_grad("seen")
    grads = frozen(ONE).sum().backward()
    assert told(grads, meter) is None
    assert frozen.scale.value in grads


def test_what_nothing_tracked_goes_into_still_says_it(meter: Meter[Any]) -> None:
    bare = meter.no_grad("scale")
    out = bare(ONE)
    assert out.is_require_grad()
    grads = out.sum().backward()
    assert len(grads) == 0
    assert told(grads, meter) == [2.0, 3.0, 1.0]


def test_a_checkpoint_says_it_once_however_often_it_runs(meter: Meter[Any]) -> None:
    runs: list[int] = []

    def section(x: Tensor[Any]) -> Tensor[Any]:
        runs.append(1)
        return (meter(x).exp() * 2.0).tanh()

    grads = checkpoint(section, ONE).sum().backward()
    assert len(runs) == 2
    assert told(grads, meter) == [2.0, 3.0, 1.0]
    nested = checkpoint(lambda x: checkpoint(section, x) * 2.0, ONE).sum().backward()
    assert told(nested, meter) == [2.0, 3.0, 1.0]


def test_a_graph_that_is_kept_can_be_walked_again(meter: Meter[Any]) -> None:
    loss = meter(ONE).sum()
    first, second = loss.backward(retain_graph=True), loss.backward()
    assert told(first, meter) == told(second, meter) == [2.0, 3.0, 1.0]


def test_on_two_levels_the_update_is_one_level_down() -> None:
    meter = Meter(Autodiff[Train])
    x = Tensor[Autodiff[Train]].from_data([[1.0, 2.0]])
    grads = meter(x).sum().backward()
    update = grads.buffer_updates[meter.seen.id]
    assert update.device is Train.device()
    assert update.tolist() == [1.0, 2.0, 1.0]
    assert grads[meter.scale.value].device is Train.device()


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_updates_are_in_the_dtype_of_the_buffer(meter: Meter[Any], dtype: str) -> None:
    result = meter.astype(dtype)(ONE.to_dtype(dtype)).sum().backward().buffer_updates[meter.seen.id]
    assert result.dtype == np.dtype(dtype)


def test_mistakes_are_named(meter: Meter[Any]) -> None:
    with pytest.raises(ShapeError, match=r"a value of shape \(\) for a buffer of shape \(2,\)"):
        record_update(ONE, meter.seen, ONE.sum())
    grads = meter(ONE).sum().backward()
    with pytest.raises(ModuleError, match="updates of 1 buffers that Linear does not hold"):
        stepped(Linear(2, 2, device=Train), {}, grads.buffer_updates)
    with pytest.raises(DeviceError):
        _ = grads + Tensor[Autodiff[Train]].ones(()).require_grad().backward()
